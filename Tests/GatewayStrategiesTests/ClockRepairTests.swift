import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

extension GrantAnswer {
    fileprivate var failure: TokenFailure? {
        guard case .failure(let failure) = self else { return nil }
        return failure
    }
}

/// What is signed with the wrong time is signed again with the authority's.
@Suite("Clocks that differ from the authority's", .timeLimit(.minutes(5)))
struct ClockRepairTests {
    private static let signed: [(String, FixtureNode)] = [
        ("token_url", "https://id.example.com/token"), ("revoke_url", "https://id.example.com/revoke"),
        ("client_id", "app"), ("client_auth", "private_key_jwt"), ("private_key", "\(SampleKeys.rsa)"),
    ]
    /// Half an hour after the gateway's.
    private static let date = ["Date": "Sun, 01 Mar 2026 10:00:00 GMT"]
    private static let theirs = 1_772_359_200.0

    private func attempt(holding token: TokenSet? = nil, answers: Int = 1) -> GrantAttempt {
        var attempt = GrantAttempt(holding: token, at: now, nonce: .sampleNonce)
        attempt.answers = answers
        return attempt
    }

    private func next(_ answer: GrantAnswer) throws -> TokenRequest {
        guard case .next(let request) = answer else {
            Issue.record("no request: \(answer)")
            throw WrongKind()
        }
        return request
    }

    private func checkIsSignedAnew(_ request: TokenRequest) throws {
        let assertion = try SignedToken(request.parameter("client_assertion"))
        #expect(assertion.claims["iat"] == .number(.init(Self.theirs)))
        #expect(assertion.claims["exp"] == .number(.init(Self.theirs + 60)))
        #expect(assertion.claims["jti"] == .string("\(String.sampleNonce)-1"))
        #expect(try assertion.isGenuine())
    }

    @Test(arguments: [(400, "The token is expired"), (401, "'exp' is in the past"), (401, "")])
    func aClientSignsAnewByTheClockOfTheAuthority(_ status: Int, _ description: String) throws {
        let body = #"{"error":"invalid_client","error_description":"\#(description)"}"#
        var attempt = attempt()
        let grant = try grant("oauth2_client_credentials", .mapping(Self.signed))
        try checkIsSignedAnew(next(grant.interpret(TokenReply(status, body, Self.date), in: &attempt)))
    }

    @Test func aRefreshTokenIsSentAgainWithANewAssertion() throws {
        let block: FixtureNode = .mapping([("authorize_url", "https://id.example.com/authorize")] + Self.signed)
        let grant = try grant("oauth2_authorization_code", block)
        var attempt = attempt(holding: TokenSet(access: Secret("a"), refreshToken: Secret("r"), obtainedAt: now.wall))
        let reply = TokenReply(401, #"{"error":"invalid_client"}"#, Self.date)
        let request = try next(grant.interpret(reply, in: &attempt))
        #expect(try request.parameter("refresh_token") == "r")
        try checkIsSignedAnew(request)
        guard case .next(let revocation) = grant.interpretRevocation(reply, in: &attempt) else { throw WrongKind() }
        #expect(revocation.url.text == "https://id.example.com/revoke")
        try checkIsSignedAnew(revocation)
    }

    @Test func aPasswordThatFollowedARefreshTokenStaysInItsPlace() throws {
        let block: FixtureNode = .mapping([("username", "ada"), ("password", "p")] + Self.signed)
        let grant = try grant("oauth2_password", block)
        var attempt = attempt(holding: TokenSet(access: Secret("a"), refreshToken: Secret("r"), obtainedAt: now.wall))
        _ = try next(grant.interpret(TokenReply(400, #"{"error":"invalid_grant"}"#), in: &attempt))
        let reply = TokenReply(400, #"{"error":"invalid_client","error_description":"bad exp"}"#, Self.date)
        let request = try next(grant.interpret(reply, in: &attempt))
        #expect(try request.parameter("password") == "p")
        try checkIsSignedAnew(request)
    }

    @Test(arguments: [
        ("Sun, 01 Mar 2026 09:30:04 GMT", 1, "invalid_client"), ("yesterday", 1, "invalid_client"),
        (date["Date"] ?? "", 2, "invalid_client"), (date["Date"] ?? "", 1, "invalid_scope"),
    ])
    func whatIsNotAboutTheClocksIsARefusal(_ date: String, _ answers: Int, _ code: String) throws {
        var attempt = attempt(answers: answers)
        let reply = TokenReply(401, #"{"error":"\#(code)"}"#, ["Date": date])
        let answer = try grant("oauth2_client_credentials", .mapping(Self.signed)).interpret(reply, in: &attempt)
        #expect(answer.failure?.class == .terminal)
    }

    /// Whoever answers in the authority's place is given nothing that will be good for long.
    @Test(arguments: [(400, "The token is expired"), (401, "")])
    func nothingIsSignedForADayThatIsFarAhead(_ status: Int, _ description: String) throws {
        let body = #"{"error":"invalid_client","error_description":"\#(description)"}"#
        let grant = try grant("oauth2_client_credentials", .mapping(Self.signed))
        for (date, isSigned) in [("Mon, 02 Mar 2026 09:29:00 GMT", true), ("Tue, 03 Mar 2026 10:00:00 GMT", false)] {
            var attempt = attempt()
            let answer = grant.interpret(TokenReply(status, body, ["Date": date]), in: &attempt)
            guard !isSigned else {
                _ = try next(answer)
                continue
            }
            let detail = try #require(answer.failure?.problem.detail)
            #expect(
                detail.contains("This machine's clock is 174600 s behind the authorization server's: set it (NTP).")
            )
            #expect(!detail.contains("signed again"))
        }
    }

    @Test func whoSignsNothingIsNotAskedAgain() throws {
        let block: FixtureNode = [
            "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s",
        ]
        var attempt = attempt()
        let reply = TokenReply(401, #"{"error":"invalid_client"}"#, Self.date)
        let answer = try grant("oauth2_client_credentials", block).interpret(reply, in: &attempt)
        #expect(answer.failure?.class == .terminal)
    }

    @Test(arguments: [400, 401, 403]) func aStatementForATokenServerIsSignedAnewOnce(_ status: Int) throws {
        let grant = try grant(
            "delegated",
            [
                "url": "https://tokens.example.com/token?id={{unique_id}}", "unique_id": "42",
                "request_auth": ["jwt": ["key": "\(SampleKeys.rsa)", "claims": ["iss": "gateway"]]],
            ]
        )
        var attempt = attempt()
        let request = try next(grant.interpret(TokenReply(status, "no", Self.date), in: &attempt))
        let field = try #require(request.fields.first { $0.name == "Authorization" }).value.text
        let statement = try SignedToken(String(field.dropFirst(7)))
        #expect(statement.claims["iat"] == .number(.init(Self.theirs)))
        #expect(statement.claims["jti"] == .string("\(String.sampleNonce)-1"))
        attempt.answers = 2
        let second = grant.interpret(TokenReply(status, "no", Self.date), in: &attempt)
        #expect(second.failure?.class == .terminal)
    }
}
