import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

/// Connections to an upstream that speaks HTTP/2, frame by frame.
@Suite("Upstreams of HTTP/2", .timeLimit(.minutes(5)))
struct HTTP2UpstreamTests {
    private typealias Kind = RawHTTP2Client.Kind
    private static let refused: UInt32 = 7

    private static func get(_ path: String = "/api/x") -> String {
        "GET \(path) HTTP/1.1\r\nHost: api.localhost\r\n\r\n"
    }

    private static func post(_ body: String) -> String {
        "POST /api/x HTTP/1.1\r\nHost: api.localhost\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    /// - Parameters:
    ///   - settings: Payload of the upstream's SETTINGS.
    ///   - serve: Gets the number of the connection, too.
    private func withUpstream(
        settings: [UInt8] = [],
        source: (any CredentialSource)? = nil,
        limits: Limits = Limits(),
        _ serve: @escaping @Sendable (RawHTTP2Server, Int) throws -> Void,
        _ body: @escaping @Sendable (ProxyFixture) throws -> Void
    ) async throws {
        let origin = try RawOrigin { connection, number, _ in
            try serve(RawHTTP2Server(connection, settings: settings), number)
        }
        try await withProxy(origin, source: source, limits: limits, route: { $0.upstreamProtocol = .http2 }, body)
    }

    @Test func aRequestGoesAsFieldsAndItsResponseComesBackAsAHead() async throws {
        try await withUpstream(source: ScriptedSource()) { server, _ in
            let request = try server.request()
            let fields = request.fields.map { "\($0.name): \($0.value)" }
            #expect(fields.prefix(3) == [":method: GET", ":scheme: http", ":path: /api/x"])
            #expect(fields.contains("authorization: Bearer token-1") && request.isLast)
            try server.head([(":status", "200"), ("x-own", "1"), ("content-length", "5")], stream: request.stream)
            server.content("hello", stream: request.stream)
            _ = server.next()
        } _: { proxy in
            let answer = try proxy.exchange(Self.get())
            #expect(answer.head.contains("x-own: 1") && answer.head.contains("Via: 2.0 "))
            #expect(answer.body.contains("hello"))
        }
    }

    @Test func aFailureBehindAProxyNamesTheProxy() async throws {
        let parent = try RawOrigin { connection, _, origin in
            origin.record(connection.read(through: "\r\n\r\n") ?? "")
            connection.send("HTTP/1.1 200 OK\r\n\r\n")
            _ = connection.read(through: "\r\nSM\r\n\r\n")
            connection.close()
        }
        let plan = ParentProxy(origin: Origin(scheme: .http, host: "127.0.0.1", port: parent.port))
        try await withProxy(
            parent,
            route: {
                $0.upstreamProtocol = .http2
                $0.proxy = plan
            }
        ) { proxy in
            let answer = try proxy.exchange(Self.get())
            #expect(answer.head.hasPrefix("HTTP/1.1 502 ") && answer.body.contains("goes through the proxy"))
            #expect(parent.requests.first?.hasPrefix("CONNECT ") == true)
        }
    }

    @Test func aCollectedBodyGoesWithItsLength() async throws {
        let signer = TellingSigner(demand: .wholeBody)
        let source = FixedCredentialSource(name: "keys", strategy: "telling", signer: .everyRequest(signer))
        try await withUpstream(source: source) { server, _ in
            let request = try server.request()
            #expect(request.fields.map { "\($0.name): \($0.value)" }.contains("content-length: 5"))
            #expect(try server.content(of: request.stream, until: 5) == "hello")
            try server.answer("ok", stream: request.stream)
            _ = server.next()
        } _: { proxy in
            let head = "POST /api/x HTTP/1.1\r\nHost: api.localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            try #expect(proxy.exchange(head + "5\r\nhello\r\n0\r\n\r\n").head.hasPrefix("HTTP/1.1 200 "))
        }
    }

    /// The signature would be over GET, but CONNECT would be sent.
    @Test func aWebSocketIsNotSignedForHTTP2() async throws {
        let source = FixedCredentialSource(name: "keys", strategy: "telling", signer: .everyRequest(TellingSigner()))
        try await withUpstream(settings: [0, 8, 0, 0, 0, 1], source: source) { server, _ in
            _ = server.next()
        } _: { proxy in
            let answer = try proxy.exchange(
                "GET /api/chat HTTP/1.1\r\nHost: api.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 502 ") && answer.body.contains("cannot be signed"))
        }
    }

    @Test func contentOfARequestStaysWithinTheWindow() async throws {
        // SETTINGS_INITIAL_WINDOW_SIZE is 4.
        try await withUpstream(settings: [0, 4, 0, 0, 0, 4]) { server, _ in
            let stream = try server.request().stream
            #expect(try server.content(of: stream, until: 4) == "hell")
            // A smaller window than what was sent, and then a larger one.
            server.send(Kind.settings, stream: 0, [0, 4, 0, 0, 0, 0])
            server.grow(stream, by: 5)
            #expect(try server.content(of: stream, until: 1) == "o")
            server.grow(stream, by: 100)
            #expect(try server.content(of: stream) == " world")
            try server.answer("ok", stream: stream)
            _ = server.next()
        } _: { proxy in
            let answer = try proxy.exchange(Self.post("hello world"))
            #expect(answer.body.contains("ok"))
        }
    }

    @Test func aRefusedPostIsSentAgain() async throws {
        try await withUpstream { server, _ in
            let first = try server.request().stream
            server.reset(Self.refused, stream: first)
            let second = try server.request().stream
            #expect(second > first)
            #expect(try server.content(of: second) == "hello")
            try server.answer("ok", stream: second)
            _ = server.next()
        } _: { proxy in
            let answer = try proxy.exchange(Self.post("hello"))
            #expect(answer.body.contains("ok"))
        }
    }

    @Test func whatGoAwayHasNotLookedAtGoesToAnotherConnection() async throws {
        try await withUpstream { server, number in
            let stream = try server.request().stream
            guard number == 1 else {
                try server.answer("ok", stream: stream)
                _ = server.next()
                return
            }
            server.send(Kind.goAway, stream: 0, RawHTTP2Client.bytes(0) + RawHTTP2Client.bytes(0))
            while server.next() != nil {}
        } _: { proxy in
            let answer = try proxy.exchange(Self.post("hello"))
            #expect(answer.body.contains("ok"))
        }
    }

    /// The upstream hears nothing of a request that its client resets at once, and is not asked whether it lives.
    @Test func aRequestThatIsOverWithinItsTurnCausesNoFrames() async throws {
        let kinds = Mutex<[UInt8]>([])
        try await withUpstream { server, _ in
            try server.answer("one", stream: try server.request().stream)
            while let frame = server.next() {
                kinds.withLock { $0.append(frame.kind) }
                if frame.kind == Kind.headers { try server.answer("two", stream: frame.stream) }
            }
        } _: { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            #expect(try client.response(try client.begin()).text == "one")
            try client.beginAndReset()
            #expect(try client.response(try client.begin()).text == "two")
            let seen = kinds.withLock { $0 }
            #expect(seen.filter { [Kind.headers, Kind.reset, Kind.ping].contains($0) } == [Kind.headers])
        }
    }

    @Test func aStreamThatIsResetIsALostRequest() async throws {
        try await withUpstream { server, _ in
            server.reset(2, stream: try server.request().stream)
            try server.answer("ok", stream: try server.request().stream)
            _ = server.next()
        } _: { proxy in
            let lost = try proxy.exchange(Self.post("hello"))
            #expect(lost.head.hasPrefix("HTTP/1.1 502 "))
            let answer = try proxy.exchange(Self.get())
            #expect(answer.body.contains("ok"))
        }
    }

    @Test func aRejectedTokenIsReplacedAndTheRequestSentAgain() async throws {
        try await withUpstream(source: ScriptedSource()) { server, _ in
            for number in 1...2 {
                let request = try server.request()
                #expect(request.fields.contains { $0.value == "Bearer token-\(number)" })
                #expect(try server.content(of: request.stream) == "hello")
                guard number == 1 else {
                    try server.answer("ok", stream: request.stream)
                    break
                }
                try server.head([(":status", "401")], isLast: true, stream: request.stream)
            }
            _ = server.next()
        } _: { proxy in
            let answer = try proxy.exchange(Self.post("hello"))
            #expect(answer.body.contains("ok"))
        }
    }

    /// The client takes nothing, so content would wait. It must not become the body of the head that follows it.
    @Test func contentBeforeTheHeadFailsTheResponse() async throws {
        let isReset = Atomic(false)
        var limits = Limits()
        (limits.headerBytes, limits.headerFields) = (1 << 20, 250)
        try await withUpstream(limits: limits) { server, _ in
            let stream = try server.request().stream
            // More than the system takes for the client. All but the first field come out of the table.
            let hint = [(":status", "103")] + Array(repeating: ("x-a", String(repeating: "v", count: 3900)), count: 240)
            for _ in 0..<10 {
                try server.head(hint, stream: stream)
                // What came before the PING was passed on when it is answered. Of what comes in one turn the gateway drops the rest.
                server.send(Kind.ping, stream: 0, [UInt8](repeating: 1, count: 8))
                _ = try server.next(Kind.ping)
            }
            server.content("sneaked", isLast: false, stream: stream)
            try server.head(stream: stream)
            let reset = try server.next(Kind.reset)
            #expect(reset.stream == stream && reset.number(0) == 1)
            isReset.store(true, ordering: .relaxed)
            while server.next() != nil {}
        } _: { proxy in
            let client = try proxy.client(receiveBuffer: 16_384)
            defer { client.close() }
            client.send("GET /api/x HTTP/1.1\r\nHost: api.localhost\r\nConnection: close\r\n\r\n")
            try blockUntil("the upstream's stream is reset") { isReset.load(ordering: .relaxed) }
            let text = try client.readToEnd(.closed)
            #expect(text.contains("HTTP/1.1 502 ") && !text.contains("sneaked"))
        }
    }

    // MARK: Informational responses

    @Test func informationalResponsesThatExpandAreDropped() async throws {
        try await withUpstream { server, _ in
            server.expandingHints(stream: try server.request().stream)
            _ = server.next()
        } _: { proxy in
            let client = try proxy.client()
            defer { client.close() }
            client.send("GET /api/x HTTP/1.1\r\nHost: api.localhost\r\nConnection: close\r\n\r\n")
            let text = try client.readToEnd(.closed)
            // As many as reach the mark. Each has 27 KB.
            #expect((1...10).contains(text.ranges(of: "HTTP/1.1 103 ").count))
            #expect(text.contains("HTTP/1.1 200 "))
        }
    }

    // MARK: Fields that end nothing

    /// More than the window of a stream would hold, if fields counted in it.
    private static func sendUnfinishedFields(_ server: RawHTTP2Server, stream: UInt32) throws {
        for _ in 0..<100 { try server.head([("x-more", "1")], stream: stream) }
        let reset = try server.next(Kind.reset)
        #expect(reset.stream == stream && reset.number(0) == 1)
    }

    @Test func fieldsThatEndNothingEndAResponseThatItsClientDoesNotTake() async throws {
        let isReset = Atomic(false)
        let size = 16 * 16_384
        try await withUpstream { server, _ in
            let stream = try server.request().stream
            try server.head(stream: stream)
            // As much as the window of the stream allows.
            let part = String(repeating: "c", count: 16_384)
            for _ in 0..<(size / part.utf8.count) { server.content(part, isLast: false, stream: stream) }
            try Self.sendUnfinishedFields(server, stream: stream)
            isReset.store(true, ordering: .relaxed)
        } _: { proxy in
            // SETTINGS_INITIAL_WINDOW_SIZE is 0.
            let client = try RawHTTP2Client(port: proxy.port, settings: [0, 4, 0, 0, 0, 0])
            defer { client.close() }
            let stream = try client.begin()
            try blockUntil("the upstream's stream is reset") { isReset.load(ordering: .relaxed) }
            // What the gateway had for the client leaves before its stream is reset, too.
            for id in [0, stream] { client.send(Kind.windowUpdate, stream: id, RawHTTP2Client.bytes(1 << 20)) }
            let response = try client.response(stream)
            #expect(response.status == "200" && response.reset == 2)
            #expect(!response.body.isEmpty && response.body.count < size)
        }
    }

    @Test(arguments: [true, false])
    func fieldsThatEndNothingResetAStreamWhoseResponseIsHeldBack(_ isRenewed: Bool) async throws {
        let source = ScriptedSource { $0.renewsAtOnce = false }
        try await withUpstream(source: source) { server, _ in
            let first = try server.request().stream
            try server.head([(":status", "401")], stream: first)
            try Self.sendUnfinishedFields(server, stream: first)
            try source.untilAsked()
            guard isRenewed else {
                source.settle(.failure(GatewayProblem(.tokenEndpointUnreachable, "There is none.")))
                while server.next() != nil {}
                return
            }
            source.state.withLock { $0.generation += 1 }
            source.settle(.success(ScriptedSource.credential(2)))
            try server.answer("ok", stream: try server.request().stream)
            _ = server.next()
        } _: { proxy in
            let client = try proxy.client()
            defer { client.close() }
            client.send(Self.get())
            if isRenewed {
                #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200 ") == true)
            } else {
                // What follows the held head is no response.
                _ = try client.readToEnd(.reset)
            }
        }
    }
}
