import GatewayHTTP
import GatewayTesting
import GatewayTokens
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
        _ serve: @escaping @Sendable (RawHTTP2Server, Int) throws -> Void,
        _ body: @escaping @Sendable (ProxyFixture) throws -> Void
    ) async throws {
        let origin = try RawOrigin { connection, number, _ in
            try serve(RawHTTP2Server(connection, settings: settings), number)
        }
        try await withProxy(origin, source: source, route: { $0.upstreamProtocol = .http2 }, body)
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
}
