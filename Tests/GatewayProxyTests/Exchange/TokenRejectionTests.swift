import GatewayEvents
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("Rejections of a token", .timeLimit(.minutes(5)))
struct TokenRejectionTests {
    /// A credential that can be replaced without a person, or not.
    private final class Source: CredentialSource {
        let name = "box"
        let strategy = "oauth2"
        let isRenewable: Bool

        init(isRenewable: Bool) { self.isRenewable = isRenewable }

        func current(at now: MonotonicTime) -> CredentialAnswer { .wait }
        func wait(
            for demand: CredentialRequest,
            _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
        ) -> CredentialTicket { CredentialTicket(id: 0) }
        func cancel(_ ticket: CredentialTicket) {}
        func rejected(generation: Int, by demand: CredentialRequest) {}
        func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {}
    }

    private static func credential(_ generation: Int = 1) -> Credential {
        Credential(name: "box", generation: generation, injection: Injection())
    }

    private static func judge(
        _ status: Int,
        _ challenges: [String] = [],
        retryOn: [Int] = [401],
        credential: Credential? = credential(),
        of source: (any CredentialSource)? = Source(isRenewable: true)
    ) -> ResponseFacts.Rejection? {
        HeadText.response(status, challenges.map { "WWW-Authenticate: \($0)" }) { head, bytes in
            TokenRejection.judge(head, bytes, retryOn: retryOn, method: "POST", credential: credential, of: source)
        }
    }

    // MARK: Statuses

    @Test(arguments: [
        (401, [401], true), (403, [401], false), (403, [401, 403], true), (403, [403], true), (401, [403], false),
        (401, [], false), (400, [400], true), (500, [401, 500], true), (599, [599], true), (999, [999], true),
        // Nothing below 400 is a rejection, whatever the route says.
        (200, [200], false), (302, [302, 401], false), (399, [399], false), (101, [101], false),
    ])
    func onlyTheStatusesOfTheRouteCanBeOne(_ status: Int, _ retryOn: [Int], _ isRejection: Bool) {
        #expect(
            Self.judge(status, retryOn: retryOn)
                == (isRejection ? .token(isRenewable: true) : ResponseFacts.Rejection.none)
        )
    }

    // MARK: Sessions

    private static func sign(
        _ rule: RejectionRule,
        _ status: Int,
        _ fields: [String] = [],
        content: String? = nil
    ) throws -> RejectionRule.Sign? {
        let upstream = try #require(Origin(scheme: .https, authority: "app.example.com"))
        return HeadText.response(status, fields) { head, bytes in
            rule.sign(in: head, bytes, from: (upstream, Array("/v1/x".utf8)), content: content.map { Array($0.utf8) })
        } ?? nil
    }

    private static let places: [(String, String, Bool)] = [
        ("/login", "/login", true), ("/login", "/login/?next=/", true), ("/login", "/login?next=/", true),
        ("/login/", "/login", true), ("/login", "/login/sso#top", true), ("/login", "/logins", false),
        ("/login", "/v1/login", false), ("/login", "https://app.example.com/login", true),
        ("/login", "HTTPS://APP.example.com:443/login", true), ("/login", "http://app.example.com/login", false),
        ("/login", "https://app.example.com:8443/login", false), ("/login", "https://id.example.com/login", false),
        ("/login", "//app.example.com/login", true), ("/login", "https://app.example.com:/login", true),
        ("/login", "//app.example.com:/login", true), ("/login", "https://id@app.example.com/login", false),
        ("/login", "//id.example.com/login", false),
        ("/login", "../login", true), ("/login", "login", false), ("/v1/login", "login?next=", true),
        ("/login", "/a/../login", true), ("/login", "/login/../home", false), ("/login", "?login", false),
        ("/login", "", false), ("/login", "/lo gin", false), ("/", "/anything", true),
        ("/", "https://id.example.com/", false),
        // Parameters of the segment.
        ("/login", "/login;jsessionid=0A", true), ("/login", "/login;jsessionid=0A?next=/", true),
        ("/login", "/logins;x", false), ("/login/sso", "/login;x/sso", false), ("/", "/;jsessionid=0A", true),
        // What stands in a query or a fragment has no part in it.
        ("/login", "/login?next=/a b", true), ("/login", "/login?next=\"<x>\\", true), ("/login", "/login#a b", true),
        ("/login", "/home?next=/login", false), ("/login", "/home#/login", false), ("/login", "/lo<gin?x", false),
        // Escapes of unreserved characters.
        ("/login", "/%6Cogin", true), ("/login", "/%6cog%69n/sso", true), ("/%6Cogin", "/login", true),
        ("/login", "/a/%2E%2e/login", true), ("/login", "/login/%2e%2e/home", false), ("/login", "/login%3Bx", false),
        ("/login", "/login%2Fsso", false), ("/login", "%2e%2e/login", true), ("/login", "/%6", false),
        ("/login", "/login/%zz", true),
        ("https://id.example.com/login", "https://id.example.com/login?x", true),
        ("https://id.example.com/login", "/login", false),
        ("https://id.example.com", "https://id.example.com", true),
        ("https://id.example.com", "https://id.example.com.evil.example/", false),
    ]

    @Test(arguments: places)
    func aRedirectIsComparedByOriginAndPath(_ location: String, _ field: String, _ isSign: Bool) throws {
        let rule = RejectionRule(location: RejectionRule.Location(location))
        let fields = ["Location: \(field)"]
        #expect(try Self.sign(rule, 302, fields) == (isSign ? .content : nil))
        // Only a redirect leads anywhere.
        #expect(try Self.sign(rule, 201, fields) == nil)
    }

    @Test(arguments: ["", "login", "//id.example.com/", "/login?next", "/login#x", "ftp://a/", "https:///x", "/a b"])
    func anythingElseIsNoPlace(_ text: String) {
        #expect(RejectionRule.Location(text) == nil)
    }

    @Test func statusesSayWhereToLookOrAreTheSignThemselves() throws {
        let page = try TextPattern("name=\"password\"")
        let (form, other) = ("<input name=\"password\">", "<p>")
        let location = try #require(RejectionRule.Location("/login"))
        #expect(try Self.sign(RejectionRule(statuses: [302, 403]), 403) == .status)
        // A redirect is what follows a form that was taken, too.
        #expect(try Self.sign(RejectionRule(statuses: [302, 403]), 302) == .content)
        #expect(try Self.sign(RejectionRule(statuses: [302, 403]), 303) == nil)
        let any = RejectionRule(body: page)
        #expect(try Self.sign(any, 200, content: form) == .content && Self.sign(any, 200, content: other) == nil)
        #expect(try Self.sign(any, 200, content: nil) == nil)
        let some = RejectionRule(statuses: [403], body: page)
        #expect(try Self.sign(some, 200, content: form) == nil && Self.sign(some, 403, content: form) == .content)
        // Either is enough.
        let both = RejectionRule(location: location, body: page)
        #expect(try Self.sign(both, 302, ["Location: /login"]) == .content)
        #expect(try Self.sign(both, 200, content: form) == .content)
    }

    @Test(arguments: [
        (["Content-Type: text/html; charset=utf-8"], true), (["Content-Type: application/json"], true),
        (["Content-Type: application/problem+json"], true), (["Content-Type: text/event-stream"], false),
        (["Content-Type: application/octet-stream"], false), (["Content-Encoding: gzip"], false),
        (["Content-Encoding: identity"], true), (["Content-Type: application/x-ndjson"], false), ([], true),
    ])
    func aBodyIsReadWhereItIsTextThatIsNotCompressed(_ fields: [String], _ isRead: Bool) throws {
        let rule = RejectionRule(statuses: [200], body: try TextPattern("x"))
        let reads = { (rule: RejectionRule, status: Int, length: Int) in
            HeadText.response(status, fields + ["Content-Length: \(length)"]) { head, bytes in
                rule.readsBody(of: head, bytes)
            }
        }
        #expect(reads(rule, 200, 5) == isRead)
        #expect(reads(rule, 403, 5) == false)
        #expect(reads(RejectionRule(statuses: [200]), 200, 5) == false)
    }

    private static let signs: [(RejectionRule.Sign?, method: String, isRenewable: Bool, ResponseFacts.Rejection)] = [
        (.status, "GET", true, .token(isRenewable: true)), (.status, "POST", true, .token(isRenewable: true)),
        (.content, "GET", true, .token(isRenewable: true)), (.content, "HEAD", true, .token(isRenewable: true)),
        (.content, "POST", true, .tokenNotSentAgain), (.content, "DELETE", true, .tokenNotSentAgain),
        // Methods are compared by case (RFC 9110 section 9.1).
        (.content, "get", true, .tokenNotSentAgain), (.content, "POST", false, .token(isRenewable: false)),
        (nil, "GET", true, .none),
    ]

    @Test(arguments: signs)
    func aSignIsARejection(
        _ sign: RejectionRule.Sign?,
        method: String,
        isRenewable: Bool,
        _ expected: ResponseFacts.Rejection
    ) {
        let judged = HeadText.response(200, []) { head, bytes in
            TokenRejection.judge(
                head,
                bytes,
                retryOn: [401],
                sign: sign,
                method: method,
                credential: Self.credential(),
                of: Source(isRenewable: isRenewable)
            )
        }
        #expect(judged == expected)
    }

    // MARK: Records

    @Test(
        arguments: [
            (.token(isRenewable: true), false, .first(isRenewable: true)), (.token(isRenewable: true), true, .ofReplay),
            (.tokenNotSentAgain, false, .first(isRenewable: true)), (.tokenNotSentAgain, true, .ofReplay),
            (.token(isRenewable: false), false, .first(isRenewable: false)),
            (.token(isRenewable: false), true, .first(isRenewable: false)), (.none, false, nil), (.none, true, nil),
            (.challenge(isAnswered: true), false, nil), (.challenge(isAnswered: false), true, nil),
            (.otherSignature, false, nil), (.otherSignature, true, nil),
            (.tokenWithoutRenewal, false, nil), (.tokenOverBudget(fillsAfter: .seconds(1)), true, nil),
        ] as [(ResponseFacts.Rejection, Bool, ResponseFacts.Rejection.Entry?)]
    )
    func onlyARejectedTokenIsRecorded(
        _ rejection: ResponseFacts.Rejection,
        wasReplayed: Bool,
        _ expected: ResponseFacts.Rejection.Entry?
    ) {
        #expect(rejection.entry(wasReplayed: wasReplayed) == expected)
    }

    @Test func theRecordDecidesWhetherARejectionCounts() {
        let now = MonotonicTime(nanoseconds: 1_000_000_000)
        let later = MonotonicTime(nanoseconds: 4_000_000_000)
        for rejection in [ResponseFacts.Rejection.token(isRenewable: true), .tokenNotSentAgain] {
            #expect(rejection.counted(by: .counts, at: now) == rejection)
            #expect(rejection.counted(by: .withoutRenewal, at: now) == .tokenWithoutRenewal)
            let overBudget = rejection.counted(by: .overBudget(until: later), at: now)
            #expect(overBudget == .tokenOverBudget(fillsAfter: .seconds(3)))
        }
    }

    // MARK: gRPC

    @Test(arguments: [
        ("16", [401], true), ("16", [403], false), ("0", [401], false), ("7", [401], false), ("016", [401], true),
        ("x", [401], false), ("", [401], false), ("116", [401], false),
    ])
    func theStatusUnauthenticatedOfGRPCIsOne(_ status: String, _ retryOn: [Int], _ isRejection: Bool) {
        let fields = ["Content-Type: application/grpc", "grpc-status: \(status)"]
        let judged = HeadText.response(200, fields) { head, bytes in
            TokenRejection.judge(
                head,
                bytes,
                retryOn: retryOn,
                method: "POST",
                credential: Self.credential(),
                of: Source(isRenewable: true)
            )
        }
        #expect(judged == (isRejection ? .token(isRenewable: true) : ResponseFacts.Rejection.none))
    }

    // MARK: Challenges

    @Test(arguments: [
        ([], true), (["Bearer"], true), (["Bearer realm=\"x\""], true), ([""], true),
        (["Bearer error=\"invalid_token\""], true), (["Bearer error=invalid_token"], true),
        (["bearer realm=\"x\", ERROR=\"Invalid_Token\""], true), (["Basic realm=\"x\""], true),
        (["Bearer error=\"insufficient_scope\""], false), (["Bearer error=\"invalid_request\""], false),
        (["Bearer error=insufficient_scope, scope=\"a\""], false), (["DPoP error=\"use_dpop_nonce\""], false),
        // One that says so is enough, wherever it stands.
        (["Bearer error=\"insufficient_scope\"", "Bearer error=\"invalid_token\""], true),
        (["Bearer error=\"invalid_token\"", "Bearer error=\"insufficient_scope\""], true),
        // One that names no error takes nothing back.
        (["Basic realm=\"x\"", "Bearer error=\"insufficient_scope\""], false),
        (["Bearer error=\"insufficient_scope\"", "Basic realm=\"x\""], false),
        (["Bearer error_description=\"insufficient_scope\""], true),
    ])
    func anotherErrorIsAboutTheRequest(_ challenges: [String], _ isRejection: Bool) {
        #expect(Self.judge(401, challenges) == (isRejection ? .token(isRenewable: true) : ResponseFacts.Rejection.none))
        let isSaid = HeadText.response(401, challenges.map { "www-authenticate: \($0)" }) {
            TokenRejection.isRejection($0, $1)
        }
        #expect(isSaid == isRejection)
    }

    @Test func fieldsOfOtherNamesSayNothing() {
        let others = [
            "X-Error: Bearer error=\"insufficient_scope\"", "Proxy-Authenticate: Bearer error=\"invalid_request\"",
        ]
        #expect(HeadText.response(401, others) { TokenRejection.isRejection($0, $1) } == true)
    }

    // MARK: Credentials

    @Test func whereNothingWasInjectedNothingIsRejected() {
        #expect(Self.judge(401, credential: nil) == ResponseFacts.Rejection.none)
        #expect(Self.judge(401, of: nil) == ResponseFacts.Rejection.none)
        #expect(Self.judge(401, credential: nil, of: nil) == ResponseFacts.Rejection.none)
    }

    @Test(arguments: [true, false])
    func theSourceSaysWhetherThereCanBeAnother(_ isRenewable: Bool) {
        let source = Source(isRenewable: isRenewable)
        #expect(Self.judge(401, of: source) == .token(isRenewable: isRenewable))
        #expect(Self.judge(401, ["Bearer error=\"invalid_token\""], of: source) == .token(isRenewable: isRenewable))
        #expect(Self.judge(401, ["Bearer error=\"invalid_request\""], of: source) == ResponseFacts.Rejection.none)
    }

    @Test func aFixedCredentialCannotBeReplaced() {
        let source = FixedCredentialSource(name: "box", strategy: "basic", injection: Injection())
        #expect(Self.judge(401, of: source) == .token(isRenewable: false))
    }

    @Test(
        arguments: [
            (401, [], 401), (403, [], 403), (401, ["Bearer error=\"invalid_token\""], 401),
            (403, ["Bearer error=\"insufficient_scope\""], nil), (401, ["Bearer error=\"invalid_request\""], nil),
            (400, [], nil), (404, [], nil), (407, [], nil), (200, [], nil), (500, [], nil),
        ] as [(Int, [String], Int?)]
    )
    func aRefusalOfAFixedCredential(_ status: Int, _ challenges: [String], _ expected: Int?) {
        let fields = challenges.map { "WWW-Authenticate: \($0)" }
        #expect(HeadText.response(status, fields) { TokenRejection.refusal($0, $1) } == expected)
    }

    // MARK: Sources that answer challenges

    private static func challenged(realm: String? = nil) -> ChallengeCredentialSource {
        let password = FixedCredentialSource(
            name: "box",
            strategy: "basic",
            injection: .authorization(scheme: "Basic", Secret("eDp5")),
            generation: ChallengeCredentialSource.fullGeneration
        )
        return ChallengeCredentialSource(password, realm: realm)
    }

    @Test(
        arguments: [
            (["Basic realm=\"x\""], nil, true), (["BASIC"], nil, true), (["Bearer, Basic realm=\"x\""], nil, true),
            (["Bearer", "Basic realm=\"x\""], nil, true), (["Basic realm=\"x\""], "x", true),
            (["Basic realm=\"y\""], "x", false), (["Basic realm=\"X\""], "x", false), (["Basic"], "x", false),
            (["Basic realm=\"y\", Basic realm=\"x\""], "x", true), ([], nil, false), (["Bearer"], nil, false),
            // What an error means for a token means nothing here.
            (["Bearer error=\"insufficient_scope\", Basic"], nil, true), (["Digest realm=\"Basic\""], nil, false),
        ] as [([String], String?, Bool)]
    )
    func aChallengeIsAnsweredOnce(_ challenges: [String], _ realm: String?, _ isAnswered: Bool) {
        let source = Self.challenged(realm: realm)
        #expect(source.isRenewable)
        #expect(Self.judge(401, challenges, of: source) == .challenge(isAnswered: isAnswered))
        // The next requests go with the credential from the start.
        #expect(source.isRenewable == !isAnswered)
        // That one was sent already.
        #expect(
            Self.judge(401, challenges, credential: Self.credential(2), of: source) == .challenge(isAnswered: false)
        )
    }

    @Test func aChallengeOfAnotherStatusIsNotAsked() {
        let source = Self.challenged()
        #expect(Self.judge(403, ["Basic"], of: source) == ResponseFacts.Rejection.none)
        #expect(Self.judge(401, ["Basic"], credential: nil, of: source) == ResponseFacts.Rejection.none)
        #expect(source.isRenewable)
    }
}
