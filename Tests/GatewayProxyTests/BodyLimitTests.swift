import Foundation
import GatewayHTTP
import Synchronization
import Testing

@testable import GatewayProxy

/// `limits.request_body_bytes`.
@Suite(.timeLimit(.minutes(5)))
struct BodyLimitTests {
    private let limits: Limits = {
        var limits = Limits()
        limits.requestBodyBytes = 10
        return limits
    }()

    private func chunked(_ chunks: [String]) -> String {
        let head = "POST /api HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        return head + chunks.map { "\(String($0.utf8.count, radix: 16))\r\n\($0)\r\n" }.joined()
    }

    @Test func whoseBodyIsTooLongIsKnown() async throws {
        let origin = try RawOrigin.answering()
        let clients = [AccessPlan.Client(name: "laptop", proof: .token(Secret("t")))]
        let access = AccessPlan(clients: clients, allowedOrigins: [], requireClient: .true)
        try await withProxy(origin, access: access, limits: limits) { proxy in
            for (token, status) in [("t", "413"), ("u", "401")] {
                let head = "POST /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n"
                try #expect(proxy.exchange(head + "Content-Length: 11\r\n\r\n").head.hasPrefix("HTTP/1.1 \(status) "))
            }
            #expect(proxy.observer.uses.map(\.client) == ["laptop", nil])
        }
    }

    @Test func aBodyThatIsAnnouncedAsTooLongTakesNoTokenAndReachesNobody() async throws {
        let origin = try RawOrigin.answering()
        let source = ScriptedSource()
        try await withProxy(origin, source: source, limits: limits) { proxy in
            let client = try proxy.client()
            client.send("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n")
            let answer = try #require(client.readMessage())
            #expect(answer.head.hasPrefix("HTTP/1.1 413 Content Too Large\r\n"))
            #expect(answer.head.contains("Connection: close\r\n"))
            #expect(answer.body.contains("content-too-large"))
            #expect(answer.body.contains("limits.request_body_bytes: 10"))
            try #expect(client.readToEnd(.closed).isEmpty)
            #expect(origin.requests.isEmpty)
            #expect(source.state.withLock { $0.events } == [])
        }
    }

    /// - Parameter answer: What the origin sends when all that fits has come.
    /// - Returns: What the client got, the request that the origin got, and whether that was all within a second.
    private func excess(_ answer: String) async throws -> (answer: String, request: String, isCutSoon: Bool) {
        let (forwarded, cut) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let origin = try RawOrigin { connection, _, origin in
            origin.record(connection.read(through: "67890\r\n") ?? "")
            connection.send(answer)
            forwarded.signal()
            origin.record(try connection.readToEnd(.closed))
            cut.signal()
        }
        let start = chunked(["12345", "67890"])
        let got = Mutex(("", false))
        try await withProxy(origin, limits: limits) { proxy in
            let client = try proxy.client()
            client.send(start)
            #expect(forwarded.wait(timeout: .now() + 5) == .success)
            let begun = answer.isEmpty ? "" : try #require(client.read(through: answer.suffix(3).description))
            client.send("1\r\n!\r\n0\r\n\r\n")
            // An answer that has begun is cut so that its client sees that.
            let rest = try client.readToEnd(answer.isEmpty ? .closed : .reset)
            got.withLock { $0 = (begun + rest, cut.wait(timeout: .now() + 1) == .success) }
        }
        let (received, isCutSoon) = got.withLock(\.self)
        return (received, origin.requests.joined(), isCutSoon)
    }

    @Test func aChunkedBodyIsStoppedWhereItGetsTooLong() async throws {
        let (answer, request, isCutSoon) = try await excess("")
        #expect(answer.hasPrefix("HTTP/1.1 413 "))
        #expect(isCutSoon && request.hasSuffix("67890\r\n"))
    }

    @Test func anAnswerThatHasBegunIsCut() async throws {
        let (answer, request, isCutSoon) = try await excess("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.hasSuffix("\r\n\r\nabc"))
        #expect(isCutSoon && request.hasSuffix("67890\r\n"))
    }

    @Test func whatJustFitsPassesAndTheFramingOfChunksDoesNotCount() async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                let isChunked = message.head.lowercased().contains("transfer-encoding")
                origin.record(message.body + (isChunked ? connection.read(through: "0\r\n\r\n") ?? "" : ""))
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        let inChunks = chunked("1234567890".map(String.init)) + "0\r\n\r\n"
        try await withProxy(origin, limits: limits) { proxy in
            let client = try proxy.client()
            for request in ["POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n1234567890", inChunks] {
                client.send(request)
                #expect(client.readMessage()?.body == "ok")
            }
            // What frames the chunks has only ones and zeros.
            #expect(origin.requests.map { $0.filter("23456789".contains) } == ["23456789", "23456789"])
            client.close()
        }
    }
}
