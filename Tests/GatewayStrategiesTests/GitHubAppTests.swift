import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("GitHub Apps", .timeLimit(.minutes(5)))
struct GitHubAppTests {
    private static let seconds = Double(now.wall.milliseconds / 1000)
    private static let success = TokenReply(201, #"{"token":"ghs_new","expires_at":"2026-03-01T10:30:00Z"}"#)

    private static func block(_ more: [(String, FixtureNode)] = [("installation_id", .plain("42"))]) -> FixtureNode {
        .mapping([("app_id", "7"), ("private_key", "\(SampleKeys.rsa)")] + more)
    }

    private func app(_ block: FixtureNode = block()) throws -> any TokenGrant { try grant("github_app", block) }

    private func token(of request: TokenRequest) throws -> SignedToken {
        let field = try #require(request.fields.first { $0.name == "Authorization" }).value.text
        #expect(field.hasPrefix("Bearer "))
        return try SignedToken(String(field.dropFirst("Bearer ".count)))
    }

    private func content(of request: TokenRequest) -> String? {
        guard case .content("application/json", let content) = request.body else { return nil }
        return content.text
    }

    @Test func theAppAsksForATokenOfTheInstallation() throws {
        let more: [(String, FixtureNode)] = [
            ("installation_id", .plain("42")), ("repositories", ["web", "docs"]),
            ("permissions", ["issues": "write", "contents": "read"]),
        ]
        let request = try request(of: app(Self.block(more)).firstStep(holding: nil, at: now))
        #expect(request.method == .post)
        #expect(request.url.text == "https://api.github.com/app/installations/42/access_tokens")
        #expect(request.fields.map(\.name) == ["Authorization", "Accept", "X-GitHub-Api-Version"])
        #expect(request.fields.dropFirst().map(\.value.text) == ["application/vnd.github+json", "2022-11-28"])
        let expected = #"{"permissions":{"contents":"read","issues":"write"},"repositories":["web","docs"]}"#
        #expect(content(of: request) == expected)
        let token = try token(of: request)
        #expect(token.header == .object(["alg": .string("RS256"), "typ": .string("JWT")]))
        #expect(
            token.claims
                == .object([
                    "iss": .string("7"), "iat": .number(.init(Self.seconds - 60)),
                    "exp": .number(.init(Self.seconds + 540)),
                ])
        )
        #expect(try token.isGenuine())
    }

    @Test func theTokenEndsWhenTheAnswerSays() throws {
        let token = try app().interpret(Self.success, holding: nil, at: now).get()
        #expect(token.access == Secret("ghs_new"))
        #expect(token.lifetime == .seconds(3600))
        #expect(try app().injection(of: token).wire == ["Authorization: Bearer ghs_new"])
        let basic = try app(Self.block([("installation_id", .plain("1")), ("apply", ["basic": "x-access-token"])]))
        #expect(basic.injection(of: token).wire == ["Authorization: Basic eC1hY2Nlc3MtdG9rZW46Z2hzX25ldw=="])
    }

    @Test func theInstallationOfAnOwnerIsLookedUp() throws {
        let block: FixtureNode = [
            "client_id": "Iv1.x", "private_key": "\(SampleKeys.rsa)", "owner": "ada",
            "api_url": "https://ghe.example.com/api/v3/",
        ]
        let grant = try app(block)
        let api = "https://ghe.example.com/api/v3"
        let first = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(first.wire.hasPrefix("GET \(api)/orgs/ada/installation\n"))
        #expect(try token(of: first).claims["iss"] == .string("Iv1.x"))
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        attempt.answers = 1
        guard case .next(let second) = grant.interpret(TokenReply(404, "{}"), in: &attempt) else { throw WrongKind() }
        #expect(second.wire.hasPrefix("GET \(api)/users/ada/installation\n"))
        attempt.answers = 2
        guard case .next(let third) = grant.interpret(TokenReply(200, #"{"id":99}"#), in: &attempt) else {
            throw WrongKind()
        }
        #expect(third.wire.hasPrefix("POST \(api)/app/installations/99/access_tokens\n"))
        #expect(third.body == .none)
        attempt.answers = 3
        guard case .token(let token) = grant.interpret(Self.success, in: &attempt) else { throw WrongKind() }
        #expect(token.access == Secret("ghs_new"))
        #expect(
            grant.authorityEndpoints.map(\.path) == [
                "/api/v3/orgs/ada/installation", "/api/v3/users/ada/installation",
                "/api/v3/app/installations/*/access_tokens", "/api/v3/installation/token",
            ]
        )
    }

    @Test(arguments: [
        (#","expires_at":"2026-03-01T09:50:00Z""#, Duration.seconds(1200), 0),
        (#","expires_at":"soon""#, .seconds(3600), 1), ("", .seconds(3600), 0),
    ])
    func anOddEndLosesNoToken(_ end: String, _ lifetime: Duration, _ remarks: Int) throws {
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        attempt.answers = 1
        let reply = TokenReply(201, #"{"token":"ghs_new"\#(end)}"#)
        guard case .token(let token) = try app().interpret(reply, in: &attempt) else { throw WrongKind() }
        #expect(token.lifetime == lifetime && attempt.remarks.count == remarks)
    }

    @Test func anOwnerWithoutTheAppIsExplained() throws {
        let grant = try app(Self.block([("owner", "acme")]))
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        attempt.answers = 1
        guard case .next = grant.interpret(TokenReply(404, "{}"), in: &attempt) else { throw WrongKind() }
        attempt.answers = 2
        guard case .failure(let failure) = grant.interpret(TokenReply(404, "{}"), in: &attempt) else {
            throw WrongKind()
        }
        #expect(failure.problem.detail.hasSuffix("(status 404): the app is not installed there; check owner."))
    }

    @Test func theClockOfGitHubCounts() throws {
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        attempt.answers = 1
        let reply = TokenReply(401, #"{"message":"bad"}"#, ["Date": "Sun, 01 Mar 2026 09:00:00 GMT"])
        guard case .next(let request) = try app().interpret(reply, in: &attempt) else { throw WrongKind() }
        #expect(try token(of: request).claims["iat"] == .number(1_772_355_540))
    }

    @Test func aLimitOnRequestsPasses() throws {
        let limit = TokenReply(403, #"{"message":"rate limit"}"#, ["X-RateLimit-Remaining": "0"])
        #expect(try app().interpret(limit, holding: nil, at: now).failure?.class == .transient(retryAfter: nil))
        let forbidden = TokenReply(403, #"{"message":"suspended"}"#, ["X-RateLimit-Remaining": "10"])
        #expect(try app().interpret(forbidden, holding: nil, at: now).failure?.class == .terminal)
    }

    @Test func aTokenIsRevoked() throws {
        let token = TokenSet(access: Secret("ghs_old"), obtainedAt: now.wall)
        let request = try #require(app().revocation(of: token, at: now))
        #expect(
            request.wire.hasPrefix(
                "DELETE https://api.github.com/installation/token\nAuthorization: Bearer ghs_old\nAccept: "
            )
        )
        var attempt = GrantAttempt.sample(holding: token, at: now)
        #expect(try app().interpretRevocation(TokenReply(204, ""), in: &attempt) == .revoked)
        #expect(try app().interpretRevocation(TokenReply(401, "{}"), in: &attempt) == .revoked)
    }

    @Test func mistakesAreExplained() throws {
        #expect(
            try problems("github_app", ["permissions": ["issues": "maybe"], "repositories": ["acme/web"]]) == [
                "an app is identified by exactly one of app_id and client_id",
                "missing key \"private_key\"",
                "an installation is named by exactly one of installation_id and owner",
                "repositories: write the names without the owner",
                "permissions: issues: expected read, write or admin",
            ]
        )
        let wrong: FixtureNode = [
            "app_id": "7", "client_id": "x", "private_key": "\(SampleKeys.p256)", "owner": "a/b",
            "apply": ["basic": "a:b"],
        ]
        #expect(
            try problems("github_app", wrong) == [
                "an app is identified by exactly one of app_id and client_id",
                "private_key: RS256 needs an RSA key",
                "owner: is not the name of an organization or a user: letters, digits, - and _",
                "apply.basic: must not contain \":\", which ends the user name (RFC 7617)",
            ]
        )
    }

    @Test func everyInputMakesAnotherToken() throws {
        let id: (String, FixtureNode) = ("installation_id", .plain("42"))
        let grants = try [
            Self.block(), Self.block([("owner", "acme")]), Self.block([id, ("repositories", ["a"])]),
            Self.block([id, ("permissions", ["issues": "read"])]), Self.block([id, ("apply", ["basic": "x"])]),
            Self.block([id, ("api_url", "https://ghe.example.com/api/v3")]),
            ["app_id": "8", "private_key": "\(SampleKeys.rsa)", "installation_id": .plain("42")],
        ].map { try app($0) }
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    @Test func theGrantConforms() throws {
        try TokenGrantConformance(app(), success: Self.success, answersErrorsInOAuth: false).check()
    }
}
