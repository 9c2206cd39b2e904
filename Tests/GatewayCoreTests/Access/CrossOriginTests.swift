import GatewayCore
import Testing

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
