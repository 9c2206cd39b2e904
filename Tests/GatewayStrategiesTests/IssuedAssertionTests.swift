import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Assertions that others issue", .timeLimit(.minutes(5)))
struct IssuedAssertionTests {
    private static let url: (String, FixtureNode) = ("token_url", "https://id.example.com/token")
    private static let file: FixtureNode = ["file": "/run/token"]
    private static let source = AssertionSource.file("/run/token")
    private static let runner = [
        "ACTIONS_ID_TOKEN_REQUEST_URL": "https://runner.example/id?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner-canary",
    ]
    private static let success = TokenReply(200, #"{"access_token":"new","token_type":"bearer","expires_in":3600}"#)

    private static func client(_ more: [(String, FixtureNode)] = []) -> FixtureNode {
        .mapping([url, ("client_id", "app"), ("client_auth", "assertion")] + more)
    }

    private static func bearer(_ more: [(String, FixtureNode)] = []) -> FixtureNode {
        .mapping([url, ("assertion", file)] + more)
    }

    private static func exchange(_ more: [(String, FixtureNode)] = []) -> FixtureNode {
        .mapping([url, ("subject_token", file)] + more)
    }

    // MARK: Requests

    @Test func aClientProvesItselfWithIt() throws {
        let grant = try grant("oauth2_client_credentials", Self.client([("assertion", Self.file)]))
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(
            request.wire == """
                POST https://id.example.com/token

                grant_type=client_credentials&client_id=app&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3A\
                client-assertion-type%3Ajwt-bearer
                """
        )
        #expect(request.issuedParameters == [TokenRequest.IssuedParameter("client_assertion", from: Self.source)])
        #expect(!grant.sendsSecrets)
        try TokenGrantConformance(grant, success: Self.success).check()
    }

    @Test func aTokenIsGivenForIt() throws {
        let grant = try grant("oauth2_jwt_bearer", Self.bearer([("scopes", ["read"])]))
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(
            request.wire == """
                POST https://id.example.com/token

                grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&scope=read
                """
        )
        #expect(request.issuedParameters == [TokenRequest.IssuedParameter("assertion", from: Self.source)])
        try TokenGrantConformance(grant, success: Self.success).check()
    }

    @Test func itIsExchanged() throws {
        let block = Self.exchange([("scopes", ["read"]), ("parameters", ["audience": "pool"])])
        let grant = try grant("oauth2_token_exchange", block)
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(
            request.wire == """
                POST https://id.example.com/token

                grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token_type=urn%3Aietf%3A\
                params%3Aoauth%3Atoken-type%3Ajwt&scope=read&audience=pool
                """
        )
        #expect(request.issuedParameters == [TokenRequest.IssuedParameter("subject_token", from: Self.source)])
        #expect(grant.authorityEndpoints.count == 1)
        try TokenGrantConformance(grant, success: Self.success).check()
    }

    @Test func aClientMayProveItselfInTheSameRequest() throws {
        let type = "urn:ietf:params:oauth:token-type:id_token"
        let block = Self.exchange([
            ("subject_token_type", "\(type)"), ("client_id", "app"), ("client_auth", "assertion"),
            ("assertion", ["file": "/run/client"]),
        ])
        let request = try request(
            of: grant("oauth2_token_exchange", block).firstStep(holding: nil, at: now)
        )
        #expect(request.wire.contains("&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid_token&"))
        #expect(request.issuedParameters.map(\.name) == ["subject_token", "client_assertion"])
        #expect(request.issuedParameters.map(\.source) == [Self.source, .file("/run/client")])
    }

    @Test func theRunnerOfGitHubActionsIssuesIt() throws {
        let block: FixtureNode = .mapping([Self.url, ("assertion", ["github_actions": ["audience": "api://Exchange"]])])
        let grant = try grant("oauth2_jwt_bearer", block, Self.runner)
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        guard case .service(let service)? = request.issuedParameters.first?.source else { throw WrongKind() }
        #expect(
            service.request.wire == """
                GET https://runner.example/id?api-version=2.0&audience=api%3A%2F%2FExchange
                Accept: application/json
                Authorization: Bearer runner-canary
                """
        )
        #expect(grant.identity.secrets == [Secret("runner-canary")])
    }

    // MARK: Answers

    @Test(arguments: ["invalid_grant", "invalid_request"])
    func aRefusedSubjectTokenIsNotAboutAParent(_ code: String) throws {
        var attempt = GrantAttempt(holding: nil, at: now, nonce: .sampleNonce)
        let reply = TokenReply(400, #"{"error":"\#(code)","error_description":"bad subject_token"}"#)
        let answer = try grant("oauth2_token_exchange", Self.exchange()).interpret(reply, in: &attempt)
        guard case .failure(let failure) = answer else { throw WrongKind() }
        #expect(failure.problem.kind == .credentialMisconfigured)
        #expect(
            failure.problem.detail.hasSuffix(
                "it does not accept subject_token; has it expired, and does the server trust its iss, sub and aud?"
            )
        )
    }

    @Test func aRefusedAssertionIsNotAboutAKey() throws {
        var attempt = GrantAttempt(holding: nil, at: now, nonce: .sampleNonce)
        let reply = TokenReply(400, #"{"error":"invalid_grant"}"#)
        let answer = try grant("oauth2_jwt_bearer", Self.bearer()).interpret(reply, in: &attempt)
        guard case .failure(let failure) = answer else { throw WrongKind() }
        #expect(failure.problem.detail.contains("it does not accept the assertion; has it expired"))
    }

    // MARK: Mistakes

    private static let mistakes: [(String, FixtureNode, [String])] = [
        ("oauth2_client_credentials", client(), ["missing key \"assertion\""]),
        (
            "oauth2_client_credentials", client([("assertion", ["path": "/run/token"])]),
            ["assertion: comes from exactly one of file and github_actions", "assertion: unknown key \"path\""]
        ),
        (
            "oauth2_client_credentials",
            client([("assertion", ["file": "/run/token", "github_actions": ["audience": "a"]])]),
            ["assertion: comes from exactly one of file and github_actions"]
        ),
        (
            "oauth2_client_credentials", client([("assertion", file), ("client_secret", "s")]),
            ["client_secret: cannot be combined with client_auth: assertion"]
        ),
        (
            "oauth2_client_credentials",
            ["token_url": "https://id.example.com/token", "client_id": "a", "client_secret": "s", "assertion": file],
            ["assertion: is for client_auth: assertion"]
        ),
        (
            "oauth2_client_credentials", client([("assertion", ["github_actions": [:]])]),
            ["assertion.github_actions: missing key \"audience\""]
        ),
        (
            "oauth2_client_credentials", client([("assertion", ["github_actions": ["audience": "a"]])]),
            [
                "assertion.github_actions: ACTIONS_ID_TOKEN_REQUEST_URL and ACTIONS_ID_TOKEN_REQUEST_TOKEN are not set: "
                    + "run the gateway in a job of GitHub Actions that has \"permissions: id-token: write\""
            ]
        ),
        (
            "oauth2_jwt_bearer", bearer([("key", "canary"), ("claims", ["iss": "robot"])]),
            [
                "key: is for an assertion that the gateway signs; it cannot be combined with assertion",
                "claims: is for an assertion that the gateway signs; it cannot be combined with assertion",
            ]
        ),
        (
            "oauth2_jwt_bearer", bearer([("client_id", "app"), ("client_auth", "assertion")]),
            ["client_auth: here the token is issued for the assertion; use body, basic, tls or none"]
        ),
        (
            "oauth2_token_exchange", exchange([("parent", "box")]),
            ["subject_token: cannot be combined with parent: one token is exchanged"]
        ),
        ("oauth2_token_exchange", ["subject_token": file], ["missing key \"token_url\""]),
        (
            "oauth2_token_exchange", exchange([("subject_token_type", "jwt")]),
            ["subject_token_type: expected a URI such as urn:ietf:params:oauth:token-type:jwt"]
        ),
        (
            "oauth2_token_exchange",
            ["token_url": "https://id.example.com/token", "subject_token": [:], "subject_token_type": "urn:x:y"],
            ["subject_token: comes from exactly one of file and github_actions"]
        ),
        (
            "oauth2_token_exchange", ["parent": "box", "subject_token_type": "urn:x:y"],
            ["subject_token_type: is for subject_token; the parent's token is an access token"]
        ),
        (
            "oauth2_token_exchange", exchange([("shared_link", "https://app.box.com/s/abc")]),
            ["shared_link: is for Box tokens"]
        ),
    ]

    @Test(arguments: mistakes)
    func mistakesAreExplained(_ kind: String, _ block: FixtureNode, _ expected: [String]) throws {
        #expect(try problems(kind, block) == expected)
    }

    @Test func aRunnerThatIsNotAskedOverTLSIsAMistake() throws {
        var runner = Self.runner
        runner["ACTIONS_ID_TOKEN_REQUEST_URL"] = "http://runner.example/id"
        let block = Self.client([("assertion", ["github_actions": ["audience": "a"]])])
        #expect(
            try problems("oauth2_client_credentials", block, runner) == [
                "assertion.github_actions: ACTIONS_ID_TOKEN_REQUEST_URL is not an https URL"
            ]
        )
    }

    // MARK: Identities

    @Test func everyInputMakesAnotherToken() throws {
        let blocks: [(String, FixtureNode)] = [
            ("oauth2_client_credentials", Self.client([("assertion", ["file": "/run/a"])])),
            ("oauth2_client_credentials", Self.client([("assertion", ["file": "/run/b"])])),
            ("oauth2_client_credentials", Self.client([("assertion", ["github_actions": ["audience": "a"]])])),
            ("oauth2_client_credentials", Self.client([("assertion", ["github_actions": ["audience": "b"]])])),
            ("oauth2_jwt_bearer", Self.bearer()), ("oauth2_token_exchange", Self.exchange()),
            ("oauth2_token_exchange", Self.exchange([("subject_token_type", "urn:x:y")])),
        ]
        var grants = try blocks.map { try grant($0.0, $0.1, Self.runner) }
        var otherJob = Self.runner
        otherJob["ACTIONS_ID_TOKEN_REQUEST_TOKEN"] = "another"
        grants.append(try grant(blocks[2].0, blocks[2].1, otherJob))
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }
}
