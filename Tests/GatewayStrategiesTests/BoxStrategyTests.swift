import GatewayConfiguration
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Box", .timeLimit(.minutes(5)))
struct BoxStrategyTests {
    private static let block: FixtureNode = [
        "client_id": "app", "client_secret": "s+1", "subject": ["enterprise": "12345"],
    ]
    private static let success = TokenReply(
        200,
        #"{"access_token":"new","expires_in":4123,"restricted_to":[],"token_type":"bearer"}"#
    )

    @Test func anEnterpriseTokenIsAskedForAsBoxWantsIt() throws {
        let request = try request(of: grant("box_ccg", Self.block).firstStep(holding: nil))
        #expect(
            request.wire == """
                POST https://api.box.com/oauth2/token

                grant_type=client_credentials&client_id=app&client_secret=s%2B1&box_subject_type=enterprise\
                &box_subject_id=12345
                """
        )
    }

    @Test func aRouteCanSpeakForAnotherUser() throws {
        let strategy = try decode("box_ccg", Self.block)
        #expect(type(of: strategy).hasSubject)
        let switched = try #require(strategy.switchingSubject(.fixture(["subject": ["user": "42"]])))
        guard case .token(let original) = strategy.behavior, case .token(let other) = switched.behavior else {
            throw WrongKind()
        }
        #expect(
            try request(of: other.firstStep(holding: nil)).wire.hasSuffix("&box_subject_type=user&box_subject_id=42")
        )
        #expect(other.identity.subject == "user:42")
        #expect(original.identity.subject == "enterprise:12345")
        try TokenGrantConformance.checkIdentitiesDiffer([original, other])
    }

    @Test func eachSubjectAndEachSecretHasATokenOfItsOwn() throws {
        let user: FixtureNode = ["client_id": "app", "client_secret": "s+1", "subject": ["user": "12345"]]
        let sandbox: FixtureNode = [
            "client_id": "app", "client_secret": "s+1", "subject": ["enterprise": "12345"],
            "token_url": "http://127.0.0.1:9001/oauth2/token",
        ]
        let app: FixtureNode = ["client_id": "other", "client_secret": "s+1", "subject": ["enterprise": "12345"]]
        let secret: FixtureNode = ["client_id": "app", "client_secret": "s+2", "subject": ["enterprise": "12345"]]
        let grants = try [Self.block, user, sandbox, app, secret].map { try grant("box_ccg", $0) }
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    private static let faultySubjects: [(FixtureNode, String)] = [
        ([:], "missing key \"subject\": {enterprise: \"…\"} or {user: \"…\"}"),
        (["subject": [:]], "subject: a subject is exactly one of enterprise and user"),
        (["subject": ["enterprise": "1", "user": "2"]], "subject: a subject is exactly one of enterprise and user"),
        (["subject": "12345"], "subject: expected a mapping, found a scalar"),
        (["subject": ["user": ""]], "subject.user: must not be empty"),
    ]

    @Test(arguments: faultySubjects)
    func aSubjectIsExactlyOne(_ auth: FixtureNode, _ problem: String) throws {
        let strategy = try decode("box_ccg", Self.block)
        let fields = ConfigFields.fixture(auth)
        #expect(strategy.switchingSubject(fields) == nil)
        #expect(fields.problems == [problem])
    }

    @Test func revocationGoesWhereTheTokenCameFrom() throws {
        let token = TokenSet(access: Secret("T"), obtainedAt: now.wall)
        let form = "\n\nclient_id=app&client_secret=s%2B1&token=T"
        #expect(
            try grant("box_ccg", Self.block).revocation(of: token)?.wire
                == "POST https://api.box.com/oauth2/revoke\(form)"
        )
        let sandbox: FixtureNode = [
            "client_id": "app", "client_secret": "s+1", "subject": ["user": "1"],
            "token_url": "http://127.0.0.1:9001/oauth2/token",
        ]
        #expect(
            try grant("box_ccg", sandbox).revocation(of: token)?.wire
                == "POST http://127.0.0.1:9001/oauth2/revoke\(form)"
        )
        let elsewhere: FixtureNode = [
            "client_id": "app", "client_secret": "s+1", "subject": ["user": "1"],
            "token_url": "https://id.example.com/t",
        ]
        #expect(try grant("box_ccg", elsewhere).revocation(of: token) == nil)
    }

    @Test func everyBoxStrategyKeepsTheUserToActForFromClients() {
        let kinds = StrategyCatalog.builtIn.strategies.filter { $0.ownedFields == ["As-User"] }.map { $0.kind }
        #expect(kinds == StrategyCatalog.builtIn.kinds.filter { $0.hasPrefix("box_") })
        #expect(StrategyCatalog.builtIn.userField?.name == "As-User")
    }

    @Test func theGrantConforms() throws {
        try TokenGrantConformance(grant("box_ccg", Self.block), success: Self.success).check()
    }

    @Test(arguments: [
        ("invalid_client", "The client credentials are invalid", "client_id or client_secret is wrong"),
        ("invalid_grant", "Grant credentials are invalid", "access level"),
        ("unauthorized_client", "This app is not authorized by the enterprise admin", "by the enterprise admin"),
        (
            "unauthorized_client", "The \\\"box_subject_type\\\" value is unauthorized for this client_id",
            "Generate user access tokens"
        ),
        ("unauthorized_client", "The grant type is unauthorized for this client_id", "Client Credentials Grant"),
        ("invalid_request", "The grant type is unauthorized for this client_id", "Client Credentials Grant"),
    ])
    func refusalsSayWhichSettingToLookAt(_ code: String, _ description: String, _ hint: String) throws {
        let body = #"{"error":"\#(code)","error_description":"\#(description)"}"#
        let failure = try #require(
            try grant("box_ccg", Self.block).interpret(TokenReply(400, body), holding: nil, at: now).failure
        )
        #expect(failure.class == .terminal)
        #expect(failure.problem.kind == .credentialMisconfigured)
        #expect(failure.problem.cause == GatewayProblem.Cause(code: code, httpStatus: 400))
        #expect(failure.problem.detail.contains(hint))
    }

    @Test func aDeveloperTokenLivesForAnHour() throws {
        let grant = try grant("box_developer_token", ["token": "dev"])
        let token = try #require(grant.seed(at: now))
        #expect(token == TokenSet(access: Secret("dev"), obtainedAt: now.wall, expiresAt: now.wall + .seconds(3600)))
        #expect(!grant.isRenewable)
        #expect(grant.injection(of: token).wire == ["Authorization: Bearer dev"])
        try TokenGrantConformance(grant, success: TokenReply(status: 200)).check()
    }

    @Test func theHourOfADeveloperTokenBeginsWhenItWasObtained() throws {
        let start = now.wall + .seconds(-1800)
        let grant = try grant("box_developer_token", ["token": "dev", "obtained_at": "\(start.rfc3339)"])
        #expect(grant.seed(at: now)?.expiresAt == now.wall + .seconds(1800))
    }

    @Test func aStartInTheFutureDoesNotLengthenTheHour() throws {
        let block: FixtureNode = ["token": "dev", "obtained_at": "2030-01-01T00:00:00Z"]
        #expect(try grant("box_developer_token", block).seed(at: now)?.expiresAt == now.wall + .seconds(3600))
    }

    @Test func anExpiredDeveloperTokenSaysWhereTheNextComesFrom() throws {
        guard case .impossible(let failure) = try grant("box_developer_token", ["token": "dev"]).firstStep(holding: nil)
        else { throw WrongKind() }
        #expect(failure.problem.kind == .staticTokenExpired)
        #expect(failure.problem.detail.contains("https://app.box.com/developers/console"))
        #expect(failure.problem.detail.contains("was rejected or revoked"))
        let end = now.wall + .seconds(-1)
        let held = TokenSet(access: Secret("dev"), obtainedAt: end + .seconds(-3600), expiresAt: end)
        guard case .impossible(let later) = try grant("box_developer_token", ["token": "dev"]).firstStep(holding: held)
        else { throw WrongKind() }
        #expect(later.problem.detail.hasPrefix("The Box developer token expired at \(end.rfc3339). Get a new one ("))
    }

    @Test func aDeveloperTokenIsRevokedWithTheAppsCredentials() throws {
        let token = TokenSet(access: Secret("dev"), obtainedAt: now.wall)
        #expect(try grant("box_developer_token", ["token": "dev"]).revocation(of: token) == nil)
        let block: FixtureNode = ["token": "dev", "client_id": "app", "client_secret": "s"]
        #expect(
            try grant("box_developer_token", block).revocation(of: token)?.wire
                == "POST https://api.box.com/oauth2/revoke\n\nclient_id=app&client_secret=s&token=dev"
        )
        #expect(
            try problems("box_developer_token", ["token": "dev", "client_id": "app", "obtained_at": "noon"]) == [
                "obtained_at: expected a time such as 2026-03-01T09:30:00Z (RFC 3339)",
                "client_id and client_secret go together: both are needed to revoke the token",
            ]
        )
    }
}
