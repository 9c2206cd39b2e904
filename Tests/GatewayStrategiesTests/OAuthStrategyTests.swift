import GatewayConfiguration
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Client credentials", .timeLimit(.minutes(5)))
struct OAuthStrategyTests {
    private let plain: FixtureNode = [
        "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s3 c+r&t=%",
    ]

    @Test func credentialsStandInTheBody() throws {
        let request = try request(of: grant("oauth2_client_credentials", plain).firstStep(holding: nil))
        #expect(
            request.wire == """
                POST https://id.example.com/token

                grant_type=client_credentials&client_id=app&client_secret=s3+c%2Br%26t%3D%25
                """
        )
    }

    @Test func credentialsStandInTheHeaderEncodedTwice() throws {
        let block: FixtureNode = [
            "token_url": "https://id.example.com/token", "client_id": "a:b", "client_secret": "p w+",
            "client_auth": "basic", "scopes": ["read", "write"],
            "parameters": ["audience": "https://api.example.com/", "resource": "ü"],
        ]
        let request = try request(of: grant("oauth2_client_credentials", block).firstStep(holding: nil))
        // base64("a%3Ab:p+w%2B")
        #expect(
            request.wire == """
                POST https://id.example.com/token
                Authorization: Basic YSUzQWI6cCt3JTJC

                grant_type=client_credentials&scope=read+write&audience=https%3A%2F%2Fapi.example.com%2F&resource=%C3%BC
                """
        )
    }

    @Test func credentialsCanStandInTheHeaderAsTheyAre() throws {
        let block: FixtureNode = [
            "token_url": "https://id.example.com/token", "client_id": "a/b", "client_secret": "p w+:%",
            "client_auth": "basic", "client_auth_encoding": "none",
        ]
        let made = try grant("oauth2_client_credentials", block)
        // base64("a/b:p w+:%")
        #expect(try request(of: made.firstStep(holding: nil)).fields.map(\.value.text) == ["Basic YS9iOnAgdys6JQ=="])
    }

    /// A client that is not enabled for the grant has shown its secret well.
    @Test(arguments: [
        ("invalid_client", true), ("invalid_client_id", true), ("bad_client_secret", true),
        ("unauthorized_client", false),
    ])
    func aClientThatIsNotAcceptedMayNeedTheOtherEncoding(_ code: String, _ isNamed: Bool) throws {
        let block: FixtureNode = [
            "token_url": "https://id.example.com/token", "client_id": "a", "client_secret": "s", "client_auth": "basic",
        ]
        let reply = TokenReply(401, #"{"error":"\#(code)"}"#)
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        attempt.answers = 1
        guard case .failure(let failure) = try grant("oauth2_client_credentials", block).interpret(reply, in: &attempt)
        else { throw WrongKind() }
        #expect(failure.problem.detail.contains("client_auth_encoding: none") == isNamed, "\(failure.problem.detail)")
    }

    @Test func theEncodingOfAHeaderIsForThatHeader() throws {
        func found(_ more: [(String, FixtureNode)]) throws -> [String] {
            let block: [(String, FixtureNode)] = [
                ("token_url", "https://id.example.com/token"), ("client_secret", "s"),
                ("client_auth_encoding", "none"),
            ]
            return try problems("oauth2_client_credentials", .mapping(block + more))
        }
        #expect(try found([("client_id", "app")]) == ["client_auth_encoding: is for client_auth: basic"])
        #expect(
            try found([("client_id", "a:b"), ("client_auth", "basic")])
                == ["client_id: must not contain \":\", which ends the ID if nothing is encoded (RFC 7617)"]
        )
    }

    @Test func aTokenIsRevokedWhereTheConfigurationSays() throws {
        let token = TokenSet(access: Secret("T&1"), obtainedAt: now.wall)
        let block: FixtureNode = [
            "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s",
            "revoke_url": "https://id.example.com/revoke",
        ]
        #expect(
            try grant("oauth2_client_credentials", block).revocation(of: token)?.wire == """
                POST https://id.example.com/revoke

                token=T%261&token_type_hint=access_token&client_id=app&client_secret=s
                """
        )
        let attempt = GrantAttempt.sample(holding: token, at: now)
        #expect(
            try grant("oauth2_client_credentials", plain).revocation(in: attempt)
                == .impossible("The credential has no revoke_url; add it.")
        )
    }

    @Test(arguments: ["api_secret", "audience"])
    func parametersAreNotShown(_ name: String) throws {
        let block: FixtureNode = [
            "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": ["env": "S"],
            "parameters": ["\(name)": "canary", "other": ["env": "OTHER"]],
        ]
        let fields = ConfigFields.fixture(block, secrets: FixtureSecrets(["OTHER": "o", "S": "s"]))
        let strategy = try #require(ClientCredentialsStrategy(from: fields))
        let span = try #require(fields.fields("parameters")?.node(name)?.span)
        #expect(fields.context.secretSpans.contains(span))
        let warnings = fields.context.diagnostics.filter { $0.message.contains("plain text") }
        #expect(warnings.map(\.path.description) == (name == "audience" ? [] : ["parameters.api_secret"]))
        guard case .token(let grant) = strategy.behavior else { throw WrongKind() }
        #expect(try request(of: grant.firstStep(holding: nil)).parameter("other") == "o")
    }

    @Test func everyInputMakesAnotherToken() throws {
        let variants: [FixtureNode] = [
            plain,
            ["token_url": "https://id.example.com/other", "client_id": "app", "client_secret": "s3 c+r&t=%"],
            ["token_url": "https://id.example.com/token", "client_id": "app2", "client_secret": "s3 c+r&t=%"],
            ["token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "other"],
            [
                "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s3 c+r&t=%",
                "client_auth": "basic",
            ],
            [
                "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s3 c+r&t=%",
                "scopes": ["read"],
            ],
            [
                "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s3 c+r&t=%",
                "parameters": ["scope2": "read"],
            ],
        ]
        let grants = try variants.map { try grant("oauth2_client_credentials", $0) }
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    @Test func theGrantConforms() throws {
        let success = TokenReply(200, #"{"access_token":"new","token_type":"bearer","expires_in":3600}"#)
        try TokenGrantConformance(grant("oauth2_client_credentials", plain), success: success).check()
    }

    @Test func everyProblemIsReportedAtOnce() throws {
        let block: FixtureNode = [
            "token_url": "http://id.example.com/token", "client_auth": "private_key_jwt",
            "scopes": ["read write"], "parameters": ["grant_type": "password"], "clientid": "x",
        ]
        #expect(
            try problems("oauth2_client_credentials", block) == [
                "token_url: must be https: a secret would be sent in the clear (http is for loopback only)",
                "missing key \"private_key\"",
                "scopes: a scope is visible ASCII without spaces; write each as a separate list element",
                "parameters: \"grant_type\" is set by the strategy; use its own key",
                "unknown key \"clientid\"; did you mean \"client_id\"?",
            ]
        )
    }
}
