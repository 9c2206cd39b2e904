import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

/// The answers of `RefreshErrorTests`, one of each kind, at every strategy that refreshes.
@Suite("Answers to a refresh, for each strategy", .timeLimit(.minutes(5)))
struct RefreshAnswerTests {
    /// What a grant makes of an answer.
    enum Outcome: Hashable {
        /// A further request that does without the refresh token.
        case acquires
        case login
        /// As `login`, and the token is forgotten.
        case forgets
        case transient
        case configuration
        case suspect
    }

    struct Row: CustomTestStringConvertible {
        let status: Int
        let body: String
        /// Of a login by browser: `oauth2_authorization_code` and `box_oauth`.
        let login: Outcome
        /// Of `oauth2_password`.
        let password: Outcome
        /// Of a recipe with `acquire`, and of one without.
        let recipe: Outcome
        let bareRecipe: Outcome
        /// Of `session_refresh` and `duke_session`.
        let session: Outcome
        var testDescription: String { "\(status) \(body.prefix(40))" }

        init(_ status: Int, _ body: String, _ others: Outcome, session: Outcome? = nil) {
            (self.status, self.body) = (status, body)
            (login, password, recipe, bareRecipe, self.session) = (others, others, others, others, session ?? others)
        }

        static func refused(_ status: Int, _ body: String, session: Outcome = .forgets) -> Row {
            Row(status, body, login: .login, acquiring: .acquires, session: session)
        }

        /// A refusal that is not about the client, after a refresh that worked: where no acquisition is at hand, a login is
        /// what can be tried.
        static func ambiguous(_ status: Int, _ body: String, session: Outcome = .login) -> Row {
            Row(status, body, login: .login, acquiring: .configuration, session: session)
        }

        private init(_ status: Int, _ body: String, login: Outcome, acquiring: Outcome, session: Outcome) {
            (self.status, self.body, self.login, self.session) = (status, body, login, session)
            (password, recipe, bareRecipe) = (acquiring, acquiring, login)
        }
    }

    private static func code(_ code: String) -> String { #"{"error":"\#(code)"}"# }

    /// A status that a session authorizer lists keeps its meaning there, whatever the body says.
    static let rows: [Row] = [
        .refused(400, code("invalid_grant")), .refused(401, code("invalid_token"), session: .login),
        .refused(400, code("token_expired")), .refused(401, code("expired_token"), session: .login),
        .refused(400, code("bad_verification_code")), .refused(400, code("login_required")),
        .refused(403, code("account_selection_required"), session: .login),
        .refused(200, code("bad_refresh_token"), session: .login),
        .refused(400, #"{"error":{"code":"invalid_grant","message":"No."}}"#),
        Row(400, code("mfa_required"), .login, session: .forgets),
        Row(401, code("interaction_required"), .login), Row(401, code("consent_required"), .login),
        Row(408, "", .transient), Row(421, "", .transient), Row(423, "", .transient), Row(425, "", .transient),
        Row(429, "", .transient), Row(500, "", .transient), Row(503, "<html>", .transient),
        Row(401, code("server_error"), .transient), Row(403, code("temporarily_unavailable"), .transient),
        Row(401, code("slow_down"), .transient),
        Row(302, "", .configuration), Row(404, "", .configuration), Row(401, code("invalid_client"), .configuration),
        Row(401, code("unauthorized_client"), .configuration),
        .ambiguous(401, code("invalid_scope")), .ambiguous(401, code("invalid_request")),
        .ambiguous(400, code("invalid_request"), session: .forgets),
        .ambiguous(400, code("unsupported_grant_type"), session: .forgets),
        .refused(
            403,
            #"{"error":"unauthorized_client","error_description":"refresh_token is invalid"}"#,
            session: .login
        ),
        .refused(400, #"{"status":"BAD_REFRESH_TOKEN"}"#),
        .refused(400, #"{"errors":[{"errorType":"invalid_grant","message":"Refresh token invalid"}]}"#),
        Row(400, "", .suspect, session: .forgets), Row(401, "", .suspect), Row(403, "", .suspect),
        Row(400, "Bad Request", .suspect, session: .forgets), Row(403, "<html>Blocked</html>", .suspect),
        Row(401, #"{"message":"It failed."}"#, .suspect), Row(401, #"{"error":{"message":"No."}}"#, .suspect),
    ]

    private let held = TokenSet(
        access: Secret("a1"),
        refreshToken: Secret("canary-refresh"),
        obtainedAt: now.wall,
        expiresAt: now.wall
    )

    private func outcome(_ grant: any TokenGrant, _ row: Row, mayAcquireAnew: Bool = false) throws -> Outcome {
        var attempt = GrantAttempt.sample(holding: held, at: now)
        attempt.answers = 1
        attempt.mayAcquireAnew = mayAcquireAnew
        switch grant.interpret(TokenReply(row.status, row.body), in: &attempt) {
        case .next(let request):
            #expect(!request.wire.contains("canary-refresh"))
            return .acquires
        case .failure(let failure):
            switch failure.class {
            case .transient: return .transient
            case .terminal: return .configuration
            case .suspect: return .suspect
            case .loginLikely, .loginRequired: return failure.clearsToken ? .forgets : .login
            }
        case .token, .parentRefused: throw WrongKind()
        }
    }

    private static let client: [(String, FixtureNode)] = [("client_id", "app"), ("client_secret", "s")]
    private static let url: (String, FixtureNode) = ("token_url", "https://id.example.com/token")
    private static let authorize: (String, FixtureNode) = ("authorize_url", "https://id.example.com/authorize")

    private func password() throws -> any TokenGrant {
        try grant("oauth2_password", .mapping(Self.client + [Self.url, ("username", "ada"), ("password", "p")]))
    }

    private func recipe(acquires: Bool) throws -> any TokenGrant {
        let outputs: FixtureNode = ["token": "/t", "renewal": "/r"]
        let refresh: FixtureNode = [
            ["url": "https://app.example.com/refresh", "body": ["text": "{{renewal}}"], "outputs": outputs]
        ]
        let acquire: FixtureNode = [
            ["url": "https://app.example.com/session", "body": ["text": "{{key}}"], "outputs": outputs]
        ]
        let start: [(String, FixtureNode)] =
            acquires
            ? [("secrets", ["key": "k"]), ("acquire", acquire)] : [("initial", ["token": "t", "renewal": "r"])]
        return try grant("recipe", .mapping(start + [("refresh", refresh)]))
    }

    @Test(arguments: rows)
    func aLoginByBrowser(_ row: Row) throws {
        let code = try grant("oauth2_authorization_code", .mapping(Self.client + [Self.url, Self.authorize]))
        #expect(try outcome(code, row) == row.login)
        #expect(try outcome(code, row, mayAcquireAnew: true) == row.login)
        #expect(try outcome(grant("box_oauth", .mapping(Self.client)), row) == row.login)
    }

    @Test(arguments: rows)
    func aPassword(_ row: Row) throws {
        #expect(try outcome(password(), row) == row.password)
        let isOpen = row.password == .suspect || row.password == .configuration
        #expect(try outcome(password(), row, mayAcquireAnew: true) == (isOpen ? .acquires : row.password))
    }

    @Test(arguments: rows)
    func aRecipe(_ row: Row) throws {
        #expect(try outcome(recipe(acquires: true), row) == row.recipe)
        let isOpen = row.recipe == .suspect || row.recipe == .configuration
        #expect(try outcome(recipe(acquires: true), row, mayAcquireAnew: true) == (isOpen ? .acquires : row.recipe))
        #expect(try outcome(recipe(acquires: false), row, mayAcquireAnew: true) == row.bareRecipe)
    }

    @Test(arguments: rows)
    func aSession(_ row: Row) throws {
        let duke: FixtureNode = ["client_name": "app", "access_token": "a", "session_token": "s"]
        #expect(try outcome(grant("duke_session", duke), row) == row.session)
        let own: FixtureNode = [
            "base_url": "https://auth.example.com/",
            "refresh": ["path": "/refresh", "session_token": ["header": "X-Session"]],
        ]
        #expect(try outcome(grant("session_refresh", own), row) == row.session)
    }

    private func refusal(
        of grant: any TokenGrant,
        _ reply: TokenReply,
        holding token: TokenSet
    ) throws -> TokenFailure {
        var attempt = GrantAttempt.sample(holding: token, at: now)
        attempt.answers = 1
        guard case .failure(let failure) = grant.interpret(reply, in: &attempt) else { throw WrongKind() }
        return failure
    }

    /// The login comes first, and the gateway goes on to try: only a person can tell which of the two it is.
    @Test(arguments: [("invalid_request", "refresh_parameters"), ("invalid_scope", "refresh_parameters")])
    func whereBothArePossibleTheTextNamesBoth(_ code: String, _ key: String) throws {
        let login = try grant("oauth2_authorization_code", .mapping(Self.client + [Self.url, Self.authorize]))
        let failure = try refusal(of: login, TokenReply(400, Self.code(code)), holding: held)
        let detail = failure.problem.detail
        let (first, second) = (detail.firstRange(of: "log in again"), detail.firstRange(of: key))
        #expect(try #require(first).lowerBound < #require(second).lowerBound, "\(detail)")
        #expect(failure.class == .loginLikely && !failure.endsRefreshToken)
        #expect(failure.problem.kind == .reauthorizationRequired)
        #expect(RefreshTokenRefusal(of: Secret("r"), by: failure, isRotationUncertain: false) == nil)
    }

    @Test func everyStrategySaysWhatElseMayBeWrong() throws {
        let session: FixtureNode = [
            "base_url": "https://auth.example.com/",
            "refresh": ["path": "/refresh", "session_token": ["header": "X-Session"]],
        ]
        for strategy in try [recipe(acquires: false), grant("session_refresh", session)] {
            let failure = try refusal(of: strategy, TokenReply(401, Self.code("invalid_request")), holding: held)
            #expect(failure.class == .loginLikely && !failure.clearsToken)
            #expect(failure.problem.kind == .loginRequired)
            #expect(failure.problem.detail.contains(". If that does not help, check "), "\(failure.problem.detail)")
        }
    }

    @Test func beforeTheFirstTokenItIsTheConfiguration() throws {
        let login = try grant("oauth2_authorization_code", .mapping(Self.client + [Self.url, Self.authorize]))
        let brought = TokenSet(access: Secret(""), refreshToken: Secret("r"), obtainedAt: now.wall)
        let failure = try refusal(of: login, TokenReply(400, Self.code("invalid_request")), holding: brought)
        #expect(failure.class == .terminal && failure.problem.kind == .credentialMisconfigured)
    }

    /// A login would bring a token that cannot be renewed either.
    @Test func whatTheWordsSayOfTheRequestIsNoLogin() throws {
        let login = try grant("oauth2_authorization_code", .mapping(Self.client + [Self.url, Self.authorize]))
        let said = #"{"error":"invalid_request","error_description":"AADSTS90009: Application 'a'(a) is requesting"}"#
        // A byte that is not UTF-8 in another member hides none of the words.
        let broken = Array(#"{"trace":""#.utf8) + [0xE9] + Array("\",\(said.dropFirst())".utf8)
        for body in [Array(said.utf8), broken] {
            let failure = try refusal(of: login, TokenReply(status: 400, body: body), holding: held)
            #expect(failure.class == .terminal)
            #expect(failure.problem.detail.contains("refresh_parameters: {scope: …}"), "\(failure.problem.detail)")
        }
    }

    @Test func theAcquisitionHappensOnceForARefusedToken() throws {
        var attempt = GrantAttempt.sample(holding: held, at: now)
        attempt.answers = 1
        let refusal = TokenReply(400, Self.code("invalid_grant"))
        guard case .next = try password().interpret(refusal, in: &attempt) else { throw WrongKind() }
        #expect(attempt.isRefreshTokenRefused)
        attempt.answers = 2
        guard case .failure = try password().interpret(refusal, in: &attempt) else { throw WrongKind() }
    }

    @Test func aRecipeStartsAnewAfterARefreshThatWasCutOff() throws {
        var attempt = GrantAttempt.sample(holding: held, at: now)
        attempt.isRefreshTokenUncertain = true
        let grant = try recipe(acquires: true)
        #expect(try request(of: grant.firstStep(of: attempt)).url.text == "https://app.example.com/session")
        attempt.answers = 1
        guard case .token(let token) = grant.interpret(TokenReply(200, #"{"t":"t2","r":"r2"}"#), in: &attempt) else {
            throw WrongKind()
        }
        #expect(token.refreshToken == Secret("r2"))
        #expect(try request(of: recipe(acquires: false).firstStep(of: attempt)).url.text.hasSuffix("/refresh"))
    }
}
