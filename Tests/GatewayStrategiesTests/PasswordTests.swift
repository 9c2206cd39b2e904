import GatewayConfiguration
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Password grant", .timeLimit(.minutes(5)))
struct PasswordTests {
    private static let url = "https://id.example.com/token"

    private func password(_ more: [(String, FixtureNode)] = []) throws -> any TokenGrant {
        let own: [(String, FixtureNode)] = [
            ("token_url", "\(Self.url)"), ("username", "ada"), ("password", "p w&"), ("client_id", "app"),
        ]
        return try grant("oauth2_password", .mapping(own + more))
    }

    private func held(refreshToken: String?) -> TokenSet {
        TokenSet(
            access: Secret("old"),
            refreshToken: refreshToken.map { Secret($0) },
            obtainedAt: now.wall,
            expiresAt: now.wall
        )
    }

    @Test func thePasswordBringsTheFirstToken() throws {
        let grant = try password([("client_secret", "s"), ("client_auth", "basic"), ("scopes", ["a", "b"])])
        #expect(
            try request(of: grant.firstStep(holding: nil)).wire == """
                POST \(Self.url)
                Authorization: Basic YXBwOnM=

                grant_type=password&username=ada&password=p+w%26&scope=a+b
                """
        )
        #expect(grant.identity.subject == "ada")
    }

    @Test func aRefreshTokenSparesThePassword() throws {
        let request = try request(of: password().firstStep(holding: held(refreshToken: "R1")))
        #expect(request.wire == "POST \(Self.url)\n\ngrant_type=refresh_token&refresh_token=R1&client_id=app")
    }

    @Test func withoutARefreshTokenThePasswordIsSentAgain() throws {
        let request = try request(of: password().firstStep(holding: held(refreshToken: nil)))
        #expect(request.wire == "POST \(Self.url)\n\ngrant_type=password&username=ada&password=p+w%26&client_id=app")
    }

    @Test(arguments: [
        (#"{"access_token":"new","refresh_token":"R2"}"#, "R2"), (#"{"access_token":"new"}"#, "R1"),
    ])
    func aRefreshTokenIsKeptUntilAnotherComes(_ body: String, _ refreshToken: String) throws {
        let token = try password().interpret(TokenReply(200, body), holding: held(refreshToken: "R1"), at: now).get()
        #expect(token.refreshToken == Secret(refreshToken))
    }

    @Test func aRefreshHasParametersOfItsOwn() throws {
        let grant = try password([("parameters", ["a": "b"]), ("refresh_parameters", ["a": "c", "scope": "read"])])
        let refresh = try request(of: grant.firstStep(holding: held(refreshToken: "R1")))
        #expect(refresh.wire.hasSuffix("grant_type=refresh_token&refresh_token=R1&a=c&scope=read&client_id=app"))
        let first = try request(of: grant.firstStep(holding: held(refreshToken: nil)))
        #expect(try first.parameter("a") == "b" && !first.wire.contains("scope="))
    }

    @Test(arguments: ["invalid_grant", "invalid_token", "token_expired", "bad_refresh_token", "login_required"])
    func aRefusedRefreshTokenIsFollowedByThePasswordOnce(_ code: String) throws {
        let grant = try password()
        var attempt = GrantAttempt.sample(holding: held(refreshToken: "R1"), at: now)
        attempt.answers = 1
        let refusal = TokenReply(400, #"{"error":"\#(code)"}"#)
        guard case .next(let request) = grant.interpret(refusal, in: &attempt) else { throw WrongKind() }
        #expect(try request.parameter("grant_type") == "password")
        var second = attempt
        second.answers = 2
        // Whoever answers without a refresh token now has ended the old one.
        guard case .token(let token) = grant.interpret(TokenReply(200, #"{"access_token":"new"}"#), in: &second) else {
            throw WrongKind()
        }
        #expect(token.refreshToken == nil)
        attempt.answers = 2
        guard case .failure(let failure) = grant.interpret(refusal, in: &attempt) else { throw WrongKind() }
        #expect(failure.class == .terminal)
        #expect(!failure.isRetried, "a refused password is not sent again by itself")
    }

    @Test(arguments: [
        (400, "invalid_client", true), (400, "invalid_scope", true), (404, "", true), (302, "", true),
        (400, "invalid_grant", false), (401, "", false), (403, "", false), (400, "mfa_required", false),
    ])
    func onlyWhatTheConfigurationCausesIsTriedAgainByItself(_ status: Int, _ code: String, _ isRetried: Bool) throws {
        let reply = TokenReply(status, code.isEmpty ? "" : #"{"error":"\#(code)"}"#)
        let failure = try #require(password().interpret(reply, holding: nil, at: now).failure)
        #expect(failure.class == .terminal)
        #expect(failure.isRetried == isRetried)
    }

    @Test func afterACutOffRefreshThePasswordIsSentAtOnce() throws {
        var attempt = GrantAttempt.sample(holding: held(refreshToken: "R1"), at: now)
        #expect(try password().sendsRefreshToken(in: attempt))
        attempt.isRefreshTokenUncertain = true
        #expect(try request(of: password().firstStep(of: attempt)).parameter("grant_type") == "password")
        #expect(try !password().sendsRefreshToken(in: attempt))
    }

    @Test func aBusyAuthorityIsNotGivenThePasswordInstead() throws {
        var attempt = GrantAttempt.sample(holding: held(refreshToken: "R1"), at: now)
        attempt.answers = 1
        guard case .failure(let failure) = try password().interpret(TokenReply(503, ""), in: &attempt) else {
            throw WrongKind()
        }
        #expect(failure.class == .transient(retryAfter: nil))
    }

    @Test func aWarningIsGivenAtLoad() throws {
        let fields = ConfigFields.fixture([
            "token_url": "\(Self.url)", "username": "ada", "password": "p", "client_id": "app",
        ])
        let type = try #require(StrategyCatalog.builtIn.strategy(named: "oauth2_password"))
        #expect(type.init(from: fields) != nil)
        let warnings = fields.context.diagnostics.filter { $0.path.description == "strategy" }
        #expect(warnings.map(\.severity) == [.warning])
    }

    @Test func everyInputMakesAnotherToken() throws {
        let other: FixtureNode = [
            "token_url": "\(Self.url)", "username": "ben", "password": "p w&", "client_id": "app",
        ]
        let third: FixtureNode = [
            "token_url": "\(Self.url)", "username": "ada", "password": "other", "client_id": "app",
        ]
        try TokenGrantConformance.checkIdentitiesDiffer([
            password(), grant("oauth2_password", other), grant("oauth2_password", third),
            password([("client_secret", "s")]), password([("scopes", ["a"])]), password([("parameters", ["a": "b"])]),
        ])
    }

    @Test func theGrantConforms() throws {
        let success = TokenReply(200, #"{"access_token":"new","token_type":"bearer","expires_in":3600}"#)
        try TokenGrantConformance(password(), success: success).check()
    }
}
