import Testing

@testable import GatewayHTTP
@testable import GatewayProxy
@testable import GatewayTokens

@Suite("What a reload takes away", .timeLimit(.minutes(5)))
struct ReloadWithdrawalTests {
    private typealias Route = ReloadWithdrawal.Route
    private typealias Client = AccessPlan.Client

    /// Stands for SHA-256: what it makes of two tokens differs.
    private static func digest(_ text: String) -> [UInt8] { Array(text.utf8.reversed()) }
    private static func proofs(_ client: Client) -> Set<[UInt8]> { client.proofs { $0.reversed() } }

    private static func withdrawal(
        routes: [Route] = [],
        clients: [Client] = [],
        toRoutes: [Route]? = nil,
        toClients: [Client]? = nil
    ) -> ReloadWithdrawal {
        ReloadWithdrawal(
            from: (routes, clients),
            to: (toRoutes ?? routes, toClients ?? clients),
            proofs: proofs
        )
    }

    // MARK: Servers without a route

    @Test(arguments: [ReloadWithdrawal.Verdict.admitted, .other, .refused])
    func withoutARouteBeingAdmittedIsTheOnlyRight(_ verdict: ReloadWithdrawal.Verdict) {
        let withdrawal = Self.withdrawal()
        #expect(withdrawal.covers(client: nil, route: nil))
        let event = withdrawal.event(of: nil, route: nil, on: .loopback, verdict: verdict)
        guard case .reloaded(let takesRight, let goesOn) = event else {
            Issue.record("it is not the event of a reload")
            return
        }
        #expect(takesRight == (verdict != .admitted) && !goesOn)
    }

    // MARK: Routes

    private static let box = Route(
        name: "box",
        credential: "box-service",
        strategy: "oauth2_client_credentials",
        grant: CredentialKey(digest: "0a")
    )
    private static let open = Route(name: "open")

    struct Change: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var isTaken = true
        let make: @Sendable (inout ReloadWithdrawal.Route) -> Void
    }

    @Test(arguments: [
        Change(testDescription: "nothing", isTaken: false) { _ in },
        Change(testDescription: "the name") { $0.identity.name = "box2" },
        Change(testDescription: "the credential") { $0.identity.credential = "box-user" },
        Change(testDescription: "no credential") { $0.identity.credential = nil },
        Change(testDescription: "the strategy") { $0.identity.strategy = "static_bearer" },
        Change(testDescription: "no strategy") { $0.identity.strategy = nil },
        Change(testDescription: "the grant") { $0.identity.grant = CredentialKey(digest: "0b") },
        Change(testDescription: "no grant") { $0.identity.grant = nil },
    ])
    func aRouteIsTakenAwayByAChangeOfWhatItIs(_ change: Change) {
        var changed = Self.box
        change.make(&changed)
        let withdrawal = Self.withdrawal(routes: [Self.box, Self.open], toRoutes: [changed, Self.open])
        #expect(withdrawal.covers(client: nil, route: 0) == change.isTaken)
        #expect(withdrawal.covers(client: "a", route: 0) == change.isTaken)
        #expect(!withdrawal.covers(client: nil, route: 1))
        // The way back takes as much away.
        let back = Self.withdrawal(routes: [Self.open, changed], toRoutes: [Self.open, Self.box])
        #expect(back.covers(client: nil, route: 1) == change.isTaken)
        #expect(!back.covers(client: nil, route: 0))
    }

    @Test(arguments: [
        ([0, 1, 2], []), ([2, 0, 1], []), ([2, 1, 0], []), ([1, 2], [0]), ([0, 2], [1]), ([0, 1], [2]), ([2], [0, 1]),
        ([], [0, 1, 2]), ([3, 0, 1, 2], []), ([0, 3, 2], [1]), ([3, 3, 3, 2], [0, 1]), ([3], [0, 1, 2]),
    ])
    func routesAreKnownByWhatTheyAreAndNotByTheirPlace(_ kept: [Int], _ taken: [Int]) {
        let routes = (0...3).map { Route(name: "r\($0)") }
        let withdrawal = Self.withdrawal(routes: Array(routes[0..<3]), toRoutes: kept.map { routes[$0] })
        #expect((0..<3).filter { withdrawal.covers(client: nil, route: $0) } == taken)
    }

    struct Allowed: Sendable, CustomTestStringConvertible {
        let old: [String]?
        let new: [String]?
        /// Of `a`, `b` and a client without a name.
        let taken: [String?]
        var testDescription: String { "\(old ?? ["all"]) -> \(new ?? ["all"])" }
    }

    @Test(arguments: [
        Allowed(old: nil, new: nil, taken: []), Allowed(old: ["a"], new: ["a"], taken: ["b", nil]),
        Allowed(old: ["a"], new: ["b", "a"], taken: [nil]), Allowed(old: ["a", "b"], new: ["b"], taken: ["a", nil]),
        Allowed(old: ["a"], new: nil, taken: []), Allowed(old: nil, new: ["a"], taken: ["b", nil]),
        Allowed(old: ["a"], new: [], taken: ["a", "b", nil]),
    ])
    func aClientThatARouteNamesNoMoreLosesIt(_ allowed: Allowed) {
        let withdrawal = Self.withdrawal(
            routes: [Route(name: "r", clients: allowed.old)],
            toRoutes: [Route(name: "r", clients: allowed.new)]
        )
        #expect(["a", "b", nil].filter { withdrawal.covers(client: $0, route: 0) } == allowed.taken)
    }

    // MARK: Clients

    private static func client(_ name: String, token: String) -> Client {
        Client(name: name, proof: .token(Secret(token)))
    }
    private static func client(_ name: String, digestOf token: String) -> Client {
        Client(name: name, proof: .tokenSHA256(digest(token)))
    }

    struct Clients: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var new: [AccessPlan.Client]
        var taken: [String] = []
    }

    private static let limits = ClientLimitsPlan(concurrent: 1, perSecond: 1)

    /// From `a` with the token `one`, and `b` with the token `two`.
    @Test(arguments: [
        Clients(testDescription: "the same", new: [client("a", token: "one"), client("b", token: "two")]),
        Clients(testDescription: "in another order", new: [client("b", token: "two"), client("a", token: "one")]),
        Clients(testDescription: "digests", new: [client("a", digestOf: "one"), client("b", digestOf: "two")]),
        Clients(
            testDescription: "others besides",
            new: [client("c", token: "three"), client("a", token: "one"), client("b", token: "two")]
        ),
        Clients(
            testDescription: "other limits",
            new: [
                AccessPlan.Client(name: "a", proof: .token(Secret("one")), limits: limits), client("b", token: "two"),
            ]
        ),
        Clients(testDescription: "one removed", new: [client("b", token: "two")], taken: ["a"]),
        Clients(testDescription: "all removed", new: [], taken: ["a", "b"]),
        Clients(
            testDescription: "one renamed",
            new: [client("A", token: "one"), client("b", token: "two")],
            taken: ["a"]
        ),
        Clients(
            testDescription: "another token",
            new: [client("a", token: "One"), client("b", token: "two")],
            taken: ["a"]
        ),
        Clients(
            testDescription: "the digest of another token",
            new: [client("a", digestOf: "One"), client("b", digestOf: "two")],
            taken: ["a"]
        ),
        Clients(
            testDescription: "exchanged tokens",
            new: [client("a", token: "two"), client("b", token: "one")],
            taken: ["a", "b"]
        ),
        Clients(
            testDescription: "exchanged names",
            new: [client("b", token: "one"), client("a", token: "two")],
            taken: ["a", "b"]
        ),
    ])
    func aClientIsTheSameWhileItsNameAndItsTokenAre(_ clients: Clients) {
        let texts = [Self.client("a", token: "one"), Self.client("b", token: "two")]
        let digests = [Self.client("a", digestOf: "one"), Self.client("b", digestOf: "two")]
        for old in [texts, digests] {
            let withdrawal = Self.withdrawal(routes: [Self.open], clients: old, toClients: clients.new)
            let taken = ["a", "b", "c", "A"].filter { withdrawal.covers(client: $0, route: 0) }
            #expect(taken == clients.taken)
            // Whoever came without a name has lost none.
            #expect(!withdrawal.covers(client: nil, route: 0))
        }
    }

    struct Rotation: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let new: AccessPlan.Client
        /// Where the request would be admitted by the new configuration, and where it would not.
        let taken: (admitted: Bool, refused: Bool)
    }

    /// From two tokens and a certificate.
    @Test(arguments: [
        Rotation(testDescription: "the other token first", new: proven(["two", "one"]), taken: (false, false)),
        Rotation(testDescription: "a token less", new: proven(["two"]), taken: (false, true)),
        Rotation(testDescription: "no certificate", new: proven(["one", "two"], nil), taken: (false, true)),
        Rotation(testDescription: "only the certificate", new: proven([]), taken: (false, true)),
        Rotation(testDescription: "a new token for an old one", new: proven(["two", "three"]), taken: (false, true)),
        Rotation(testDescription: "nothing that was", new: proven(["three"], nil), taken: (true, true)),
    ])
    func aClientThatHasLostAProofLosesWhatItWouldNotGetAnyMore(_ rotation: Rotation) {
        let old = Self.proven(["one", "two"])
        let withdrawal = Self.withdrawal(routes: [Self.open], clients: [old], toClients: [rotation.new])
        let verdicts: [(ReloadWithdrawal.Verdict, Bool)] = [
            (.admitted, rotation.taken.admitted), (.other, rotation.taken.refused),
        ]
        for (verdict, expected) in verdicts {
            let event = withdrawal.event(of: "a", route: 0, on: .network, verdict: verdict)
            guard case .reloaded(let takesRight, _) = event else {
                Issue.record("it is not the event of a reload")
                return
            }
            #expect(takesRight == expected)
        }
    }

    private static func proven(_ tokens: [String], _ host: String? = "ci") -> Client {
        Client(
            name: "a",
            tokens: tokens.map { .token(Secret($0)) },
            certificate: host.map { .exactly(.dns($0)) }
        )
    }

    struct Nameless: Sendable {
        let requires: AccessPlan.RequireClient
        var hasClients = true
        /// On a loopback address, in the network, on a unix socket.
        let taken: [Bool]
    }

    @Test(arguments: [
        Nameless(requires: .auto, taken: [true, true, false]),
        Nameless(requires: .auto, hasClients: false, taken: [false, true, false]),
        Nameless(requires: .true, taken: [true, true, true]), Nameless(requires: .false, taken: [false, true, false]),
    ])
    func whoHasNoNameLosesWhatNeedsOneNow(_ nameless: Nameless) {
        let clients = nameless.hasClients ? [Self.client("a", token: "one")] : []
        let withdrawal = ReloadWithdrawal(
            from: ([Self.open], []),
            to: ([Self.open], clients),
            under: AccessPlan(clients: clients, allowedOrigins: [], requireClient: nameless.requires),
            proofs: Self.proofs
        )
        let reaches: [ConnectionContext.Reach] = [.loopback, .network, .unix]
        #expect(reaches.map { withdrawal.covers(client: nil, route: 0, on: $0) } == nameless.taken)
        #expect(reaches.allSatisfy { !withdrawal.covers(client: "a", route: 0, on: $0) })
    }

    // MARK: Rules

    @Test func whatARuleRefusesIsTakenAway() {
        let withdrawal = Self.withdrawal(routes: [Self.open])
        for (verdict, isTaken) in [(ReloadWithdrawal.Verdict.admitted, false), (.other, false), (.refused, true)] {
            #expect(withdrawal.takesRight(of: "a", route: 0, on: .loopback, verdict: verdict) == isTaken)
            let event = withdrawal.event(of: "a", route: 0, on: .loopback, verdict: verdict)
            #expect(event == .reloaded(takesRight: isTaken, isAdmitted: verdict == .admitted))
        }
    }

    struct Rules: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var method = "GET"
        var path = "/open/a"
        var fields: [String] = []
        var expected = ReloadWithdrawal.Verdict.refused
        let routes: [RoutePlan]
    }

    private static func route(_ name: String = "open", allow: String..., change: (inout RoutePlan) -> Void = { _ in })
        -> RoutePlan
    {
        var route = AuthorizerFixture.route(name)
        route.allow = allow.compactMap(PathPattern.init).map { RoutePlan.Allow(methods: ["GET"], path: $0) }
        change(&route)
        return route
    }

    /// The request was admitted for the client `a`, whose proof still counts, or has expired since.
    @Test(arguments: [
        Rules(testDescription: "another path is allowed", routes: [route(allow: "/b")]),
        Rules(testDescription: "another method is allowed", method: "POST", routes: [route(allow: "/a")]),
        Rules(
            testDescription: "its method is named in a field",
            fields: ["X-HTTP-Method: PUT"],
            routes: [route(allow: "/a")]
        ),
        Rules(testDescription: "its path has two readings for rules", path: "/open//a", routes: [route(allow: "/**")]),
        Rules(
            testDescription: "the authority's endpoint is there",
            routes: [route { $0.endpoints = [AuthorityEndpoint](try? AuthorityURL("https://up.example/a")) }]
        ),
        Rules(testDescription: "pages may not call", fields: ["Origin: https://page.example"], routes: [route()]),
        Rules(
            testDescription: "a longer path is another route's, for others",
            routes: [
                route(),
                route("special") { plan in
                    plan.matchPath = "/open/a"
                    plan.clients = ["b"]
                },
            ]
        ),
        Rules(testDescription: "another route has its path", expected: .other, routes: [route("closed")]),
    ])
    func aRuleThatRefusesTheRequestIsToldFromAnotherWay(_ rules: Rules) {
        let fixture = AuthorizerFixture(rules.routes, clients: ["a", "b"])
        for token in ["a-token", "expired"] {
            let lines =
                ["\(rules.method) \(rules.path) HTTP/1.1", "Host: localhost", "Authorization: Bearer \(token)"]
                + rules.fields
            #expect(fixture.verdict(lines.joined(separator: "\r\n") + "\r\n\r\n", of: "a") == rules.expected)
        }
    }

    /// Its client has lost nothing by the reload.
    @Test func aProofThatHasExpiredTakesNothingAway() {
        let fixture = AuthorizerFixture([Self.route(allow: "/a")], clients: ["a"])
        let request = "GET /open/a HTTP/1.1\r\nHost: localhost\r\n\r\n"
        #expect(fixture.verdict(request, of: "a") == .other)
        #expect(fixture.verdict(request, of: nil) == .refused)
    }

    // MARK: Both

    @Test func theRouteOrTheClientIsEnough() {
        let clients = [Self.client("a", token: "one"), Self.client("b", token: "two")]
        let withdrawal = Self.withdrawal(
            routes: [Self.box, Self.open],
            clients: clients,
            toRoutes: [Self.open],
            toClients: [clients[1]]
        )
        #expect(withdrawal.covers(client: "a", route: 0))
        #expect(withdrawal.covers(client: "b", route: 0))
        #expect(withdrawal.covers(client: nil, route: 0))
        #expect(withdrawal.covers(client: "a", route: 1))
        #expect(!withdrawal.covers(client: "b", route: 1))
        #expect(!withdrawal.covers(client: nil, route: 1))
    }
}
