import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

/// Another proxy asks for the fields of a request, byte by byte.
@Suite("Answers to engines", .timeLimit(.minutes(5)))
struct AuthorizationTests {
    private static let token = "X-Gw-Engine-Token: of-the-engine"
    private static let plan = EnginePlan(name: "edge", contract: .nginx, tokens: [Secret("of-the-engine")])

    private static func ask(
        _ fields: [String] = [token],
        method: String = "GET",
        target: String = "/api/x",
        line: String = "GET / HTTP/1.1"
    ) -> String {
        let named = ["X-Original-Method: \(method)", "X-Original-URI: \(target)", "X-Original-Host: shop.example"]
        return ([line, "Host: gateway"] + named + fields + ["", ""]).joined(separator: "\r\n")
    }

    private func withEngine(
        _ source: any CredentialSource = ScriptedSource(),
        plan: EnginePlan = plan,
        access: AccessPlan = AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
        authz: [String] = ["edge"],
        _ body: @escaping @Sendable (ProxyFixture) throws -> Void
    ) async throws {
        let origin = try RawOrigin { _, _, _ in Issue.record("nothing goes to the upstream") }
        try await withProxy(origin, source: source, access: access, engine: plan, route: { $0.authz = authz }, body)
    }

    private static func value(_ name: String, of head: String) -> String? {
        for line in head.split(separator: "\r\n") where line.lowercased().hasPrefix(name.lowercased() + ":") {
            return String(line.dropFirst(name.count + 2))
        }
        return nil
    }

    // MARK: Answers

    @Test func theFieldsOfTheCredentialAreHandedOut() async throws {
        let source = ScriptedSource()
        try await withEngine(source) { proxy in
            let client = try proxy.client()
            for _ in 0..<3 {
                client.send(Self.ask())
                let head = try #require(client.readMessage()).head
                #expect(head.hasPrefix("HTTP/1.1 200 OK\r\nDate: "))
                #expect(Self.value("Authorization", of: head) == "Bearer token-1")
                #expect(Self.value("X-Gw-Generation", of: head)?.hasPrefix("1.") ?? false)
                #expect(Self.value("Cache-Control", of: head) == "no-store")
                #expect(Self.value("Content-Length", of: head) == "0")
            }
            client.close()
            #expect(source.state.withLock { $0.events } == ["handed_out 1"])
        }
    }

    @Test func anAnswerMayBeKeptWhereTheListenerSaysSo() async throws {
        var plan = Self.plan
        plan.cache = .seconds(10)
        try await withEngine(plan: plan) { proxy in
            let head = try proxy.exchange(Self.ask()).head
            #expect(Self.value("Cache-Control", of: head) == "private, max-age=10")
            #expect(Self.value("X-Accel-Expires", of: head) == "10")
            let varying = try #require(Self.value("Vary", of: head)).split(separator: ", ")
            for name in ["X-Original-URI", "X-Gw-Route", "Proxy-Authorization", "Sec-Fetch-Site", "x-rewrite-url"] {
                #expect(varying.contains { $0 == name }, "\(name)")
            }
        }
    }

    @Test func contentIsThrownAway() async throws {
        try await withEngine { proxy in
            let client = try proxy.client()
            client.send(Self.ask([Self.token, "Content-Length: 5"], line: "POST / HTTP/1.1") + "hello")
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200") ?? false)
            client.send(Self.ask([Self.token, "Transfer-Encoding: chunked"]) + "3\r\nabc\r\n0\r\n\r\n")
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200") ?? false)
            client.send(Self.ask(line: "HEAD / HTTP/1.1"))
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200") ?? false)
            client.close()
        }
    }

    // MARK: Refusals

    @Test(arguments: [
        ([], 401, "engine-auth-required"), (["X-Gw-Engine-Token: wrong"], 401, "engine-auth-required"),
        ([token, "X-Original-Host: other"], 403, "request-refused"),
    ])
    func aRequestWithoutProofOrWithoutContractIsRefused(_ fields: [String], _ status: Int, _ code: String) async throws
    {
        try await withEngine { proxy in
            let answer = try proxy.exchange(Self.ask(fields))
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "))
            #expect(!answer.head.contains("token-1") && answer.body.contains("\"code\":\"\(code)\""))
            #expect(answer.body.contains("\"status\":\(status)"))
        }
    }

    @Test func aRouteThatDoesNotNameTheEngineHandsOutNothing() async throws {
        try await withEngine(authz: []) { proxy in
            let answer = try proxy.exchange(Self.ask())
            #expect(answer.head.hasPrefix("HTTP/1.1 403 ") && answer.body.contains("route-forbidden"))
        }
    }

    @Test func aCredentialInTheURLIsNoAnswer() async throws {
        let injection = Injection(query: .init(name: "key", value: Secret("token-1")))
        let source = FixedCredentialSource(name: "key", strategy: "header", injection: injection)
        try await withEngine(source) { proxy in
            let answer = try proxy.exchange(Self.ask())
            #expect(answer.head.hasPrefix("HTTP/1.1 503 ") && answer.body.contains("credential-misconfigured"))
        }
    }

    @Test func aClientProvesItselfWithItsOwnAuthorization() async throws {
        let laptop = AccessPlan.Client(name: "laptop", proof: .token(Secret("of-the-client")))
        let access = AccessPlan(clients: [laptop], allowedOrigins: [], requireClient: .auto)
        try await withEngine(access: access) { proxy in
            #expect(try proxy.exchange(Self.ask()).head.hasPrefix("HTTP/1.1 401 "))
            let fields = [Self.token, "Authorization: Bearer of-the-client"]
            let head = try proxy.exchange(Self.ask(fields)).head
            #expect(Self.value("Authorization", of: head) == "Bearer token-1")
        }
    }

    // MARK: HTTP/2

    private static let envoy = EnginePlan(name: "edge", contract: .envoy, tokens: [Secret("of-the-engine")])
    private static let proof = ("x-gw-engine-token", "of-the-engine")

    @Test func anEngineMayAskOverHTTP2() async throws {
        try await withEngine(plan: Self.envoy) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            for _ in 0..<3 {
                let response = try client.response(try client.begin(RawHTTP2Client.head("GET", "/api/x", [Self.proof])))
                #expect(response.status == "200" && response.fields["authorization"] == "Bearer token-1")
            }
            let refused = try client.response(try client.begin())
            #expect(refused.status == "401" && refused.fields["authorization"] == nil)
        }
    }

    /// Nor may an intermediary put it into one.
    @Test func noFieldOfAnAnswerIsKeptInTheTableOfTheConnection() async throws {
        try await withEngine(plan: Self.envoy) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            for _ in 0..<3 {
                let response = try client.response(try client.begin(RawHTTP2Client.head("GET", "/api/x", [Self.proof])))
                #expect(response.fields["authorization"] == "Bearer token-1")
                #expect(response.neverIndexed == Set(response.fields.keys).subtracting([":status"]))
            }
        }
    }

    @Test func envoyMayAskByGRPC() async throws {
        var question = ProtobufWriter()
        question.add(1) { attributes in
            attributes.add(4) { request in
                request.add(2) { http in
                    for (number, text) in [(2, "GET"), (4, "/api/x"), (5, "a")] { http.add(number, text) }
                }
            }
        }
        let message = [0, 0, 0, 0, UInt8(question.bytes.count)] + question.bytes
        try await withEngine(plan: Self.envoy) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let fields = [("content-type", "application/grpc"), ("te", "trailers")]
            func call(_ path: String, _ more: [(String, String)]) throws -> RawHTTP2Client.Response {
                let stream = try client.begin(RawHTTP2Client.head("POST", path, fields + more), isLast: false)
                client.content(message, isLast: true, stream: stream)
                return try client.response(stream)
            }
            let answer = try call(CheckResponse.path, [Self.proof])
            #expect(answer.status == "200" && answer.fields["content-type"] == "application/grpc")
            #expect(String(decoding: answer.body, as: UTF8.self).contains("Bearer token-1"))
            #expect(try call(CheckResponse.path, []).fields["grpc-status"] == "16")
            #expect(try call("/other", [Self.proof]).fields["grpc-status"] == "12")
        }
    }

    // MARK: Rejections

    @Test func aRejectedGenerationIsRenewedOnce() async throws {
        let source = ScriptedSource()
        try await withEngine(source) { proxy in
            let mark = try #require(Self.value("X-Gw-Generation", of: try proxy.exchange(Self.ask()).head))
            for _ in 0..<3 {
                let head = try proxy.exchange(Self.ask([Self.token, "X-Gw-Rejected-Generation: \(mark)"])).head
                #expect(Self.value("Authorization", of: head) == "Bearer token-2")
                #expect(Self.value("X-Gw-Generation", of: head)?.hasPrefix("2.") ?? false)
            }
            #expect(source.state.withLock { $0.renewals } == 1)
        }
    }

    /// The engine asks one gateway, and sends the rejection to another one.
    @Test func aTokenOfAnotherGatewayIsRenewedWhateverItsNumberThere() async throws {
        let mark = Mutex("")
        try await withEngine(ScriptedSource { $0.ahead = 6 }) { proxy in
            let value = try #require(Self.value("X-Gw-Generation", of: try proxy.exchange(Self.ask()).head))
            #expect(value.hasPrefix("7."))
            mark.withLock { $0 = value }
        }
        let fields = [Self.token, "X-Gw-Rejected-Generation: \(mark.withLock { $0 })"]
        let same = ScriptedSource()
        try await withEngine(same) { proxy in
            for _ in 0..<3 {
                let head = try proxy.exchange(Self.ask(fields)).head
                #expect(Self.value("Authorization", of: head) == "Bearer token-2")
            }
            #expect(same.state.withLock { $0.renewals } == 1)
        }
        let newer = ScriptedSource { ($0.generation, $0.ahead) = (2, 5) }
        try await withEngine(newer) { proxy in
            let head = try proxy.exchange(Self.ask(fields)).head
            #expect(Self.value("Authorization", of: head) == "Bearer token-2", "its number is 7 as well")
            #expect(newer.state.withLock { $0.renewals } == 0)
        }
    }

    @Test(arguments: ["1.00", "0", "1", "", "x"])
    func aValueThatWasNotHandedOutRenewsNothing(_ mark: String) async throws {
        let source = ScriptedSource()
        try await withEngine(source) { proxy in
            let head = try proxy.exchange(Self.ask([Self.token, "X-Gw-Rejected-Generation: \(mark)"])).head
            #expect(Self.value("Authorization", of: head) == "Bearer token-1")
            #expect(source.state.withLock { $0.renewals } == 0)
        }
    }

    @Test func theSecondCallWaitsForTheRenewal() async throws {
        let source = ScriptedSource { $0.renewsAtOnce = false }
        try await withEngine(source) { proxy in
            let mark = try #require(Self.value("X-Gw-Generation", of: try proxy.exchange(Self.ask()).head))
            let client = try proxy.client()
            client.send(Self.ask([Self.token, "X-Gw-Rejected-Generation: \(mark)"]))
            try source.untilAsked()
            source.settle(.success(ScriptedSource.credential(2)))
            let head = try #require(client.readMessage()).head
            #expect(Self.value("Authorization", of: head) == "Bearer token-2")
            client.close()
        }
    }

    @Test func withoutACredentialTheAnswerIsAnOutage() async throws {
        let source = ScriptedSource { $0.failure = GatewayProblem(.loginRequired, "Log in.") }
        try await withEngine(source) { proxy in
            let answer = try proxy.exchange(Self.ask())
            #expect(answer.head.hasPrefix("HTTP/1.1 503 ") && answer.body.contains("login-required"))
            #expect(source.state.withLock { $0.events } == ["withheld 0"])
        }
    }
}
