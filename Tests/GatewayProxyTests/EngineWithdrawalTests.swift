import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

/// No engine is handed what was withdrawn: neither while its request waits, nor while an answer waits for the engine to read it.
@Suite("Withdrawal from engines", .timeLimit(.minutes(1)))
struct EngineWithdrawalTests {
    private typealias Kind = RawHTTP2Client.Kind

    private static let token = ("X-Gw-Engine-Token", "of-the-engine")
    private static let plan = EnginePlan(name: "edge", contract: .envoy, tokens: [Secret(token.1)])
    private static let question = "GET /api/x HTTP/1.1\r\nHost: shop.example\r\n\(token.0): \(token.1)\r\n\r\n"
    private static let fields = RawHTTP2Client.head("GET", "/api/x", [(token.0.lowercased(), token.1)])
    /// Less than what the answers of these tests need.
    private static let smallBuffer: Int32 = 4096

    private func withEngine(
        _ source: any CredentialSource,
        _ body: @escaping @Sendable (ProxyFixture) throws -> Void
    ) async throws {
        let origin = try RawOrigin { _, _, _ in Issue.record("nothing goes to the upstream") }
        try await withProxy(origin, source: source, engine: Self.plan, route: { $0.authz = ["edge"] }, body)
    }

    /// A message of gRPC that asks about `GET /api/x`.
    private static var message: [UInt8] {
        var question = ProtobufWriter()
        question.add(1) { attributes in
            attributes.add(4) { request in
                request.add(2) { http in
                    for (number, text) in [(2, "GET"), (4, "/api/x"), (5, "a")] { http.add(number, text) }
                }
            }
        }
        return [0, 0, 0, 0, UInt8(question.bytes.count)] + question.bytes
    }

    private static func call(_ client: RawHTTP2Client) throws -> UInt32 {
        let more = [("content-type", "application/grpc"), ("te", "trailers"), (token.0.lowercased(), token.1)]
        let stream = try client.begin(RawHTTP2Client.head("POST", CheckResponse.path, more), isLast: false)
        client.content(message, isLast: true, stream: stream)
        return stream
    }

    /// Sends what needs no answer. With it the system tells that all that has come was taken.
    private static func acknowledge(_ client: RawHTTP2Client) {
        client.send(Kind.windowUpdate, stream: 0, RawHTTP2Client.bytes(1))
    }

    // MARK: Requests that wait

    /// The token comes for a request that waits, and is withdrawn on its way.
    private static func settleWithdrawn(_ source: ScriptedSource) {
        let credential = ScriptedSource.credential(1)
        credential.withdraw()
        source.state.withLock { $0.failure = .locked("scripted") }
        source.settle(.success(credential))
    }

    @Test func aTokenThatIsWithdrawnOnItsWayIsNotHandedOut() async throws {
        let source = ScriptedSource { $0.isCold = true }
        try await withEngine(source) { proxy in
            let client = try proxy.client()
            defer { client.close() }
            client.send(Self.question)
            try source.untilAsked()
            Self.settleWithdrawn(source)
            let answer = try #require(client.readMessage())
            #expect(answer.head.hasPrefix("HTTP/1.1 503 ") && !answer.head.contains("token-1"))
        }
    }

    @Test func aTokenThatIsWithdrawnOnItsWayIsNotHandedOutOverHTTP2() async throws {
        let source = ScriptedSource { $0.isCold = true }
        try await withEngine(source) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let asked = try client.begin(Self.fields)
            try source.untilAsked()
            let called = try Self.call(client)
            try source.untilAsked(2)
            Self.settleWithdrawn(source)
            let answer = try client.response(asked)
            #expect(answer.status == "503" && answer.fields["authorization"] == nil)
            let message = try client.response(called)
            #expect(message.status == "200" && !message.body.isEmpty && !message.text.contains("token-1"))
        }
    }

    private static func takeRight(_ proxy: ProxyFixture) throws -> [Int] {
        try proxy.reload { $0.routes[0].plan.authz = [] }
    }

    @Test func aRequestThatWaitsLosesItsRightWithAReload() async throws {
        let source = ScriptedSource { $0.isCold = true }
        try await withEngine(source) { proxy in
            let client = try proxy.client()
            defer { client.close() }
            client.send(Self.question)
            try source.untilAsked()
            try #expect(Self.takeRight(proxy) == [])
            source.settle(.success(ScriptedSource.credential(1)))
            let answer = try #require(client.readMessage())
            #expect(answer.head.hasPrefix("HTTP/1.1 403 ") && !answer.head.contains("token-1"))
        }
    }

    @Test func aRequestThatWaitsLosesItsRightWithAReloadOverHTTP2() async throws {
        let source = ScriptedSource { $0.isCold = true }
        try await withEngine(source) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let asked = try client.begin(Self.fields)
            try source.untilAsked()
            let called = try Self.call(client)
            try source.untilAsked(2)
            try #expect(Self.takeRight(proxy) == [])
            source.settle(.success(ScriptedSource.credential(1)))
            let answer = try client.response(asked)
            #expect(answer.status == "403" && answer.fields["authorization"] == nil)
            let message = try client.response(called)
            #expect(message.status == "200" && !message.body.isEmpty && !message.text.contains("token-1"))
        }
    }

    // MARK: Answers that wait

    @Test func anAnswerThatTheEngineHasNotReadIsLost() async throws {
        let source = LockableSource(token: String(repeating: "t", count: 262_144))
        try await withEngine(source) { proxy in
            let client = try proxy.client(receiveBuffer: Self.smallBuffer)
            defer { client.close() }
            client.send(Self.question)
            try blockUntil("the engine is answered") { proxy.observer.requests.count == 1 }
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            let text = try client.readToEnd(.reset)
            #expect(text.utf8.count < 262_144, "what the engine has of the token is no token")
        }
    }

    @Test func anEngineThatHasReadItsAnswerKeepsItsConnection() async throws {
        let source = LockableSource()
        try await withEngine(source) { proxy in
            let client = try proxy.client()
            defer { client.close() }
            client.send(Self.question)
            #expect(client.readMessage()?.head.contains("Bearer token-1") == true)
            // With these bytes the system tells that the answer was taken.
            client.send(String(Self.question.prefix(10)))
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            client.send(String(Self.question.dropFirst(10)))
            let answer = try #require(client.readMessage())
            #expect(answer.head.hasPrefix("HTTP/1.1 503 ") && !answer.head.contains("token-1"))
        }
    }

    @Test func answersThatTheEngineHasNotReadAreLostOverHTTP2() async throws {
        let source = LockableSource(token: String(repeating: "t", count: 12_000))
        try await withEngine(source) { proxy in
            let client = try RawHTTP2Client(port: proxy.port, receiveBuffer: Self.smallBuffer)
            defer { client.close() }
            for _ in 0..<8 { try client.begin(Self.fields) }
            try blockUntil("the engine is answered") { proxy.observer.requests.count == 8 }
            #expect(proxy.observer.requests.allSatisfy { $0.status == 200 })
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            var answers = 0
            while let frame = client.next() { answers += frame.kind == Kind.headers ? 1 : 0 }
            #expect(answers < 8)
        }
    }

    /// The window of the stream has no room for the message, and all before it was read.
    @Test func aMessageThatTheEngineHasNoRoomForIsLost() async throws {
        let source = LockableSource()
        try await withEngine(source) { proxy in
            // SETTINGS_INITIAL_WINDOW_SIZE
            let client = try RawHTTP2Client(port: proxy.port, settings: [0, 4, 0, 0, 0, 0])
            defer { client.close() }
            let stream = try Self.call(client)
            _ = try client.next(Kind.headers, stream: stream)
            Self.acknowledge(client)
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            client.send(Kind.windowUpdate, stream: stream, RawHTTP2Client.bytes(65_535))
            // Which end this is the system tells only once, and the sending may have been told.
            while let frame = client.next() { #expect(frame.kind != Kind.data, "the message comes") }
        }
    }

    @Test func anEngineThatHasReadItsAnswerKeepsItsConnectionOverHTTP2() async throws {
        let source = LockableSource()
        try await withEngine(source) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let first = try client.response(try client.begin(Self.fields))
            #expect(first.fields["authorization"] == "Bearer token-1")
            Self.acknowledge(client)
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            let second = try client.response(try client.begin(Self.fields))
            #expect(second.status == "503" && second.fields["authorization"] == nil)
        }
    }

    // MARK: Clients that are no engines

    private func withClient(_ body: @escaping @Sendable (ProxyFixture, _ length: Int) throws -> Void) async throws {
        let length = 200_000
        let content = String(repeating: "c", count: length)
        let origin = try RawOrigin.answering("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n\(content)")
        try await withProxy(origin, source: LockableSource()) { try body($0, length) }
    }

    @Test func aClientThatReadsSlowlyKeepsItsResponse() async throws {
        try await withClient { proxy, length in
            let client = try proxy.client(receiveBuffer: Self.smallBuffer)
            defer { client.close() }
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(client.read(through: "\r\n\r\n")?.hasPrefix("HTTP/1.1 200 ") == true)
            try #expect(proxy.withdraw(LockableSource("other")) == [])
            #expect(client.read(count: length) != nil)
        }
    }

    @Test func aClientThatReadsSlowlyKeepsItsResponseOverHTTP2() async throws {
        try await withClient { proxy, _ in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            // All that its window has room for.
            #expect(try client.response(try client.begin(), until: 65_535).body.count == 65_535)
            try #expect(proxy.withdraw(LockableSource("other")) == [])
            client.send(Kind.ping, stream: 0, [UInt8](repeating: 0, count: 8))
            #expect(try client.next(Kind.ping).flags == 1)
        }
    }
}
