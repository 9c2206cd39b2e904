import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("Engines", .timeLimit(.minutes(5)))
struct EngineTests {
    // MARK: Decision

    private static func route(_ name: String = "box", clients: [String]? = nil, authz: [String] = ["edge"]) -> RoutePlan
    {
        var plan = AuthorizerFixture.route(name, credential: 0, clients: clients)
        plan.authz = authz
        return plan
    }

    private static func decide(
        _ request: String,
        _ routes: [RoutePlan] = [route()],
        clients: [String] = [],
        engine: String = "edge",
        chosen: String = ""
    ) -> (problem: GatewayProblem?, match: RouteTable.Match?) {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(request.utf8)
        guard case .head = decoder.decode(bytes.span) else { return (nil, nil) }
        let listener = ConnectionContext(reach: .engine, port: 8191, engine: engine)
        var trace: AuthorizationTrace?
        var cache = ClientAuthenticationCache()
        let decision = AuthorizerFixture(routes, clients: clients).authorizer.decide(
            decoder.head,
            bytes.span,
            scheme: nil,
            route: Array(chosen.utf8),
            askedBy: engine,
            on: listener,
            cache: &cache,
            trace: &trace
        )
        switch consume decision {
        case .admitted(let admitted): return (nil, admitted.match)
        case .refused(let refusal): return (refusal.problem, nil)
        case .preflight: return (nil, nil)
        case .unrouted: return (nil, nil)
        }
    }

    private static func request(_ target: String = "/box/x", host: String = "shop.example", _ fields: String...)
        -> String
    {
        "GET \(target) HTTP/1.1\r\nHost: \(host)\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    @Test func anyHostOfTheEngineFindsARouteByItsPath() {
        #expect(Self.decide(Self.request()).match == .path(0))
        #expect(Self.decide(Self.request("/x", host: "box.localhost")).match == .host(0))
    }

    @Test func theHostOfTheUpstreamFindsItsRoute() {
        #expect(Self.decide(Self.request("/x", host: "up.example")).match == .upstream(0))
    }

    /// Its credential would go to the upstream of the other one.
    @Test func theRouteMustBeTheOneThatTheEngineHasChosen() {
        #expect(Self.decide(Self.request(), chosen: "box").match == .path(0))
        let problem = Self.decide(Self.request(), chosen: "bo").problem
        #expect(problem?.kind == .routeForbidden)
        #expect(problem?.detail.contains("authgateway export") == true)
        #expect(Self.decide(Self.request("/x", host: "up.example"), chosen: "box").problem?.kind == .noRoute)
    }

    /// A client could send the field to an engine that does not.
    @Test func theChoiceNeverChangesWhatIsJudged() {
        // The engine may remove the route's path, or may not.
        let both = Self.decide(Self.request(host: "up.example"), chosen: "box").problem
        #expect(both?.kind == .misdirected)
        var other = Self.route("other")
        other.upstream = Origin(scheme: .https, host: "other.example", port: 443)
        let elsewhere = Self.decide(Self.request(host: "other.example"), [Self.route(), other], chosen: "box").problem
        #expect(elsewhere?.kind == .misdirected)
        var named = Self.route()
        named.matchHosts = ["up.example"]
        #expect(Self.decide(Self.request("/x", host: "up.example"), [named], chosen: "box").match == .host(0))
    }

    @Test func aRouteThatDoesNotNameTheEngineRefuses() {
        let problem = Self.decide(Self.request(), [Self.route(authz: ["other"])]).problem
        #expect(problem?.kind == .routeForbidden)
        #expect(problem?.detail.contains("routes.box.authz") ?? false)
        #expect(Self.decide(Self.request("/none")).problem?.kind == .noRoute)
    }

    @Test func clientsProveThemselvesAsElsewhere() {
        let laptop = "Authorization: Bearer laptop-token"
        #expect(Self.decide(Self.request(), clients: ["laptop"]).problem?.kind == .clientAuthRequired)
        #expect(Self.decide(Self.request("/box/x", host: "a", laptop), clients: ["laptop"]).match == .path(0))
        let closed = [Self.route(clients: ["other"])]
        let problem = Self.decide(Self.request("/box/x", host: "a", laptop), closed, clients: ["laptop", "other"])
            .problem
        #expect(problem?.kind == .routeForbidden)
        #expect(
            Self.decide(Self.request()).match == .path(0),
            "no client is configured, and the engine has proved itself"
        )
    }

    /// Requests of many clients share a cache: whoever was in it before, each is known by the own proof alone.
    @Test func theClientBeforeProvesNothing() {
        let names = ["laptop", "phone", "desk"]
        let authorizer = AuthorizerFixture([Self.route(clients: ["laptop", "desk"])], clients: names).authorizer
        let listener = ConnectionContext(reach: .engine, port: 8191, engine: "edge")
        var cache = ClientAuthenticationCache()
        func client(_ fields: String...) -> String? {
            var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
            let text = "GET /box/x HTTP/1.1\r\nHost: a\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
            let bytes = Array(text.utf8)
            guard case .head = decoder.decode(bytes.span) else { return nil }
            var trace: AuthorizationTrace?
            let decision = authorizer.decide(
                decoder.head,
                bytes.span,
                scheme: nil,
                route: [],
                askedBy: "edge",
                on: listener,
                cache: &cache,
                trace: &trace
            )
            switch consume decision {
            case .admitted(let admitted): return admitted.client
            case .refused: return nil
            case .preflight: return nil
            case .unrouted: return nil
            }
        }
        for _ in 0..<2 {
            #expect(client("Authorization: Bearer laptop-token") == "laptop")
            #expect(client() == nil)
            #expect(client("Authorization: Bearer laptop-tokem") == nil)
            #expect(client("Proxy-Authorization: Bearer laptop-token") == "laptop")
            #expect(client("Authorization: Bearer phone-token") == nil, "the route is not for it")
            #expect(client("Authorization: Bearer desk-token") == "desk")
            let both = client("Authorization: Bearer desk-token", "Proxy-Authorization: Bearer laptop-token")
            #expect(both == nil, "proofs of two clients")
        }
    }

    @Test(arguments: [
        [], ["Authorization:"], ["Authorization: a"], ["Authorization: Bearer token"],
        ["Proxy-Authorization: \u{7E}\u{7E}"],
        ["Accept: */*", "Authorization: Basic eHg6eXk="],
    ])
    func eachProofHasACache(_ fields: [String]) {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(("GET / HTTP/1.1\r\nHost: a\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n").utf8)
        guard case .head = decoder.decode(bytes.span) else {
            Issue.record("The head is not one.")
            return
        }
        let place = EngineClients.place(of: decoder.head, bytes.span)
        #expect((0..<EngineClients.count).contains(place))
        #expect(place == EngineClients.place(of: decoder.head, bytes.span))
    }

    @Test func aPreflightIsForTheEngineToAnswer() {
        var plan = Self.route()
        plan.allowedOrigins = ["https://app.example"]
        let preflight =
            "OPTIONS /box/x HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\nAccess-Control-Request-Method: PUT\r\n\r\n"
        #expect(Self.decide(preflight, [plan]).problem?.kind == .originRefused)
    }

    @Test func rulesOfTheRouteCount() {
        var plan = Self.route()
        plan.allow = [RoutePlan.Allow(methods: ["GET"], path: PathPattern("/files/**") ?? PathPattern.all)]
        #expect(Self.decide(Self.request("/box/files/1"), [plan]).match == .path(0))
        #expect(Self.decide(Self.request("/box/users"), [plan]).problem?.kind == .routeForbidden)
        #expect(Self.decide(Self.request("/box/files/../users"), [plan]).problem?.kind == .requestRefused)
    }

    // MARK: Proof

    private static func isProven(_ tokens: [String], by fields: String...) -> Bool {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array(("GET / HTTP/1.1\r\nHost: a\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n").utf8)
        guard case .head = decoder.decode(bytes.span) else { return false }
        let plan = EnginePlan(name: "edge", contract: .nginx, tokens: tokens.map { Secret($0) })
        return EngineProof(plan).isGiven(by: decoder.head, bytes.span, peer: nil)
    }

    @Test func anEngineProvesItselfByOneOfTwoTokens() {
        #expect(Self.isProven(["new", "old"], by: "X-Gw-Engine-Token: new"))
        #expect(Self.isProven(["new", "old"], by: "x-gw-engine-token: old"))
        #expect(!Self.isProven(["new", "old"], by: "X-Gw-Engine-Token: ne"))
        #expect(!Self.isProven(["new", "old"]))
        #expect(!Self.isProven(["new"], by: "X-Gw-Engine-Token: new", "X-Gw-Engine-Token: other"))
        #expect(Self.isProven([]), "the listener has let in nobody else")
    }

    // MARK: Generations

    private static let source = FixedCredentialSource(name: "box", strategy: "bearer", injection: Injection())

    private static func mark(_ engine: String = "edge", key: UInt8 = 1) -> GenerationMark {
        GenerationMark(engine: engine) { bytes in
            // Not a real code; it depends on all bytes and on the key.
            var sum = UInt64(key)
            for byte in bytes { sum = sum &* 0x100_0000_01B3 ^ UInt64(byte) }
            return (0..<32).map { UInt8(truncatingIfNeeded: sum >> ($0 % 8 * 8)) }
        }
    }

    private static func credential(_ generation: Int, token: String = "token") -> Credential {
        let injection = Injection.authorization(scheme: "Bearer", Secret(token))
        return Credential(name: "box", generation: generation, injection: injection)
    }

    private static func rejected(
        in text: String,
        _ mark: GenerationMark = mark(),
        from source: any CredentialSource = source
    ) -> GenerationMark.Rejected? {
        let value = Array(text.utf8)
        return mark.rejected(in: value.span, value.indices, from: source)
    }

    @Test func aTokenIsKnownByItsMark() {
        let value = Self.mark().value(of: Self.credential(17), from: Self.source)
        #expect(Self.rejected(in: value)?.generation == 17)
        #expect(Self.rejected(in: value, Self.mark("other")) == nil)
        #expect(Self.rejected(in: value, Self.mark(key: 2)) == nil)
        let another = FixedCredentialSource(name: "other", strategy: "bearer", injection: Injection())
        #expect(Self.rejected(in: value, from: another) == nil)
        #expect(!value.contains("token"))
    }

    /// Each gateway counts for itself: after a `clear` and a restart of one, their numbers differ.
    @Test func theTokenDecidesAndNotItsNumber() throws {
        let value = Self.mark().value(of: Self.credential(7), from: Self.source)
        let rejected = try #require(Self.rejected(in: value))
        #expect(Self.mark().names(Self.credential(1), rejected, from: Self.source))
        #expect(!Self.mark().names(Self.credential(7, token: "another"), rejected, from: Self.source))
    }

    @Test(arguments: [
        "", "17", "17.", ".00", "18.{}", "17.{}0", "x17.{}", "99999999999999999999.{}", "17,{}", "17.0{}",
    ])
    func aValueThatWasNotHandedOutIsIgnored(_ pattern: String) {
        let code = Self.mark().value(of: Self.credential(17), from: Self.source).dropFirst(3)
        #expect(Self.rejected(in: pattern.replacing("{}", with: code)) == nil)
    }

    @Test func anotherFingerprintIsIgnored() {
        let one = Self.mark().value(of: Self.credential(17), from: Self.source).dropFirst(3)
        let other = Self.mark().value(of: Self.credential(17, token: "another"), from: Self.source).dropFirst(3)
        #expect(Self.rejected(in: "17.\(other.prefix(32))\(one.suffix(32))") == nil)
    }

    @Test func withoutAKeyNoValueCounts() {
        let mark = GenerationMark(engine: "edge") { _ in [] }
        #expect(Self.rejected(in: mark.value(of: Self.credential(1), from: Self.source), mark) == nil)
    }

    // MARK: Budget

    @Test func anEngineMayCauseSomeRenewals() {
        var budget = EngineRenewalBudget()
        let start = MonotonicTime(nanoseconds: 0)
        let later = start + EngineRenewalBudget.interval
        func spends(_ credential: String, _ generation: Int, at now: MonotonicTime) -> Bool {
            budget.spend(credential, generation: generation, at: now) == .granted
        }
        for generation in 1...EngineRenewalBudget.burst { #expect(spends("box", generation, at: start)) }
        #expect(!spends("box", 1000, at: start))
        #expect(spends("box", 1, at: start), "it was paid for")
        #expect(spends("box", 1000, at: later))
        #expect(!spends("other", 1, at: later))
    }

    @Test func theLogIsToldOnceAMinute() {
        var budget = EngineRenewalBudget()
        let start = MonotonicTime(nanoseconds: 0)
        for generation in 0..<EngineRenewalBudget.burst { _ = budget.spend("box", generation: generation, at: start) }
        let answers = (0..<3).map { budget.spend("box", generation: 100 + $0, at: start) }
        #expect(
            answers == [.refused(isUnreported: true), .refused(isUnreported: false), .refused(isUnreported: false)]
        )
        let later = start + .seconds(90)
        for generation in 200..<260 { _ = budget.spend("box", generation: generation, at: later) }
        let last = budget.spend("box", generation: 300, at: later)
        #expect(last == .refused(isUnreported: true))
    }

    // MARK: Status

    @Test(arguments: [
        (ProblemKind.routeForbidden, 403, 403), (.noRoute, 403, 404), (.clientAuthRequired, 401, 401),
        (.engineAuthRequired, 401, 401), (.requestRefused, 403, 400), (.clientLimitReached, 403, 429),
        (.tokenEndpointUnreachable, 503, 503), (.locked, 503, 503), (.credentialMisconfigured, 503, 503),
    ])
    func engineAreRefusedWithStatusesThatTheyPassOn(_ kind: ProblemKind, _ nginx: Int, _ others: Int) {
        #expect(EnginePlan.Contract.nginx.status(of: kind) == nginx)
        #expect(EnginePlan.Contract.envoy.status(of: kind) == others)
        #expect(EnginePlan.Contract.forwardAuth.status(of: kind) == others)
    }
}
