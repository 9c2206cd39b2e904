import FoundationEssentials
import GatewayHTTP
import Synchronization
import Testing

@testable import GatewayProxy

@Suite("The token of a program that exec runs", .timeLimit(.minutes(1)))
struct RunTokensTests {
    /// A program that exits when the test says so.
    private final class Exit: Sendable {
        private let isSet = Atomic(false)

        func set() { isSet.store(true, ordering: .relaxed) }

        func program(of user: UInt32? = nil) -> RunTokens.Program {
            RunTokens.Program(user: user) { !self.isSet.load(ordering: .relaxed) }
        }
    }

    private let uses = ClientTokenUses()

    private func begin(for client: String?, _ program: RunTokens.Program = RunTokens.Program { true }) -> String? {
        let original = client.map { Array("\($0)-token".utf8) }
        return uses.runs.begin(for: original, program) { $0 }?.withValue { $0 }
    }

    private func fixture(_ clients: [String], requireClient: AccessPlan.RequireClient = .auto) -> AuthorizerFixture {
        AuthorizerFixture([AuthorizerFixture.route("open")], clients: clients, requireClient: requireClient, uses: uses)
    }

    private static func request(_ fields: String...) -> String {
        "GET /open/x HTTP/1.1\r\nHost: localhost:8080\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    private static func basic(_ user: String, _ password: String) -> String {
        "Authorization: Basic \(Data("\(user):\(password)".utf8).base64EncodedString())"
    }

    /// The fields that do not go upstream.
    private static func stripped(_ admitted: RequestAuthorizer.Admitted) -> [Bool] {
        [admitted.tokenPlaces.hasAuthorization, admitted.tokenPlaces.hasKeyField, admitted.tokenPlaces.areInQuery]
    }

    @Test func itProvesItsClientWhereverAnSDKSendsIt() throws {
        let token = try #require(begin(for: "laptop"))
        let fixture = fixture(["laptop", "ci"])
        let inAuthorization = [
            "Authorization: Bearer \(token)", "Authorization: token \(token)", "Authorization: ApiKey \(token)",
            "Authorization: Bearer sk-ant-\(token)", Self.basic(token, ""), Self.basic("x-access-token", token),
            Self.basic(token, "X"), Self.basic("", "sk-\(token)"),
        ]
        let inQuery = [
            "key=\(token)", "a=b&api_key=sk-\(token)", "access_token=\(token)&a=b", "a=b;key=\(token)",
            "k%65y=\(token)",
            "key=other&key=\(token)",
        ]
        let inKeys = ["x-api-key: sk-ant-\(token)", "API-Key: \(token)", "X-Goog-Api-Key: \(token)"]
        for (fields, expected) in [(inAuthorization, [true, false, false]), (inKeys, [false, true, false])] {
            for field in fields {
                let admitted = try #require(fixture.admission(Self.request(field), on: .loopback), "\(field)")
                #expect(admitted.client == "laptop" && Self.stripped(admitted) == expected, "\(field)")
            }
        }
        for query in inQuery {
            let request = Self.request().replacing("/open/x", with: "/open/x?\(query)")
            let admitted = try #require(fixture.admission(request, on: .loopback), "\(query)")
            #expect(admitted.client == "laptop" && Self.stripped(admitted) == [false, false, true], "\(query)")
        }
    }

    @Test(
        arguments: [
            ("Authorization: Bearer x", false), ("x-api-key: ${}0", true), ("x-api-key: 0${}", false),
            ("x-other-key: ${}", true),
            ("x-api-key: a-prefix-that-is-longer-than-any-that-an-sdk-wants-${}", true),
        ]
    )
    func nothingElseIsTakenForIt(_ field: String, _ isStray: Bool) throws {
        let token = try #require(begin(for: "laptop"))
        let other = token.hasPrefix("f") ? "0" : "f"
        let text = field.replacing("0${}", with: other + token.dropFirst()).replacing("${}", with: token)
        let refusal = try #require(fixture(["laptop"]).refusal(Self.request(text)), "\(text)")
        #expect(refusal.problem.kind == .clientAuthRequired)
        let open = fixture(["laptop"], requireClient: .false)
        guard !isStray else {
            #expect(open.refusal(Self.request(text))?.problem.kind == .requestRefused)
            return
        }
        let admitted = try #require(open.admission(Self.request(text), on: .loopback))
        #expect(admitted.client == nil && admitted.tokenPlaces.isEmpty)
    }

    /// In such a place it would go upstream, where nobody has asked for it.
    @Test(
        arguments: [
            "Cookie: session=${}", "Cookie: a=b; key=sk-${}; c=d",
            "Sec-WebSocket-Protocol: realtime, insecure-api-key.sk-${}",
            "Referer: https://up.example/?key=${}", "X-Custom: ${}",
            "Authorization: Digest username=\"${}\", realm=\"a\"",
            "X-Custom: ffff-${}", "X-Custom: ${}${}", "?other=${}", "?a=b&key=other&x=${}", "?${}", "?a;${}=b", "/${}",
            "/bot${}/getMe",
        ]
    )
    func elsewhereItGoesNowhere(_ place: String) throws {
        for client in ["laptop", nil] {
            let token = try #require(begin(for: client))
            let text = place.replacing("${}", with: token)
            let proof = "Proxy-Authorization: Bearer laptop-token"
            let request =
                text.hasPrefix("?") || text.hasPrefix("/")
                ? Self.request(proof).replacing("/open/x", with: "/open/x\(text)") : Self.request(proof, text)
            for reach in [ConnectionContext.Reach.loopback, .unix] {
                let problem = try #require(fixture(["laptop"]).refusal(request, on: reach)?.problem, "\(place)")
                #expect(problem.kind == .requestRefused && problem.detail.contains("a program that exec runs"))
                #expect(!problem.detail.contains(token))
            }
        }
        // Nothing is looked for, once its program has exited.
        let exit = Exit()
        let token = try #require(begin(for: "laptop", exit.program()))
        exit.set()
        let late = Self.request("Proxy-Authorization: Bearer laptop-token", "Cookie: a=\(token)")
        #expect(fixture(["laptop"]).admission(late, on: .loopback)?.client == "laptop")
    }

    /// All of them stay here, also where only one of them is the token.
    @Test(
        arguments: [
            ["x-api-key: ${}", "x-api-key: ${}"], ["x-api-key: other", "x-api-key: ${}"],
            ["Authorization: Bearer ${}", "Authorization: Bearer other"],
            ["Authorization: Bearer other", "Authorization: token ${}"],
            ["Authorization: Bearer ${}", "x-api-key: ${}", "api-key: ${}", "Proxy-Authorization: Bearer ${}"],
        ]
    )
    func whereItStandsSeveralTimesNoneOfThemGoesUpstream(_ fields: [String]) throws {
        let token = try #require(begin(for: "laptop"))
        let text = fields.map { "\($0.replacing("${}", with: token))\r\n" }.joined()
        let request = Self.request().replacing("\r\n\r\n", with: "\r\n\(text)\r\n")
        let admitted = try #require(fixture(["laptop"]).admission(request, on: .loopback), "\(request)")
        let bytes = Array(request.utf8)
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        guard case .head = decoder.decode(bytes.span) else { return #expect(Bool(false)) }
        let rules = RequestFieldRules(
            ownedNames: [],
            keepsAuthorization: true,
            dropsCookies: false,
            dropsForwarded: false
        )
        let options = RequestFieldRules.Options(
            tokenPlaces: admitted.tokenPlaces,
            content: .awaited
        )
        for index in decoder.head.section.fields.indices {
            let field = decoder.head.section.fields[index]
            let reason = rules.dropReason(of: field, in: decoder.head, bytes.span, options)
            #expect(reason != nil || !fields.contains { $0.hasPrefix(bytes.span.string(field.name)) })
        }
    }

    /// A program that takes the token of its client to the route of another.
    @Test func itOpensNoRouteOfAnotherClient() throws {
        let token = try #require(begin(for: "laptop"))
        let routes = [AuthorizerFixture.route("open", clients: ["ci"])]
        let fixture = AuthorizerFixture(routes, clients: ["laptop", "ci"], uses: uses)
        for field in ["Authorization: Bearer \(token)", "x-api-key: \(token)"] {
            let refusal = try #require(fixture.refusal(Self.request(field)))
            #expect(refusal.problem.kind == .routeForbidden && refusal.client == "laptop")
        }
    }

    /// Vending takes tokens of the configuration alone: what a program gets must end with it.
    @Test func itGetsNoTokenOfACredential() throws {
        let token = try #require(begin(for: "laptop"))
        let clients = [AccessPlan.Client(name: "laptop", proof: .token(Secret("laptop-token")))]
        let authenticator = ClientAuthenticator(clients, uses: uses) { $0 }
        #expect(authenticator.evidence(of: [Array(token.utf8)]).client == nil)
        #expect(authenticator.evidence(of: [Array("laptop-token".utf8)]).client == "laptop")
    }

    @Test(arguments: ["kex=${}", "key=x", "key", "key=${}0", "?key=${}", "&=${}", "x=key=${}", "key=${}&b"])
    func noOtherParameterIsTakenForIt(_ query: String) throws {
        let token = try #require(begin(for: "laptop"))
        let text = Self.request().replacing("/open/x", with: "/open/x?" + query.replacing("${}", with: token))
        let isIt = query.hasPrefix("key=${}&")
        #expect((fixture(["laptop"]).refusal(text) == nil) == isIt, "\(text)")
    }

    /// Other machines reach such a listener.
    @Test(arguments: [ConnectionContext.Reach.network, .unix, .engine])
    func elsewhereThanOnLoopbackItProvesNothing(_ reach: ConnectionContext.Reach) throws {
        let token = try #require(begin(for: "laptop"))
        let request = Self.request("x-api-key: \(token)")
        #expect(fixture(["laptop"], requireClient: .true).refusal(request, on: reach) != nil)
        let open = try #require(fixture(["laptop"], requireClient: .false).admission(request, on: .unix))
        #expect(
            open.client == nil && Self.stripped(open) == [false, true, false],
            "it does not go upstream in any case"
        )
    }

    @Test func behindCONNECTItProvesNothingAndStays() throws {
        let token = try #require(begin(for: "laptop"))
        let fixture = fixture(["laptop", "ci"])
        let origin = InterceptedOrigin(host: "up.example", port: 443, proof: Array("Bearer ci-token".utf8))
        let request =
            "GET /a HTTP/1.1\r\nHost: up.example\r\nx-api-key: \(token)\r\nAuthorization: Bearer \(token)\r\n\r\n"
        guard case .admitted(let admitted)? = fixture.decide(request, inPlaceOf: origin) else {
            Issue.record("it was refused")
            return
        }
        #expect(admitted.client == "ci" && Self.stripped(admitted) == [true, true, false])
    }

    @Test func withoutClientsItOnlyStays() throws {
        let token = try #require(begin(for: nil))
        let admitted = try #require(
            fixture([]).admission(Self.request("Authorization: Bearer \(token)"), on: .loopback)
        )
        #expect(admitted.client == nil && Self.stripped(admitted) == [true, false, false])
    }

    @Test func proofsOfTwoClientsAreRefused() throws {
        let token = try #require(begin(for: "laptop"))
        let both = Self.request("Authorization: Bearer ci-token", "x-api-key: \(token)")
        #expect(fixture(["laptop", "ci"]).refusal(both)?.problem.kind == .clientAuthRequired)
        let one = Self.request("Authorization: Bearer laptop-token", "x-api-key: \(token)")
        #expect(fixture(["laptop", "ci"]).admission(one, on: .loopback)?.client == "laptop")
    }

    @Test func aClientThatIsGoneHasNoPrograms() throws {
        let token = try #require(begin(for: "laptop"))
        let request = Self.request("Authorization: Bearer \(token)")
        #expect(fixture(["laptop"]).admission(request, on: .loopback) != nil)
        #expect(fixture(["ci"]).refusal(request) != nil, "a reload has removed the client")
    }

    @Test func itStandsForATokenOfTheConfiguration() throws {
        let clients = [AccessPlan.Client(name: "laptop", proof: .token(Secret("laptop-token")))]
        func begin(_ proof: String?) -> Result<Secret, GatewayProblem> {
            uses.runs.begin(as: proof.map { Secret($0) }, of: clients, RunTokens.Program { true }) { $0 }
        }
        let token = try begin("laptop-token").get().withValue { $0 }
        let request = Self.request("Authorization: Bearer \(token)")
        #expect(fixture(["laptop"]).admission(request, on: .loopback)?.client == "laptop")
        #expect(throws: GatewayProblem.self) { _ = try begin("another-token").get() }
        #expect(try begin(nil).get() != Secret(token))
    }

    @Test func itEndsWithItsProgram() throws {
        let (exit, other) = (Exit(), Exit())
        let tokens = [
            try #require(begin(for: "laptop", exit.program())), try #require(begin(for: "laptop", other.program())),
        ]
        let fixture = fixture(["laptop"])
        func known() -> [Bool] {
            tokens.map { fixture.admission(Self.request("x-api-key: \($0)"), on: .loopback) != nil }
        }
        #expect(known() == [true, true])
        exit.set()
        #expect(known() == [false, true], "nobody has looked for programs that have exited")
        uses.runs.removeExited()
        #expect(known() == [false, true] && uses.runs.isInUse)
        other.set()
        uses.runs.removeExited()
        #expect(known() == [false, false] && !uses.runs.isInUse)
    }

    @Test func aClientHasOnlySoManyPrograms() throws {
        let exit = Exit()
        for _ in 1..<RunTokens.limitPerOwner { #expect(begin(for: "laptop") != nil) }
        #expect(begin(for: "laptop", exit.program()) != nil)
        #expect(begin(for: "laptop") == nil && begin(for: nil) != nil && begin(for: "ci") != nil)
        exit.set()
        #expect(begin(for: "laptop") != nil, "the place of a program that has exited is free at once")
        #expect(begin(for: "laptop") == nil)
    }

    @Test func aUserTakesOnlyPlacesOfTheirOwn() throws {
        func begin(as user: UInt32?) -> Bool { self.begin(for: nil, Exit().program(of: user)) != nil }
        for user in [1001, 1002, nil] as [UInt32?] {
            for _ in 1...RunTokens.limitPerOwner { #expect(begin(as: user)) }
            #expect(!begin(as: user))
        }
        #expect(begin(as: 1003))
    }

    /// One person can have many users of a machine (user namespaces).
    @Test func manyUsersLeavePlacesForClients() throws {
        var taken = 0
        for user in 0..<UInt32(RunTokens.limit) where begin(for: nil, Exit().program(of: user)) != nil { taken += 1 }
        #expect(taken == RunTokens.limitWithoutClient)
        for client in 0..<RunTokens.limit - taken { #expect(begin(for: "client-\(client)") != nil) }
        #expect(begin(for: "laptop") == nil, "there is a limit for all")
    }
}
