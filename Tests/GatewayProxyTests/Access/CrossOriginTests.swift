import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayProxy

@Suite("Pages of other origins", .timeLimit(.minutes(5)))
struct CrossOriginTests {
    private static func route(_ name: String, origins: [String]? = nil, cookies: CookiePolicy? = nil) -> RoutePlan {
        var plan = AuthorizerFixture.route(name, credential: 0, clients: name == "own" ? ["laptop"] : nil)
        plan.allowedOrigins = origins
        if let cookies { plan.cookies = cookies }
        return plan
    }

    private static let routes = [
        route("api"), route("own", origins: ["https://own.example"]), route("closed", origins: []),
        route("web", cookies: .pass),
    ]
    private static let fixture = AuthorizerFixture(
        routes,
        clients: ["laptop"],
        origins: ["https://app.example", "http://localhost:3000"]
    )

    private static func request(_ target: String, _ fields: [String], method: String = "GET") -> String {
        let lines = ["\(method) \(target) HTTP/1.1", "Host: localhost:8080"] + fields
        return lines.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    @Test(arguments: [
        ("/api", "https://app.example", true), ("/api", "HTTPS://APP.example", true),
        ("/api", "http://localhost:3000", true), ("/api", "http://localhost", false),
        ("/api", "https://app.example.evil.example", false), ("/api", "https://own.example", false),
        ("/api", "null", false), ("/api", "*", false), ("/own", "https://own.example", true),
        ("/own", "https://app.example", false), ("/closed", "https://app.example", false),
    ])
    func onlyListedPagesMayCall(_ target: String, _ origin: String, _ mayCall: Bool) {
        let request = Self.request(
            target,
            ["Origin: \(origin)", "Sec-Fetch-Site: cross-site", "Proxy-Authorization: Bearer laptop-token"]
        )
        let refusal = Self.fixture.refusal(request)
        #expect((refusal?.problem.kind == .originRefused) != mayCall)
        #expect(Self.fixture.crossOriginFields(request).isEmpty != mayCall)
    }

    @Test(arguments: [
        ("/api", "https://other.example", "access.allow_origins"),
        ("/none", "https://other.example", "access.allow_origins"),
        ("/own", "https://other.example", "allow_origins of the route"), ("/api", "null", "Origin: null"),
    ])
    func theRefusalSaysWhichKeyToSet(_ target: String, _ origin: String, _ expected: String) {
        let problem = Self.fixture.refusal(Self.request(target, ["Origin: \(origin)"]))?.problem
        #expect(problem?.detail.contains(expected) == true)
        #expect(problem?.withoutNames.detail == problem?.detail)
    }

    @Test func severalOriginsAreRefusedUnlessTheyAreOne() {
        func isRefused(_ second: String) -> Bool {
            let fields = ["Origin: https://app.example", "Origin: \(second)"]
            return Self.fixture.refusal(Self.request("/api", fields))?.problem.kind == .originRefused
        }
        #expect(isRefused("http://localhost:3000"))
        #expect(isRefused("https://other.example"))
        #expect(!isRefused("https://app.example"))
    }

    // MARK: The listener's own origin

    struct Own: Sendable {
        var origin = "http://localhost:8080"
        var host = "localhost:8080"
        var fields: [String] = []
        var proof: String? = "laptop-token"
        var reach = ConnectionContext.Reach.loopback
        var isTLS = false
        var isAdmitted = true
        /// In the refusal.
        var words = "another origin"
    }

    @Test(arguments: [
        Own(), Own(origin: "HTTP://LOCALHOST:8080"), Own(origin: "http://127.0.0.1:8080", host: "127.0.0.1:8080"),
        Own(origin: "http://[::1]:8080", host: "[0:0::1]:8080"),
        Own(origin: "http://api.localhost:8080", host: "api.localhost:8080"),
        Own(origin: "https://gw.example", host: "gw.example", reach: .network, isTLS: true),
        Own(origin: "https://gw.example:8443", host: "gw.example:8443", reach: .network, isTLS: true),
        Own(origin: "https://gw.example", host: "gw.example:443", reach: .network, isTLS: true),
        // Who has not proved itself may be a page, or be sent by one.
        Own(proof: nil, isAdmitted: false, words: "Authenticate as a client"),
        Own(proof: "unknown", isAdmitted: false, words: "Authenticate as a client"),
        // A browser says so.
        Own(fields: ["Sec-Fetch-Site: same-origin"], isAdmitted: false),
        Own(fields: ["Sec-Fetch-Mode: websocket"], isAdmitted: false),
        Own(fields: ["sec-fetch-dest: empty"], isAdmitted: false),
        // There, it would not.
        Own(origin: "http://gw.example:8080", host: "gw.example:8080", reach: .network, isAdmitted: false),
        Own(origin: "http://localhost:8080", host: "localhost:8080", reach: .network, isAdmitted: false),
        Own(origin: "http://localhost", host: "localhost", reach: .unix, isAdmitted: false),
        // Others.
        Own(origin: "http://localhost", isAdmitted: false), Own(origin: "https://localhost:8080", isAdmitted: false),
        Own(origin: "http://127.0.0.1:8080", isAdmitted: false),
        Own(origin: "http://localhost:8080/", isAdmitted: false),
        Own(fields: ["Origin: https://other.example"], isAdmitted: false),
        Own(origin: "http://gw.example", host: "gw.example", reach: .network, isTLS: true, isAdmitted: false),
    ])
    func theListenersOwnOriginNeedsAProof(_ own: Own) {
        let proof = own.proof.map { ["Proxy-Authorization: Bearer \($0)"] } ?? []
        let lines = ["GET /api HTTP/1.1", "Host: \(own.host)", "Origin: \(own.origin)"] + own.fields + proof
        let request = lines.map { "\($0)\r\n" }.joined() + "\r\n"
        let problem = Self.fixture.refusal(request, on: own.reach, isTLS: own.isTLS)?.problem
        #expect((problem == nil) == own.isAdmitted, "\(own)")
        guard let problem else { return }
        #expect(problem.kind == .originRefused && problem.detail.contains(own.words))
        #expect(problem.detail.contains("access.allow_origins"))
    }

    /// A browser attaches its certificate to the handshake of any page, and may leave out the Sec-Fetch fields.
    @Test(
        arguments: [
            ([], nil, true), (["Connection: Upgrade", "Upgrade: websocket"], nil, false),
            (["Connection: Upgrade", "Upgrade: websocket"], "unknown", false),
            (["Connection: Upgrade", "Upgrade: websocket"], "edge-token", true),
        ] as [([String], String?, Bool)]
    )
    func aCertificateAloneDoesNotProveAWebSocket(_ fields: [String], _ token: String?, _ isAdmitted: Bool) throws {
        let certificate = AccessPlan.Client(
            name: "edge",
            tokens: [.token(Secret("edge-token"))],
            certificate: .exactly(.dns("edge.example"))
        )
        let fixture = AuthorizerFixture(Self.routes, certificates: [certificate])
        let proof = token.map { ["Proxy-Authorization: Bearer \($0)"] } ?? []
        let lines = ["GET /api HTTP/1.1", "Host: gw.example", "Origin: https://gw.example"] + fields + proof
        let request = lines.map { "\($0)\r\n" }.joined() + "\r\n"
        let peer = PeerIdentity([.dns("edge.example")])
        let decision = fixture.decide(request, from: peer, isTLS: true)
        switch consume decision {
        case .admitted?: #expect(isAdmitted)
        case .refused(let refusal)?: #expect(!isAdmitted && refusal.problem.kind == .originRefused)
        default: Issue.record("neither admitted nor refused")
        }
    }

    @Test func anAbsoluteTargetHasAnotherOrigin() {
        let request =
            "GET http://localhost:8080/api HTTP/1.1\r\nHost: localhost:8080\r\nOrigin: http://localhost:8080\r\n"
        #expect(Self.fixture.refusal(request + "Proxy-Authorization: Bearer laptop-token\r\n\r\n") != nil)
    }

    @Test func anExplanationNamesTheListenersOwnOrigin() {
        let fields = ["Origin: http://localhost:8080", "Proxy-Authorization: Bearer laptop-token"]
        let trace = Self.fixture.trace(Self.request("/api", fields), routes: Self.routes)
        #expect(trace?.reasons.first == .ownOrigin && trace?.reasons.last == .admitted)
    }

    /// Neither a proof that has expired nor the list takes away what was admitted by a proof; a page that is listed no more is cut.
    @Test(
        arguments: [
            ("http://localhost:8080", "laptop", .other), ("http://localhost:8080", nil, .refused),
            ("https://unlisted.example", "laptop", .refused),
        ] as [(String, String?, ReloadWithdrawal.Verdict)]
    )
    func aReloadCutsWhatARuleRefuses(_ origin: String, _ client: String?, _ expected: ReloadWithdrawal.Verdict) {
        #expect(Self.fixture.verdict(Self.request("/api", ["Origin: \(origin)"]), of: client) == expected)
    }

    // MARK: Preflights

    private static func asking(_ more: [String] = [], origin: String = "https://app.example") -> [String] {
        ["Origin: \(origin)", "Access-Control-Request-Method: PUT"] + more
    }

    private static func fields(_ preflight: Preflight?) -> [String]? {
        preflight.map { $0.answer.fields.map { "\($0.name): \($0.value)" } }
    }

    @Test func aPreflightIsAnsweredWithoutAClientToken() {
        let more = [
            "Access-Control-Request-Headers: authorization, x-a", "Access-Control-Request-Private-Network: true",
        ]
        let preflight = Self.fixture.preflight(
            Self.request("/own/x", Self.asking(more, origin: "https://own.example"), method: "OPTIONS")
        )
        #expect(preflight?.route == 1)
        #expect(preflight?.answer.status == 204)
        #expect(
            Self.fields(preflight) == [
                "Access-Control-Allow-Origin: https://own.example",
                "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
                "Access-Control-Allow-Methods: PUT", "Access-Control-Allow-Headers: authorization, x-a",
                "Access-Control-Allow-Private-Network: true", "Access-Control-Max-Age: 600",
            ]
        )
    }

    @Test func credentialsAreAllowedWhereCookiesPass() {
        func allows(_ target: String) -> Bool? {
            Self.fields(Self.fixture.preflight(Self.request(target, Self.asking(), method: "OPTIONS")))?
                .contains("Access-Control-Allow-Credentials: true")
        }
        #expect(allows("/web") == true)
        #expect(allows("/api") == false)
        // Whether there is such a route is not told.
        #expect(allows("/none") == false)
    }

    @Test(arguments: [
        ("GET", ["Origin: https://app.example", "Access-Control-Request-Method: PUT"]),
        ("OPTIONS", ["Origin: https://app.example"]), ("OPTIONS", ["Access-Control-Request-Method: PUT"]),
        ("OPTIONS", ["Origin: https://app.example", "Access-Control-Request-Method: P UT"]),
        ("OPTIONS", ["Origin: https://other.example", "Access-Control-Request-Method: PUT"]),
        ("OPTIONS", ["Origin: null", "Access-Control-Request-Method: PUT"]),
    ])
    func othersAreNoPreflights(_ method: String, _ fields: [String]) {
        #expect(Self.fixture.preflight(Self.request("/api", fields, method: method)) == nil)
    }

    /// The answer has to fit in a frame of HTTP/2.
    @Test func aLongListOfNamesIsNotRepeated() {
        for (count, isRepeated) in [(7680, true), (7681, false)] {
            let names = "Access-Control-Request-Headers: " + String(repeating: "x", count: count)
            let fields = Self.fields(
                Self.fixture.preflight(Self.request("/api", Self.asking([names]), method: "OPTIONS"))
            )
            #expect(fields?.contains { $0.hasPrefix("Access-Control-Allow-Headers") } == isRepeated)
        }
        let method = "Access-Control-Request-Method: " + String(repeating: "X", count: 257)
        let request = Self.request("/api", ["Origin: https://app.example", method], method: "OPTIONS")
        #expect(Self.fixture.preflight(request) == nil)
    }

    @Test(arguments: ["a b", "a,,b: c", "x-a\u{e4}"])
    func namesThatAreNoneAreNotRepeated(_ names: String) {
        let request = Self.request("/api", Self.asking(["Access-Control-Request-Headers: \(names)"]), method: "OPTIONS")
        let fields = Self.fields(Self.fixture.preflight(request))
        #expect(fields?.contains { $0.hasPrefix("Access-Control-Allow-Headers") } == false)
    }

    @Test func anExplanationSaysThatTheGatewayAnswers() {
        let trace = Self.fixture.trace(Self.request("/api", Self.asking(), method: "OPTIONS"), routes: Self.routes)
        #expect(trace?.reasons == [.originAllowed("https://app.example"), .preflightAnswered])
    }

    // MARK: Responses

    @Test(
        arguments: [
            (
                "/api", "Origin: https://app.example",
                ["Access-Control-Allow-Origin: https://app.example", "Vary: Origin"]
            ),
            (
                "/web", "Origin: https://app.example",
                [
                    "Access-Control-Allow-Origin: https://app.example", "Access-Control-Allow-Credentials: true",
                    "Vary: Origin",
                ]
            ),
            ("/api", "A: 1", ["Vary: Origin"]), ("/closed", "A: 1", []),
        ] as [(String, String, [String])]
    )
    func aResponseSaysWhichPageMayReadIt(_ target: String, _ field: String, _ expected: [String]) {
        let fixture = AuthorizerFixture(Self.routes, origins: ["https://app.example"])
        let grant = fixture.admission(Self.request(target, [field]), on: .loopback)?.crossOrigin
        #expect((grant?.fields ?? []).map { "\($0.name): \($0.value)" } == expected)
        #expect(String(decoding: grant?.lines ?? [], as: UTF8.self) == expected.map { "\($0)\r\n" }.joined())
        #expect((grant?.exposesFields ?? false) == field.hasPrefix("Origin"))
    }

    @Test func whatTheUpstreamSaysOfPagesIsDroppedWhereTheGatewayDoes() {
        let fields = [
            "Access-Control-Allow-Origin: *", "A: 1", "access-control-max-age: 5", "Access-Controls: 1", "Vary: Accept",
        ]
        func kept(_ answersPages: Bool) -> [String]? {
            HeadText.response(200, fields) { head, bytes in
                let rules = ResponseFieldRules(
                    credentialNames: [],
                    answersPages: answersPages,
                    policy: ResponsePolicy()
                )
                var (lines, index) = ([String](), 0)
                while case .kept(let run)? = rules.next(of: head, bytes, knowsChunks: true, from: &index) {
                    lines += bytes.string(head.section.lines(run)).split(separator: "\r\n").map(String.init)
                }
                return lines
            }
        }
        #expect(kept(true) == ["A: 1", "Access-Controls: 1", "Vary: Accept"])
        #expect(kept(false) == fields)
    }
}
