import Foundation
import GatewayHTTP
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayProxy

/// Connections of clients that speak HTTP/2, frame by frame.
@Suite(.timeLimit(.minutes(5)))
struct HTTP2ClientTests {
    private typealias Kind = RawHTTP2Client.Kind
    private static let enhanceYourCalm: UInt32 = 0xB

    /// Answers each request with what it has read of it.
    private func echo() throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let (head, body) = connection.readMessage() {
                origin.record(head + body)
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
            }
        }
    }

    @Test func aRequestIsForwardedWithTheCredential() async throws {
        try await withProxy(try echo(), source: ScriptedSource()) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let stream = try client.begin(
                RawHTTP2Client.head("PUT", "/api/x", [("content-length", "5")]),
                isLast: false
            )
            client.content(Array("hello".utf8), isLast: true, stream: stream)
            let response = try client.response(stream)
            #expect(response.status == "200" && response.text == "hello")
            #expect(response.fields["connection"] == nil && response.fields["date"] != nil)
        }
    }

    @Test func streamsShareAConnection() async throws {
        try await withProxy(try echo()) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            for _ in 0..<200 {
                #expect(try client.response(try client.begin()).status == "200")
            }
        }
    }

    @Test func contentStaysWithinTheWindow() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + String(repeating: "x", count: 1000))
        }
        try await withProxy(origin) { proxy in
            // SETTINGS_INITIAL_WINDOW_SIZE is 10.
            let client = try RawHTTP2Client(port: proxy.port, settings: [0, 4, 0, 0, 0, 10])
            defer { client.close() }
            let stream = try client.begin()
            #expect(try client.response(stream, until: 10).body.count == 10)
            client.send(Kind.windowUpdate, stream: stream, RawHTTP2Client.bytes(20))
            #expect(try client.response(stream, until: 20).body.count == 20)
            // A smaller window than what was sent, and then a larger one.
            client.send(Kind.settings, stream: 0, [0, 4, 0, 0, 0, 0])
            client.send(Kind.settings, stream: 0, [0, 4, 0, 0, 4, 0])
            #expect(try client.response(stream).body.count == 970)
        }
    }

    @Test func aMalformedRequestIsReset() async throws {
        try await withProxy(try RawOrigin { _, _, _ in }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let stream = try client.begin(RawHTTP2Client.head("GET", "/api/x", [("connection", "close")]))
            #expect(try client.response(stream).reset == 1)
            #expect(proxy.observer.requests.map(\.problem) == [.requestRefused])
            #expect(proxy.observer.requests.map(\.status) == [0], "it got no response")
            let refused = try client.response(try client.begin(RawHTTP2Client.head("TRACE")))
            #expect(refused.status == "405")
        }
    }

    @Test func ofAResponseItsCookiesAloneAreNotKeptInTheTableOfTheConnection() async throws {
        let fields = "Set-Cookie: a=1\r\nX-Kind: b\r\nContent-Length: 2\r\n"
        try await withProxy(try RawOrigin.answering("HTTP/1.1 200 OK\r\n\(fields)\r\nok")) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let response = try client.response(try client.begin())
            #expect(response.fields["set-cookie"] != nil && response.fields["x-kind"] == "b")
            #expect(response.neverIndexed == ["set-cookie"])
        }
    }

    @Test func aResetEndsTheUpstreamRequest() async throws {
        let origin = try RawOrigin { connection, _, _ in
            guard connection.readMessage() != nil else { throw RawError("no request") }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")
            try connection.readToEnd(.closed)
        }
        try await withProxy(origin) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let stream = try client.begin()
            #expect(try client.response(stream, until: 3).text == "abc")
            client.send(Kind.reset, stream: stream, RawHTTP2Client.bytes(8))
            try blockUntil("the request is over") { proxy.observer.requests.count == 1 }
        }
    }

    @Test func aBrokenResponseIsReset() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")
            connection.close()
        }
        try await withProxy(origin) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let response = try client.response(try client.begin())
            #expect(response.status == "200" && response.text == "abc" && response.reset == 2)
        }
    }

    // MARK: Heads

    @Test func longHeadsGoInSeveralFramesBothWays() async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let (head, _) = connection.readMessage() {
                origin.record(head)
                let value = String(repeating: "~", count: 30_000)
                connection.send("HTTP/1.1 200 OK\r\nX-Long: \(value)\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        try await withProxy(origin, limits: Self.limits { $0.headerBytes = 65_536 }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let value = String(repeating: "a", count: 30_000)
            for length in [16_384, 4000] {
                let fields = RawHTTP2Client.head("GET", "/api/x", [("x-long", value)])
                let response = try client.response(try client.begin(fields, cutAt: length))
                #expect(response.status == "200" && response.fields["x-long"]?.count == 30_000)
                #expect(response.blockFrames == 2 && response.text == "ok")
            }
            #expect(origin.requests.allSatisfy { $0.contains("x-long: \(value)\r\n") } && origin.requests.count == 2)
        }
    }

    @Test func aHeadBeyondTheLimitIsAnsweredAndTheConnectionGoesOn() async throws {
        try await withProxy(try echo(), limits: Self.limits { $0.headerBytes = 20_480 }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let value = String(repeating: "~", count: 20_500)
            let fields = RawHTTP2Client.head("GET", "/api/x", [("x-long", value)])
            for _ in 0..<2 { #expect(try client.response(try client.begin(fields, cutAt: 16_384)).status == "431") }
            #expect(proxy.observer.requests.map(\.problem) == [.fieldsTooLarge, .fieldsTooLarge])
            #expect(try client.response(try client.begin()).status == "200")
        }
    }

    /// Such as a few bytes of HPACK stand for.
    private static func longHead(_ path: String) -> [(String, String)] {
        RawHTTP2Client.head("GET", path, [("x-long", String(repeating: "~", count: 30_000))])
    }

    @Test func theHeadsOfAConnectionHaveABound() async throws {
        let origin = try RawOrigin { connection, _, _ in
            while connection.readMessage() != nil {}
        }
        try await withProxy(origin) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let streams = try (0..<40).map { _ in try client.begin(Self.longHead("/api/x"), cutAt: 16_384) }
            let admitted = HTTP2ClientConnection.maximumHeadBytes / 30_000 + 1
            for stream in streams[admitted...] { #expect(try client.response(stream).reset == 7) }
            #expect(try client.response(try client.begin()).reset == 7)
            let reported = proxy.observer.requests
            #expect(reported.count == streams.count - admitted + 1)
            #expect(reported.allSatisfy { $0.problem == .clientLimitReached && $0.method == "GET" && $0.status == 0 })
            // There is room again behind one that has ended.
            client.send(Kind.reset, stream: streams[0], RawHTTP2Client.bytes(8))
            #expect(try client.response(try client.begin(RawHTTP2Client.head("GET", "/nowhere"))).status == "404")
        }
    }

    /// 1.8 MB of heads: those that were answered without an exchange are not kept, and neither are their streams.
    @Test func refusedRequestsWhoseClientOpensNoWindowAreNotKept() async throws {
        try await withProxy(try echo()) { proxy in
            // SETTINGS_INITIAL_WINDOW_SIZE is 0.
            let client = try RawHTTP2Client(port: proxy.port, settings: [0, 4, 0, 0, 0, 0])
            defer { client.close() }
            let streams = try (0..<60).map { _ in try client.begin(Self.longHead("/nowhere"), cutAt: 16_384) }
            let responses = try streams.map { try client.response($0) }
            #expect(responses.allSatisfy { $0.status == "404" && $0.body.isEmpty && $0.reset == 8 })
            let last = try client.begin(Self.longHead("/nowhere"), cutAt: 16_384)
            client.send(Kind.windowUpdate, stream: last, RawHTTP2Client.bytes(10_000))
            let response = try client.response(last)
            #expect(response.status == "404" && response.reset == nil && !response.body.isEmpty)
        }
    }

    @Test func aResponseWithoutContentEndsWithItsHead() async throws {
        try await withProxy(try RawOrigin.answering("HTTP/1.1 204 No Content\r\n\r\n")) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let response = try client.response(try client.begin())
            #expect(response.status == "204" && response.lastKind == Kind.headers)
        }
    }

    @Test func trailersAndInformationalResponses() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n")
        }
        try await withProxy(origin) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let fields = RawHTTP2Client.head("GET", "/api/x", [("te", "trailers")])
            let response = try client.response(try client.begin(fields))
            #expect(response.status == "200" && response.text == "abc" && response.fields["x-sum"] == "1")
            #expect(response.fields["link"] != nil && response.blockFrames == 3)
        }
    }

    /// HTTP/2 has a place for them behind content of known length; HTTP/1 has none.
    @Test(arguments: ["in one write", "by themselves", "behind no content"])
    func trailersBehindAKnownLength(arrive: String) async throws {
        let content = arrive == "behind no content" ? "" : "abc"
        let origin = try RawOrigin { connection, _, _ in
            let server = try RawHTTP2Server(connection)
            while let (stream, _, _) = try? server.request() {
                let length = ("content-length", String(content.utf8.count))
                try server.head([(":status", "200"), length], stream: stream)
                if !content.isEmpty { server.content(content, isLast: false, stream: stream) }
                if arrive == "by themselves" { Thread.sleep(forTimeInterval: 0.1) }
                try server.head([("grpc-status", "0"), ("x-sum", "1")], isLast: true, stream: stream)
            }
        }
        try await withProxy(origin, route: { $0.upstreamProtocol = .http2 }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let response = try client.response(try client.begin())
            #expect(response.status == "200" && response.text == content && response.reset == nil)
            #expect(response.fields["content-length"] == String(content.utf8.count))
            #expect(response.fields["grpc-status"] == "0" && response.fields["x-sum"] == "1")
            let old = try RawConnection(port: proxy.port)
            defer { old.close() }
            for _ in 0..<2 {
                old.send("GET /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
                let message = try #require(old.readMessage())
                #expect(message.head.hasPrefix("HTTP/1.1 200") && message.body == content)
            }
        }
    }

    // MARK: Informational responses

    /// 23 MB of them: what a client does not read is not kept for it.
    @Test func informationalResponsesAreDroppedForAClientThatReadsNothing() async throws {
        let origin = try RawOrigin { connection, _, _ in
            let hint = "HTTP/1.1 103 Early Hints\r\nLink: </\(String(repeating: "x", count: 24_000))>\r\n\r\n"
            guard connection.readMessage() != nil else { return }
            for _ in 0..<60 { connection.send(hint) }
            connection.send("HTTP/1.1 204 No Content\r\n\r\n")
            _ = connection.readMessage()
        }
        try await withProxy(origin) { proxy in
            let client = try RawHTTP2Client(port: proxy.port, receiveBuffer: 16_384)
            defer { client.close() }
            let streams = try (0..<16).map { _ in try client.begin() }
            try blockUntil("all were answered") { proxy.observer.requests.count == streams.count }
            let responses = try streams.map { try client.response($0) }
            #expect(responses.allSatisfy { $0.status == "204" })
            // Two for each head of these. The system holds some megabytes, too.
            #expect(responses.reduce(0) { $0 + $1.blockFrames } < 800)
        }
    }

    /// All of them come in one turn, in which nothing is flushed: 1.7 MB, for 6 KB from the upstream.
    @Test func informationalResponsesThatExpandAreDropped() async throws {
        let origin = try RawOrigin { connection, _, _ in
            let server = try RawHTTP2Server(connection)
            server.expandingHints(stream: try server.request().stream)
            _ = server.rest()
        }
        try await withProxy(origin, route: { $0.upstreamProtocol = .http2 }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let response = try client.response(try client.begin())
            #expect(response.status == "200" && response.fields["x-a"]?.count == 3900)
            // The mark, and one more; each head has two frames.
            #expect((2...20).contains(response.blockFrames))
        }
    }

    private static func limits(_ change: (inout Limits) -> Void) -> Limits {
        var limits = Limits()
        change(&limits)
        return limits
    }

    // MARK: Streams

    @Test func aStreamBeyondTheLimitIsRefusedAlone() async throws {
        let origin = try RawOrigin { connection, _, _ in
            guard connection.readMessage() != nil else { throw RawError("no request") }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")
            try connection.readToEnd(.closed)
        }
        try await withProxy(origin, limits: Self.limits { $0.streamsPerConnection = 1 }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let first = try client.begin()
            #expect(try client.response(first, until: 3).text == "abc")
            #expect(try client.response(try client.begin(RawHTTP2Client.head("DELETE"))).reset == 7)
            let reported = proxy.observer.requests
            #expect(reported.map(\.problem) == [.clientLimitReached] && reported.map(\.method) == ["DELETE"])
            #expect(reported.map(\.status) == [0], "it got no response")
            client.send(Kind.reset, stream: first, RawHTTP2Client.bytes(8))
            try blockUntil("the request is over") { proxy.observer.requests.count == 2 }
            #expect(try client.response(try client.begin(), until: 3).text == "abc")
        }
    }

    /// More than the windows hold: they open as the content is taken.
    @Test func contentIsCreditedAsItIsTaken() async throws {
        try await withProxy(try echo()) { proxy in
            let client = try RawHTTP2Client(port: proxy.port, settings: [0, 4, 0, 0x10, 0, 0])
            defer { client.close() }
            client.send(Kind.windowUpdate, stream: 0, RawHTTP2Client.bytes(1 << 20))
            let count = 400_000
            let fields = RawHTTP2Client.head("PUT", "/api/x", [("content-length", "\(count)")])
            let stream = try client.begin(fields, isLast: false)
            var (sent, room) = (0, HTTP2Configuration.streamWindow)
            while sent < count {
                while room == 0 {
                    let frame = try #require(client.next())
                    guard frame.kind == Kind.windowUpdate, frame.stream == stream else { continue }
                    room += Int(frame.number(0))
                }
                let length = min(room, 16_384, count - sent)
                (sent, room) = (sent + length, room - length)
                client.content([UInt8](repeating: 0x61, count: length), isLast: sent == count, stream: stream)
            }
            let response = try client.response(stream)
            #expect(response.status == "200" && response.body.count == count)
        }
    }

    /// The window of the connection is the bottleneck, and no stream has it for itself.
    @Test func streamsTakeTurns() async throws {
        let origin = try RawOrigin { connection, _, _ in
            let content = String(repeating: "x", count: 60_000)
            while connection.readMessage() != nil {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n\(content)")
            }
        }
        try await withProxy(origin) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            // Takes the whole window of the connection, but for 5535 bytes.
            #expect(try client.response(try client.begin()).body.count == 60_000)
            let streams = try (0..<3).map { _ in try client.begin() }
            try blockUntil("all have come") { proxy.observer.requests.count == 4 }
            var counts: [UInt32: Int] = [:]
            client.send(Kind.windowUpdate, stream: 0, RawHTTP2Client.bytes(60_000))
            while counts.values.reduce(0, +) < 65_535 {
                let frame = try #require(client.next())
                if frame.kind == Kind.data { counts[frame.stream, default: 0] += frame.payload.count }
            }
            #expect(streams.allSatisfy { counts[$0, default: 0] > 0 })
        }
    }

    @Test func anEarlyAnswerStopsTheUpload() async throws {
        try await withProxy(try echo()) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let stream = try client.begin(RawHTTP2Client.head("POST", "/nowhere"), isLast: false)
            #expect(try client.response(stream).status == "404")
            #expect(try client.next(Kind.reset, stream: stream).number(0) == 0)
            #expect(try client.response(try client.begin()).status == "200")
        }
    }

    @Test func aDrainDoesNotWaitForAClientThatAnswersNoPing() async throws {
        try await withProxy(try echo(), limits: Self.limits { $0.connectionMaxAge = .zero }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            for last: UInt32 in [0x7FFF_FFFF, 3] {
                let stream = try client.begin(RawHTTP2Client.head("GET", "/nowhere"))
                #expect(try client.response(stream).status == "404")
                #expect(try client.next(Kind.goAway).number(0) == last)
            }
            #expect(client.next() == nil)
        }
    }

    // MARK: Defences

    /// - Returns: The code of the GOAWAY that ended the connection.
    private func flooded(_ flood: @escaping @Sendable (RawHTTP2Client) throws -> Void) async throws -> UInt32? {
        let code = Mutex<UInt32?>(nil)
        try await withProxy(try echo()) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            try flood(client)
            let end = client.end()
            code.withLock { $0 = end }
            let other = try RawHTTP2Client(port: proxy.port)
            defer { other.close() }
            #expect(try other.response(try other.begin()).status == "200")
        }
        return code.withLock { $0 }
    }

    @Test func rapidResetsEndTheConnection() async throws {
        let code = try await flooded { client in
            for _ in 0..<1000 {
                let stream = try client.begin()
                client.send(Kind.reset, stream: stream, RawHTTP2Client.bytes(8))
            }
        }
        #expect(code == Self.enhanceYourCalm)
    }

    @Test(arguments: [(RawHTTP2Client.Kind.ping, 8), (RawHTTP2Client.Kind.settings, 0)])
    func controlFramesEndTheConnection(_ kind: UInt8, _ length: Int) async throws {
        let code = try await flooded { client in
            for _ in 0..<1200 { client.send(kind, stream: 0, [UInt8](repeating: 0, count: length)) }
        }
        #expect(code == Self.enhanceYourCalm)
    }

    @Test func malformedRequestsEndTheConnection() async throws {
        let code = try await flooded { client in
            for _ in 0..<1000 { try client.begin(RawHTTP2Client.head("GET", "x")) }
        }
        #expect(code == Self.enhanceYourCalm)
    }

    @Test func emptyContentEndsTheConnection() async throws {
        let code = try await flooded { client in
            let stream = try client.begin(RawHTTP2Client.head("POST"), isLast: false)
            for _ in 0..<100 { client.content([], stream: stream) }
        }
        #expect(code == Self.enhanceYourCalm)
    }

    @Test func continuationsEndTheConnection() async throws {
        let code = try await flooded { client in
            client.send(Kind.headers, flags: 1, stream: 1, try client.block(RawHTTP2Client.head()))
            for _ in 0..<100 { client.send(Kind.continuation, stream: 1) }
        }
        #expect(code == Self.enhanceYourCalm)
    }

    /// A frame, and the code of the GOAWAY or RST_STREAM that answers it.
    struct Broken: Sendable, CustomTestStringConvertible {
        let kind: UInt8
        let flags: UInt8
        let stream: UInt32
        let payload: [UInt8]
        let code: UInt32

        init(_ kind: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = [], is code: UInt32) {
            (self.kind, self.flags, self.stream, self.payload, self.code) = (kind, flags, stream, payload, code)
        }

        var testDescription: String { "\(kind) with \(flags) on \(stream), \(payload.count) bytes: \(code)" }
    }

    @Test(arguments: [
        Broken(0, [1], is: 1), Broken(0, stream: 3, [1], is: 1), Broken(1, flags: 5, stream: 2, [0x82], is: 1),
        Broken(1, flags: 5, stream: 1, [0xFF, 0xFF, 0xFF, 0xFF, 0x0F], is: 9), Broken(2, [0, 0, 0, 1, 5], is: 1),
        Broken(3, stream: 1, [0, 0, 0, 8], is: 1), Broken(3, stream: 1, [0, 8], is: 6),
        Broken(4, [0, 4, 0, 0, 0], is: 6),
        Broken(4, stream: 1, is: 1), Broken(4, flags: 1, [0, 4, 0, 0, 0, 1], is: 6),
        Broken(4, [0, 2, 0, 0, 0, 2], is: 1), Broken(4, [0, 4, 0x80, 0, 0, 0], is: 3),
        Broken(4, [0, 5, 0, 0, 0, 0], is: 1),
        Broken(5, flags: 4, stream: 1, [0, 0, 0, 2, 0x82], is: 1), Broken(6, [1, 2, 3, 4, 5, 6], is: 6),
        Broken(6, stream: 1, [1, 2, 3, 4, 5, 6, 7, 8], is: 1), Broken(7, [0, 0, 0, 0], is: 6),
        Broken(8, [0, 0, 0, 0], is: 1),
        Broken(8, stream: 1, [0, 0, 0, 1], is: 1), Broken(8, [0, 0, 1], is: 6),
        Broken(9, flags: 4, stream: 1, [0x82], is: 1),
        Broken(0, stream: 1, [UInt8](repeating: 0, count: 16_385), is: 6),
    ])
    func aFrameThatBreaksTheConnectionEndsIt(_ frame: Broken) async throws {
        let code = try await flooded { $0.send(frame.kind, flags: frame.flags, stream: frame.stream, frame.payload) }
        #expect(code == frame.code)
    }

    @Test(arguments: [
        Broken(8, stream: 1, [0, 0, 0, 0], is: 1), Broken(8, stream: 1, [0x7F, 0xFF, 0xFF, 0xFF], is: 3),
        Broken(1, flags: 4, stream: 1, [0x00, 1, 0x78, 1, 0x79], is: 1), Broken(2, stream: 1, [0, 0], is: 6),
        Broken(1, flags: 5, stream: 1, [0x00, 1, 0x58, 1, 0x79], is: 1),
    ])
    func aFrameThatBreaksItsStreamResetsIt(_ frame: Broken) async throws {
        let silent = try RawOrigin { connection, _, _ in while connection.readBytes(1) != nil {} }
        try await withProxy(silent) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let stream = try client.begin(RawHTTP2Client.head("POST"), isLast: false)
            client.send(frame.kind, flags: frame.flags, stream: frame.stream, frame.payload)
            #expect(try client.response(stream).reset == frame.code)
            #expect(try client.response(try client.begin(RawHTTP2Client.head("GET", "/nowhere"))).status == "404")
        }
    }

    @Test func whatIsUnknownIsIgnored() async throws {
        try await withProxy(try echo()) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            client.send(0x42, flags: 0xFF, stream: 7, [1, 2, 3])
            client.send(Kind.settings, stream: 0, [0xAA, 0xAA, 1, 2, 3, 4])
            client.send(2, stream: 1, [0, 0, 0, 3, 16])
            let fields = RawHTTP2Client.head("PUT", "/api/x", [("content-length", "3")])
            let stream = try client.begin(fields, isLast: false)
            // With padding, and a flag that DATA does not have.
            client.send(Kind.data, flags: 0x8 | 0x40, stream: stream, [3, 0x61, 0x62, 0, 0, 0])
            client.send(0x42, stream: stream, [1])
            client.content([0x63], isLast: true, stream: stream)
            #expect(try client.response(stream).text == "abc")
            client.send(Kind.ping, stream: 0, [1, 2, 3, 4, 5, 6, 7, 8])
            #expect(try client.next(Kind.ping).payload == [1, 2, 3, 4, 5, 6, 7, 8])
        }
    }

    @Test func aFieldBlockThatDoesNotEndHasADeadline() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")
            try connection.readToEnd(.closed)
        }
        try await withProxy(origin, limits: Self.limits { $0.headerTimeout = .milliseconds(300) }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            #expect(try client.response(try client.begin(), until: 3).text == "abc")
            client.send(Kind.headers, flags: 1, stream: 3, try client.block(RawHTTP2Client.head()))
            #expect(client.end() == Self.enhanceYourCalm)
            #expect(proxy.observer.requests.contains { $0.problem == .requestTimeout && $0.status == 408 })
        }
    }

    /// 50,000 bytes, cut into frames.
    private static func longBlock(_ client: RawHTTP2Client) throws -> [[UInt8]] {
        // A field `x` that is spelled out, without Huffman's code.
        let field: [UInt8] = [0x00, 1, 0x78, 0x7F, 0xD1, 0x85, 0x03] + [UInt8](repeating: 0x7E, count: 50_000)
        let block = try client.block(RawHTTP2Client.head("GET", "/nowhere")) + field
        return stride(from: 0, to: block.count, by: 16_384).map { Array(block[$0..<min($0 + 16_384, block.count)]) }
    }

    /// As unfinished heads of HTTP/1 do (`limits.head_memory`).
    @Test func theOldestUnfinishedFieldBlockGivesWay() async throws {
        let limits = Self.limits { ($0.headerBytes, $0.headMemory) = (65_536, 90_000) }
        try await withProxy(try echo(), limits: limits) { proxy in
            let clients = try (0..<3).map { _ in try RawHTTP2Client(port: proxy.port) }
            defer { for client in clients { client.close() } }
            var last: [UInt8] = []
            for client in clients {
                var parts = try Self.longBlock(client)
                last = parts.removeLast()
                client.send(Kind.headers, flags: 1, stream: 1, parts[0])
                for part in parts[1...] { client.send(Kind.continuation, stream: 1, part) }
                // It is read before the next one begins.
                let other = try proxy.exchange("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
                #expect(other.head.contains(" 404 "))
            }
            #expect(clients[0].end() == Self.enhanceYourCalm)
            #expect(clients[1].end() == Self.enhanceYourCalm)
            clients[2].send(Kind.continuation, flags: 4, stream: 1, last)
            #expect(try clients[2].response(1).status == "404")
            let reported = proxy.observer.requests.filter { $0.problem == .requestTimeout }
            #expect(reported.count == 2 && reported.allSatisfy { $0.status == 408 })
        }
    }

    @Test func aRequestWhoseFieldBlockEndsTheConnectionIsReported() async throws {
        try await withProxy(try echo()) { proxy in
            let broken = try RawHTTP2Client(port: proxy.port)
            defer { broken.close() }
            broken.send(Kind.headers, flags: 5, stream: 1, [0xFF, 0xFF, 0xFF, 0xFF, 0x0F])
            #expect(broken.end() == 9)
            let endless = try RawHTTP2Client(port: proxy.port)
            defer { endless.close() }
            endless.send(Kind.headers, flags: 1, stream: 1, try endless.block(RawHTTP2Client.head()))
            for _ in 0..<100 { endless.send(Kind.continuation, stream: 1) }
            #expect(endless.end() == Self.enhanceYourCalm)
            #expect(proxy.observer.requests.map(\.problem) == [.requestRefused, .fieldsTooLarge])
        }
    }

    @Test func windowsThatOverflowEndTheConnection() async throws {
        let code = try await flooded { client in
            client.send(Kind.windowUpdate, stream: 0, RawHTTP2Client.bytes(0x7FFF_FFFF))
        }
        #expect(code == 3)
    }
}
