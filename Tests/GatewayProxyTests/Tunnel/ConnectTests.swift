import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("CONNECT", .timeLimit(.minutes(5)))
struct ConnectTests {
    private static func connect(_ target: String = "up.example:443", _ fields: String...) -> String {
        "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    private static func problem(_ decision: RequestAuthorizer.ConnectDecision?) -> GatewayProblem? {
        guard case .refused(let refusal)? = decision else { return nil }
        return refusal.problem
    }

    private func fixture(clients: [String] = []) -> AuthorizerFixture {
        AuthorizerFixture([AuthorizerFixture.route("open")], clients: clients)
    }

    @Test(arguments: [
        connect("UP.example:443"), connect("up.example.:443"),
        "CONNECT up.example.:443 HTTP/1.1\r\nHost: up.example.\r\n\r\n",
    ])
    func aHostThatARouteLeadsToIsIntercepted(_ request: String) throws {
        guard case .intercept(let origin)? = fixture().connect(request) else {
            Issue.record("it was refused")
            return
        }
        #expect((origin.host, origin.port) == ("up.example", 443))
    }

    @Test(arguments: ["other.example:443", "up.example:8443", "up.example.evil:443", "open.localhost:443"])
    func anyOtherIsRefused(_ target: String) {
        #expect(Self.problem(fixture().connect(Self.connect(target)))?.kind == .noRoute)
    }

    @Test func aListenerThatDoesNotInterceptNamesTheKey() {
        let problem = Self.problem(fixture().connect(Self.connect(), intercepts: false))
        #expect(problem?.kind == .methodRefused && problem?.detail.contains("intercept: true") == true)
    }

    @Test(
        arguments: [
            ("Proxy-Authorization: Bearer laptop-token", nil), ("Proxy-Authorization: Basic eDpsYXB0b3AtdG9rZW4=", nil),
            ("Proxy-Authorization: Bearer wrong", .proxyAuthRequired), ("X-A: b", .proxyAuthRequired),
            ("Authorization: Bearer laptop-token", .proxyAuthRequired),
        ] as [(String, ProblemKind?)]
    )
    func theClientProvesItselfAsToAProxy(_ field: String, _ kind: ProblemKind?) {
        #expect(Self.problem(fixture(clients: ["laptop"]).connect(Self.connect("up.example:443", field)))?.kind == kind)
    }

    // MARK: To a server with a plain route

    private static let plain: RoutePlan = {
        var route = AuthorizerFixture.route("plain")
        route.upstream = Origin(scheme: .http, host: "plain.example", port: 8080)
        return route
    }()

    private func peek(_ unrouted: ConnectPlan.Unrouted, _ ports: [Int] = [8080]) -> (InterceptedOrigin, Bool)? {
        let address = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 8080)
        let plan = ConnectPlan(unrouted: unrouted, allow: [], ports: ports)
        let decision = AuthorizerFixture([Self.plain], connect: [address: plan])
            .connect(Self.connect("plain.example:8080"), at: address)
        guard case .peek(let origin, let tunnel)? = decision else { return nil }
        return (origin, tunnel != nil)
    }

    @Test func itsFirstBytesDecide() throws {
        let (origin, mayPass) = try #require(peek(.tunnel))
        #expect((origin.scheme, origin.host, origin.port) == (.http, "plain.example", 8080) && mayPass)
        #expect(try #require(peek(.refuse)).1 == false)
        #expect(try #require(peek(.tunnel, [443])).1 == false)
    }

    @Test(arguments: [
        ("plain.example:8080", "/a", nil), ("PLAIN.example.:8080", "http://PLAIN.example.:8080/a", nil),
        ("plain.example", "/a", "route plain"), ("other.example", "/a", "route plain"),
        ("plain.example:8080", "https://plain.example:8080/a", "route plain"),
    ])
    func aRequestThereIsForThatServer(_ host: String, _ target: String, _ words: String?) throws {
        let (origin, _) = try #require(peek(.refuse))
        let request = "GET \(target) HTTP/1.1\r\nHost: \(host)\r\n\r\n"
        switch AuthorizerFixture([Self.plain]).decide(request, inPlaceOf: origin) {
        case .refused(let refusal)?:
            #expect(refusal.problem.kind == .misdirected && words.map(refusal.problem.detail.contains) == true)
        case .admitted(let admitted)?: #expect(admitted.match == .upstream(0) && words == nil)
        default: Issue.record("neither admitted nor refused")
        }
    }

    @Test(arguments: [
        ("", TunnelOpening.unfinished), ("G", .unfinished), ("GET", .unfinished), ("GET ", .unfinished),
        ("GET /", .request), ("GET /chat HTTP/1.1\r\n", .request), ("OPTIONS * HTTP/1.1", .request),
        ("GET http://plain.example/", .request), ("M-SEARCH *", .request), ("PRI * HTTP/2.0", .request),
        ("get /", .other), (" GET /", .other), ("GET\t/", .other), ("EHLO client.example\r\n", .other),
        ("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", .other), ("\u{16}\u{3}\u{1}", .other), ("PING\r\n", .other),
        ("SET key value", .other), ("NICK harry\r\n", .other), ("NICK http\r\n", .other),
        ("NICK ht", .unfinished),
        ("GET HTTPS://plain.example/", .request), ("GET httpx://", .other), ("\r\nGET /", .request),
        ("\r\n", .unfinished), ("\n", .unfinished), ("\r\nSSH-2.0-x", .other), ("\r\n\r\n\r", .request),
        (String(repeating: "A", count: 24), .unfinished),
        (String(repeating: "A", count: 25), .other),
    ])
    func theFirstBytesAreThoseOfARequest(_ text: String, _ expected: TunnelOpening) {
        #expect(TunnelOpening.judge(Array(text.utf8).span) == expected)
    }

    // MARK: Names

    /// The dot of the root ends a name (RFC 1034 section 3.1), and nothing else.
    @Test(arguments: [
        ("open.localhost.", "/a", true), ("open.localhost.:8080", "/a", true), ("localhost.:8080", "/open", true),
        ("open.localhost..", "/a", false), ("localhost..", "/open", false), (".", "/open", false),
        ("[::1].:8080", "/open", false), ("[::1.]:8080", "/open", false),
    ])
    func aTrailingDotFindsTheRoute(_ host: String, _ path: String, _ isFound: Bool) {
        let request = "GET \(path) HTTP/1.1\r\nHost: \(host)\r\n\r\n"
        #expect((fixture().admission(request, on: .loopback) != nil) == isFound)
    }

    /// A resolver tries no search domain then.
    @Test(arguments: [("db.:443", "db."), ("db:443", "db"), ("8.8.8.8.:443", "8.8.8.8")])
    func aTunnelLeadsToTheNameAsItIsWritten(_ target: String, _ expected: String) throws {
        let address = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 8080)
        let plan = ConnectPlan(unrouted: .tunnel, allow: [], ports: [443])
        let fixture = AuthorizerFixture([Self.plain], connect: [address: plan])
        let decision = fixture.connect(Self.connect(target), at: address)
        guard case .tunnel(let tunnel)? = decision else {
            Issue.record("no tunnel")
            return
        }
        #expect(tunnel.lookupName == expected)
    }

    /// It is the proof of the CONNECT that says who asks.
    @Test func aKnownClientIsToldTheRouteOfTheConnect() {
        let origin = InterceptedOrigin(host: "up.example", port: 443, proof: Array("Bearer laptop-token".utf8))
        let fixture = AuthorizerFixture([AuthorizerFixture.route("open")], clients: ["laptop"], requireClient: .true)
        guard case .refused(let refusal)? = fixture.decide(Self.get("other.example"), inPlaceOf: origin) else {
            Issue.record("it was admitted")
            return
        }
        #expect(refusal.client == "laptop" && refusal.problem.detail.contains("route open"))
    }

    // MARK: By the name in the TLS hello

    @Test(arguments: [
        ("up.example", true), ("UP.example", true), ("up.example.", true), ("up.example..", false),
        ("other.example", false), ("open.localhost", false), ("", false),
    ])
    func aServerWithARouteMayBeNamedInTheHello(_ name: String, _ isServed: Bool) {
        let listener = ConnectionContext(reach: .loopback, port: 8443)
        let origin = fixture().authorizer.origin(named: name, on: listener)
        #expect((origin != nil) == isServed)
        guard isServed else { return }
        #expect(origin?.host == "up.example" && origin?.port == 443)
    }

    @Test(
        arguments: [
            ("up.example", nil), ("up.example:443", nil), ("up.example:8443", nil), ("up.example:8444", .misdirected),
            ("other.example", .misdirected),
        ] as [(String, ProblemKind?)]
    )
    func theHostIsThatOfTheHello(_ host: String, _ expected: ProblemKind?) {
        let origin = InterceptedOrigin(host: "up.example", port: 443, listenerPort: 8443)
        let decision = fixture().decide(Self.get(host), inPlaceOf: origin)
        switch consume decision {
        case .refused(let refusal)?: #expect(refusal.problem.kind == expected)
        default: #expect(expected == nil)
        }
    }

    @Test func aClientProvesItselfInTheRequestThere() {
        let origin = InterceptedOrigin(host: "up.example", port: 443, listenerPort: 8443)
        let request = Self.get("up.example", "/a", "Authorization: Bearer laptop-token")
        guard case .admitted(let admitted)? = fixture(clients: ["laptop"]).decide(request, inPlaceOf: origin) else {
            Issue.record("it was refused")
            return
        }
        #expect(admitted.client == "laptop" && admitted.tokenPlaces.hasAuthorization)
    }

    @Test func twoProofsAreRefused() {
        let fields = ["Proxy-Authorization: Bearer laptop-token", "Proxy-Authorization: Bearer laptop-token"]
        let request = Self.connect("up.example:443", fields[0], fields[1])
        #expect(Self.problem(fixture(clients: ["laptop"]).connect(request))?.kind == .requestRefused)
    }

    // MARK: Requests on the connection

    private static func get(_ host: String, _ path: String = "/a", _ fields: String...) -> String {
        "GET \(path) HTTP/1.1\r\nHost: \(host)\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    private func kind(_ request: String, clients: [String] = [], proof: String? = nil) -> ProblemKind? {
        let origin = InterceptedOrigin(host: "up.example", port: 443, proof: proof.map { Array($0.utf8) })
        let decision = fixture(clients: clients).decide(request, inPlaceOf: origin)
        switch consume decision {
        case .refused(let refusal)?: return refusal.problem.kind
        case .admitted?: return nil
        case .preflight?: return nil
        case .unrouted?: return nil
        case nil: return .requestRefused
        }
    }

    @Test(
        arguments: [
            ("up.example", nil), ("UP.example:443", nil), ("up.example.", nil), ("up.example.:443", nil),
            ("up.example:80", .misdirected),
            ("other.example", .misdirected),
            ("localhost:8080", .misdirected), ("open.localhost", .misdirected),
        ] as [(String, ProblemKind?)]
    )
    func aRequestIsForTheHostOfTheConnect(_ host: String, _ expected: ProblemKind?) {
        #expect(kind(Self.get(host)) == expected)
    }

    @Test func anAbsoluteTargetIsForThatHostAndTLS() {
        #expect(kind(Self.get("up.example", "https://up.example/a")) == nil)
        #expect(kind(Self.get("up.example", "http://up.example/a")) == .misdirected)
        #expect(kind(Self.get("other.example", "https://other.example/a")) == .misdirected)
    }

    @Test func theProofOfTheConnectCountsForEachRequest() {
        #expect(kind(Self.get("up.example"), clients: ["laptop"], proof: "Bearer laptop-token") == nil)
        // As after a reload that has removed the client.
        #expect(kind(Self.get("up.example"), clients: ["other"], proof: "Bearer laptop-token") == .clientAuthRequired)
        let inside = Self.get("up.example", "/a", "Authorization: Bearer laptop-token")
        #expect(kind(inside, clients: ["laptop"]) == .clientAuthRequired, "fields of a request are the upstream's")
    }

    /// A page of another origin must not act with the credential.
    @Test(
        arguments: [
            ("Origin: https://evil.example", .originRefused), ("Origin: null", .originRefused),
            ("Sec-Fetch-Site: cross-site", .originRefused), ("Origin: https://up.example", nil),
            ("Origin: https://up.example.", nil), ("Origin: https://up.example..", .originRefused),
            ("Origin: https://up.example:443", .originRefused), ("Origin: http://up.example", .originRefused),
            ("Sec-Fetch-Site: same-origin", nil),
        ] as [(String, ProblemKind?)]
    )
    func onlyPagesOfThatHostMayCall(_ field: String, _ expected: ProblemKind?) {
        #expect(kind(Self.get("up.example", "/a", field)) == expected)
    }

    @Test(arguments: [("Authorization: Bearer laptop-token", true), ("Authorization: Bearer of-the-upstream", false)])
    func aTokenOfAClientDoesNotReachTheUpstream(_ field: String, _ isStripped: Bool) {
        let origin = InterceptedOrigin(host: "up.example", port: 443, proof: Array("Bearer laptop-token".utf8))
        let request = Self.get("up.example", "/a", field)
        guard case .admitted(let admitted)? = fixture(clients: ["laptop"]).decide(request, inPlaceOf: origin) else {
            Issue.record("it was refused")
            return
        }
        #expect(admitted.tokenPlaces.hasAuthorization == isStripped && admitted.client == "laptop")
    }

    @Test func onAConnectionThatWasTakenNoOtherOneIs() {
        let origin = InterceptedOrigin(host: "up.example", port: 443)
        let problem = Self.problem(fixture().connect(Self.connect(), inPlaceOf: origin))
        #expect(problem?.kind == .methodRefused)
    }
}
