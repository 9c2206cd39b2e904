import GatewayHTTP
import GatewayTesting
import Testing

@Suite("What a problem answers", .timeLimit(.minutes(5)))
struct ProblemAnswerTests {
    private static let names = ProblemAnswer.Names(
        route: "box",
        credential: "campus",
        strategy: "box_jwt",
        upstream: "api.box.example"
    )

    private static func answer(
        _ problem: GatewayProblem,
        disclosesNames: Bool = true,
        sendsProxyStatus: Bool = true,
        form: ProblemAnswer.Form = ProblemAnswer.Form()
    ) -> ProblemAnswer {
        ProblemAnswer(
            problem,
            requestID: "r1",
            names: names,
            disclosesNames: disclosesNames,
            sendsProxyStatus: sendsProxyStatus,
            form: form
        )
    }

    private static func body(_ answer: ProblemAnswer) -> String { String(decoding: answer.body, as: UTF8.self) }

    private static func value(_ name: String, of answer: ProblemAnswer) -> String? {
        answer.fields.first { $0.name == name }?.value
    }

    @Test func theRequestIsNamedWhereItIsWanted() {
        func value(_ header: String?) -> [String] {
            ProblemAnswer(
                GatewayProblem(.noRoute, "x"),
                requestID: "r1",
                requestIDHeader: header,
                disclosesNames: false,
                sendsProxyStatus: false
            ).fields.filter { $0.value == "r1" }.map(\.name)
        }
        #expect(value("Gateway-Request-Id") == ["Gateway-Request-Id"])
        #expect(value("X-Trace") == ["X-Trace"])
        #expect(value(nil) == [])
    }

    // MARK: gRPC

    @Test(
        arguments: [
            (.clientAuthRequired, "16"), (.proxyAuthRequired, "16"), (.upstreamUnreachable, "14"),
            (.routeForbidden, "7"), (.reauthorizationRequired, "14"), (.credentialMisconfigured, "14"),
            (.noRoute, "12"), (.internalError, "13"), (.clientLimitReached, "8"),
        ] as [(ProblemKind, String)]
    )
    func aCallOfGRPCGetsAStatusOfGRPC(_ kind: ProblemKind, _ status: String) {
        let answer = Self.answer(GatewayProblem(kind, "100% \u{2014}"), form: .init(isGRPC: true))
        #expect(answer.status == 200 && answer.body.isEmpty && Self.value("grpc-status", of: answer) == status)
        #expect(Self.value("grpc-message", of: answer) == "100%25 %E2%80%94")
        #expect(Self.value("Content-Type", of: answer) == "application/grpc")
        #expect(Self.value("WWW-Authenticate", of: answer) == nil)
    }

    /// A gateway that stands before this one would renew a token that is good.
    @Test(arguments: ProblemKind.allCases)
    func onlyAClientWithoutProofIsUnauthenticated(_ kind: ProblemKind) {
        let isUnauthenticated = GRPCStatus(kind) == .unauthenticated
        let lacksProof: Set<ProblemKind> = [
            .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .adminAuthRequired,
        ]
        #expect(isUnauthenticated == lacksProof.contains(kind))
    }

    @Test(arguments: [
        ("application/grpc", true), ("Application/GRPC+proto", true), ("application/grpc;a=b", true),
        ("application/grpc-web", false), ("application/grpcx", false), ("application/json", false), ("", false),
    ])
    func theTypeOfTheContentMakesACall(_ type: String, _ isCall: Bool) {
        let found = HeadText.request(["Content-Type: \(type)"]) { GRPCStatus.isCall($0, $1) }
        #expect(found == isCall)
    }

    // MARK: Fields

    @Test(
        arguments: [
            (.noRoute, []), (.clientAuthRequired, ["WWW-Authenticate: Bearer realm=\"authgateway\""]),
            (.proxyAuthRequired, ["Proxy-Authenticate: Basic realm=\"authgateway\""]),
            (.methodRefused, ["Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"]),
        ] as [(ProblemKind, [String])]
    )
    func theStatusDecidesWhatElseHasToBeSaid(_ kind: ProblemKind, _ expected: [String]) {
        let answer = Self.answer(GatewayProblem(kind, "x"), sendsProxyStatus: false)
        let always = [
            "Content-Type: application/problem+json", "Content-Length: \(answer.body.count)", "Cache-Control: no-store",
        ]
        #expect(answer.fields.map { "\($0.name): \($0.value)" } == always + expected)
        #expect(answer.status == kind.status)
    }

    @Test func fieldsHaveAnOrder() {
        let problem = GatewayProblem(.methodRefused, "x", retryAfter: .milliseconds(1_200))
        let names = [
            "Content-Type", "Content-Length", "Cache-Control", "Proxy-Status", "Allow", "Retry-After",
        ]
        #expect(Self.answer(problem).fields.map(\.name) == names)
        #expect(Self.value("Retry-After", of: Self.answer(problem)) == "2")
    }

    /// No error code for a request that brought no token (RFC 6750 section 3.1).
    @Test(arguments: [(nil, ""), ("invalid_token", ", error=\"invalid_token\"")] as [(String?, String)])
    func aTokenThatWasRefusedIsSaidToBe(_ code: String?, _ parameter: String) {
        let problem = GatewayProblem(.clientAuthRequired, "x", cause: GatewayProblem.Cause(code: code))
        for disclosesNames in [false, true] {
            let answer = Self.answer(problem, disclosesNames: disclosesNames)
            #expect(Self.value("WWW-Authenticate", of: answer) == "Bearer realm=\"authgateway\"\(parameter)")
        }
    }

    @Test(
        arguments: [
            (.upstreamTimeout, nil, "authgateway; next-hop=api.box.example; error=http_response_timeout"),
            (.noRoute, nil, "authgateway; error=destination_not_found"),
            (.tokenEndpointTimeout, "id.example", "authgateway; next-hop=id.example; error=http_response_timeout"),
            (.upstreamUnreachable, "10.0.0.1", "authgateway; next-hop=\"10.0.0.1\"; error=connection_refused"),
        ] as [(ProblemKind, String?, String)]
    )
    func proxyStatusNamesWhoFailed(_ kind: ProblemKind, _ hop: String?, _ expected: String) {
        let problem = GatewayProblem(kind, "x", nextHop: hop)
        #expect(Self.value("Proxy-Status", of: Self.answer(problem)) == expected)
        #expect(Self.value("Proxy-Status", of: Self.answer(problem, sendsProxyStatus: false)) == nil)
    }

    // MARK: Body

    @Test(arguments: [
        (false, "application/problem+json", "{\"type\":"),
        (true, "text/plain; charset=utf-8", "No route matches (no-route)"),
    ])
    func theClientChoosesTheForm(_ prefersText: Bool, _ mediaType: String, _ start: String) {
        let problem = GatewayProblem(.noRoute, "Nothing is there.")
        let answer = Self.answer(problem, form: ProblemAnswer.Form(prefersText: prefersText))
        #expect(Self.value("Content-Type", of: answer) == mediaType)
        #expect(Self.body(answer).hasPrefix(start))
        for fact in ["no-route", "Nothing is there.", "r1"] { #expect(Self.body(answer).contains(fact)) }
        // HEAD has the fields of GET.
        let head = Self.answer(problem, form: ProblemAnswer.Form(prefersText: prefersText, omitsBody: true))
        #expect(head.fields == answer.fields)
        #expect(head.body.isEmpty)
    }

    // MARK: Names

    private static let words = ["box", "campus", "box_jwt", "api.box.example", "authgateway login"]

    @Test(arguments: [false, true])
    func namesAreSaidToThoseWhoMayLearnThem(_ prefersText: Bool) {
        let problem = GatewayProblem(
            .upstreamUnreachable,
            "The upstream of the route box cannot be reached.",
            command: "authgateway login campus"
        )
        let answer = Self.answer(problem, form: ProblemAnswer.Form(prefersText: prefersText))
        let said = Self.words.filter { Self.body(answer).contains($0) }
        let withoutText = prefersText ? ["box_jwt", "api.box.example"] : ["api.box.example"]
        #expect(said == Self.words.filter { !withoutText.contains($0) })
        #expect(Self.value("Proxy-Status", of: answer)?.contains("api.box.example") == true)
    }

    @Test(arguments: ProblemKind.allCases)
    func nobodyElseLearnsThem(_ kind: ProblemKind) {
        let problem = GatewayProblem(kind, "x", command: "authgateway login campus", nextHop: "id.example")
        for prefersText in [false, true] {
            let form = ProblemAnswer.Form(prefersText: prefersText)
            let answer = Self.answer(problem, disclosesNames: false, form: form)
            let said = Self.body(answer) + answer.fields.map(\.value).joined()
            for name in Self.words + ["id.example"] { #expect(!said.contains(name)) }
            #expect(answer.status == kind.status)
        }
    }

    // MARK: Connections

    @Test(arguments: ProblemKind.allCases)
    func onlyARequestThatCanBeReadInTwoWaysLeavesADoubt(_ kind: ProblemKind) {
        #expect(kind.leavesConnectionDubious == (kind == .requestRefused))
    }
}

@Suite(.timeLimit(.minutes(5)))
struct ProxyStatusTests {
    @Test(
        arguments: [
            ("api.box.com", "next-hop=api.box.com"), ("localhost:8080", "next-hop=localhost:8080"),
            ("a_b.example.", "next-hop=a_b.example."), ("127.0.0.1:9", "next-hop=\"127.0.0.1:9\""),
            ("[::1]:443", "next-hop=\"[::1]:443\""), ("-x.example", "next-hop=\"-x.example\""),
            ("_x.example", "next-hop=\"_x.example\""), ("", "next-hop=\"\""),
        ] as [(String, String)]
    )
    func aHopIsATokenWhereItCanBeOne(_ host: String, _ parameter: String) {
        #expect(ProxyStatus.member(nextHop: host) == "authgateway; \(parameter)")
    }

    @Test func whereNobodyWasAskedThereIsNoHop() {
        #expect(ProxyStatus.member(nextHop: nil) == "authgateway")
    }
}

@Suite("The form of a problem", .timeLimit(.minutes(5)))
struct AcceptRuleTests {
    private static func prefersText(_ values: [String]) -> Bool? {
        HeadText.request(values.map { "Accept: \($0)" }) { AcceptRule.prefersText($0, $1) }
    }

    @Test(arguments: [
        "text/plain", "Text/PLAIN", "text/plain;charset=utf-8", "text/html, text/plain", "text/plain,text/html",
        "text/html , \ttext/plain ; q=0.5", "text/plain;q=1", "text/plain;q=0.001", "text/plain, application/*;q=0.1",
        "text/*, text/plain",
    ])
    func aClientThatTakesTextAndSaysNothingOfJSONGetsText(_ value: String) {
        #expect(Self.prefersText([value]) == true)
    }

    @Test(arguments: [
        "", "*/*", "text/html", "text/*", "application/json", "application/problem+json",
        "text/plain, application/json",
        "application/json;q=0.1, text/plain", "APPLICATION/JSON, text/plain", "text/plain, */*;q=0.1",
        "*/*, text/plain",
        "text/plain, application/problem+json", "text/plainer", "x-text/plain",
        // Not acceptable (RFC 9110 section 12.4.2).
        "text/plain;q=0", "text/plain; Q=0.000", "text/html, text/plain ;q=0.",
    ])
    func everybodyElseGetsJSON(_ value: String) { #expect(Self.prefersText([value]) == false) }

    /// Several fields are one list (RFC 9110 section 5.3).
    @Test(arguments: [
        (["text/html", "text/plain"], true), (["text/plain", "text/html"], true), (["", "text/plain"], true),
        (["text/plain", "application/json"], false), (["application/json", "text/plain"], false),
        (["text/plain", "*/*"], false), (["text/html", "image/png"], false), ([], false),
    ])
    func severalFieldsAreOneList(_ values: [String], _ expected: Bool) { #expect(Self.prefersText(values) == expected) }

    @Test(arguments: [("accept", true), ("ACCEPT", true), ("Accept-Encoding", false), ("X-Accept", false)])
    func onlyOneFieldCounts(_ name: String, _ expected: Bool) {
        #expect(HeadText.request(["\(name): text/plain"]) { AcceptRule.prefersText($0, $1) } == expected)
    }
}
