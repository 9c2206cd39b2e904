import Foundation
import GatewayHTTP
import Synchronization
import Testing

@testable import GatewayProxy

private let rejection =
    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer error=\"invalid_token\"\r\nContent-Length: 0\r\n"

/// What could make one message of a connection part of another, or let a connection wait for what has already come.
@Suite(.timeLimit(.minutes(5)))
struct DesyncTests {
    @Test func aConnectionWithHalfARequestIsNotUsedForItsReplay() async throws {
        let origin = try RawOrigin { connection, number, origin in
            guard let head = connection.read(through: "\r\n\r\n") else { return }
            if head.contains("token-1") {
                // An early answer: the body has not come, and this connection stays open for it.
                connection.send(rejection + "\r\n")
                origin.record("first: \(try connection.readToEnd(.closed))")
            } else {
                origin.record("\(number) asked for the body")
                connection.send("HTTP/1.1 100 Continue\r\n\r\n")
                origin.record("\(number): \(connection.read(count: 4) ?? "")")
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        try await withProxy(origin, source: ScriptedSource()) { proxy in
            let client = try proxy.client()
            client.send("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
            #expect(client.read(through: "\r\n\r\n")?.hasPrefix("HTTP/1.1 100") == true)
            client.send("body")
            #expect(client.readMessage()?.body == "ok")
            #expect(origin.requests.contains("2: body"))
            client.close()
        }
    }

    @Test func requestsSentAheadDoNotTakeTheLastAnswerAway() async throws {
        let size = 1 << 20
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.read(through: "\r\n\r\n")
            // Ends with the connection, so this answer is the last one to a client of 1.0, too.
            connection.send("HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "x", count: size))
            connection.close()
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            let filler = String(repeating: "y", count: 8000)
            let fields = "Host: localhost\r\nConnection: keep-alive\r\nX-Filler: \(filler)\r\n\r\n"
            client.send(String(repeating: "GET /api HTTP/1.0\r\n" + fields, count: 12))
            #expect(client.read(through: "\r\n\r\n")?.contains("Connection: close") == true)
            try #expect(client.readToEnd(.closed).utf8.count == size)
            client.close()
        }
    }

    @Test func aRejectionWhoseConnectionEndsIsStillReplayed() async throws {
        let closed = DispatchSemaphore(value: 0)
        let origin = try RawOrigin { connection, _, _ in
            guard let head = connection.read(through: "\r\n\r\n") else { return }
            let isFresh = head.contains("token-2")
            let answer =
                isFresh ? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" : rejection + "Connection: close\r\n\r\n"
            connection.send(answer)
            // Ends when the gateway has seen the end of ours and has closed in its turn.
            connection.shutdownOutput()
            try connection.readToEnd(.closed)
            connection.close()
            if !isFresh { closed.signal() }
        }
        let source = ScriptedSource { $0.renewsAtOnce = false }
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(closed.wait(timeout: .now() + 3) == .success)
            source.settle(.success(ScriptedSource.credential(2)))
            #expect(client.readMessage()?.body == "ok")
            client.close()
        }
    }

    @Test func anAnswerThatWasKeptBackSurvivesItsConnection() async throws {
        let closed = DispatchSemaphore(value: 0)
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.read(through: "\r\n\r\n")
            // No length: the end of the connection is the end of the content.
            connection.send("HTTP/1.0 401 Unauthorized\r\nContent-Type: text/plain\r\n\r\nwhy not")
            connection.shutdownOutput()
            try connection.readToEnd(.closed)
            closed.signal()
        }
        let source = ScriptedSource { $0.renewsAtOnce = false }
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(closed.wait(timeout: .now() + 3) == .success)
            source.settle(.failure(GatewayProblem(.reauthorizationRequired, "gone")))
            let answer = try #require(client.read(through: "\r\n0\r\n\r\n"))
            #expect(answer.hasPrefix("HTTP/1.1 401"))
            #expect(answer.hasSuffix("\r\n\r\n7\r\nwhy not\r\n0\r\n\r\n"))
        }
    }

    @Test func aLateCredentialOfAnEarlierRequestIsNotTheNextOnes() async throws {
        let origin = try RawOrigin.answering()
        let source = ScriptedSource { $0.isCold = true }
        var limits = Limits()
        limits.credentialTimeout = .milliseconds(300)
        try await withProxy(origin, source: source, limits: limits) { proxy in
            let client = try proxy.client()
            client.send("GET /api/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 504") == true)
            client.send("GET /api/2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try source.untilAsked(2)
            let waiters = source.state.withLock { $0.waiters }
            waiters[0](.success(ScriptedSource.credential(7)))
            waiters[1](.success(ScriptedSource.credential(8)))
            #expect(client.readMessage()?.body == "ok")
            #expect(origin.requests[0].contains("token-8"))
            client.close()
        }
    }

    @Test func aPipelinedRequestIsServedAfterAFailedOne() async throws {
        let origin = try RawOrigin { connection, _, _ in
            while let message = connection.readMessage() {
                if message.head.hasPrefix("POST") { return connection.reset() }
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send(
                "POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
                    + "GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 502") == true)
            #expect(client.readMessage()?.body == "ok")
            client.close()
        }
    }

    @Test func trailersMayComeInPieces() async throws {
        let ended = DispatchSemaphore(value: 0)
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.read(through: "\r\n\r\n")
            _ = connection.read(through: "\r\n0\r\n")
            ended.signal()
            _ = connection.read(through: "X-Sum: 1\r\n\r\n")
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send(
                "POST /api HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Sum"
            )
            #expect(ended.wait(timeout: .now() + 3) == .success)
            client.send(": 1\r\n\r\n")
            #expect(client.readMessage()?.body == "ok")
            client.close()
        }
    }

    @Test func anOfferOfClearTextHTTP2IsNotForwardedBesideAnother() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin) { proxy in
            let answer = try proxy.exchange(
                "GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n\r\n"
            )
            #expect(answer.body == "ok")
            #expect(!origin.requests[0].lowercased().contains("upgrade"))
        }
    }

    @Test func aBodyThatEndsWithItsConnectionHalfIsForwardedWhole() async throws {
        let origin = try RawOrigin.answering()
        let source = ScriptedSource { $0.isCold = true }
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send("POST /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody")
            client.shutdownOutput()
            try source.untilAsked()
            source.settle(.success(ScriptedSource.credential(1)))
            try #expect(client.readToEnd(.closed).hasSuffix("\r\n\r\nok"))
            #expect(origin.requests[0].hasSuffix("\r\n\r\nbody"))
        }
    }
}
