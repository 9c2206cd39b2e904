import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Token exchange", .timeLimit(.minutes(5)))
struct TokenExchangeTests {
    private static let box: FixtureNode = [
        "client_id": "app", "client_secret": "s", "subject": ["enterprise": "12345"],
    ]
    private static let success = TokenReply(
        200,
        #"{"access_token":"weak","expires_in":3600,"token_type":"bearer","restricted_to":[]}"#
    )

    /// The whole grant of `block` below the grant of `parent`.
    private func exchange(
        _ block: [(String, FixtureNode)],
        of parent: any TokenGrant
    ) throws -> any TokenGrant {
        let strategy = try decode("oauth2_token_exchange", .mapping([("parent", "the-parent")] + block))
        let made = try #require(strategy as? any DerivedStrategy).made(from: parent)
        guard case .token(let grant) = made.behavior else { throw WrongKind() }
        return grant
    }

    private func boxParent() throws -> any TokenGrant { try grant("box_ccg", Self.box) }

    private let common = """
        grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=canary-parent-token\
        &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token
        """

    @Test func boxIsAskedWithoutTheClient() throws {
        let grant = try exchange(
            [
                ("scopes", ["item_preview", "item_download"]), ("resource", "https://api.box.com/2.0/files/1"),
            ],
            of: boxParent()
        )
        #expect(
            try request(of: grant.firstStep(holding: nil)).wire == """
                POST https://api.box.com/oauth2/token

                \(common)&scope=item_preview+item_download&resource=https%3A%2F%2Fapi.box.com%2F2.0%2Ffiles%2F1
                """
        )
        #expect(grant.identity.subject == "enterprise:12345")
    }

    @Test func aSharedLinkTakesThePlaceOfAResource() throws {
        let grant = try exchange(
            [("scopes", ["item_preview"]), ("shared_link", "https://app.box.com/s/abc")],
            of: boxParent()
        )
        #expect(
            try request(of: grant.firstStep(holding: nil)).wire.hasSuffix(
                "&scope=item_preview&box_shared_link=https%3A%2F%2Fapp.box.com%2Fs%2Fabc"
            )
        )
        #expect(!"\(grant.identity)".contains("abc"))
    }

    @Test func otherAuthoritiesWantTheClientOfTheParent() throws {
        let parent = try grant(
            "oauth2_client_credentials",
            ["token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s"]
        )
        let inherited = try exchange([("parameters", ["audience": "api"])], of: parent)
        #expect(
            try request(of: inherited.firstStep(holding: nil)).wire
                == "POST https://id.example.com/token\n\n\(common)&audience=api&client_id=app&client_secret=s"
        )
        let own = try exchange([("client_id", "other"), ("client_secret", "t")], of: parent)
        #expect(try request(of: own.firstStep(holding: nil)).wire.hasSuffix("&client_id=other&client_secret=t"))
        // The parent's secret is for the parent's authority.
        let elsewhere = try exchange([("token_url", "https://sts.example.com/token")], of: parent)
        #expect(
            try request(of: elsewhere.firstStep(holding: nil)).wire == "POST https://sts.example.com/token\n\n\(common)"
        )
    }

    @Test func aParentMayBeMadeItself() throws {
        let middle = try exchange([("scopes", ["item_preview", "item_download"])], of: boxParent())
        let grant = try exchange([("scopes", ["item_preview"])], of: middle)
        #expect(try request(of: grant.firstStep(holding: nil)).url.text == "https://api.box.com/oauth2/token")
        try TokenGrantConformance.checkIdentitiesDiffer([middle, grant, boxParent()])
    }

    @Test func whatCannotBeExchangedIsRefused() throws {
        let duke = try grant(
            "duke_session",
            ["client_name": "dukemobile", "access_token": "a", "session_token": "s"]
        )
        #expect(throws: UnusableInput("duke_session has no known URL for exchanging its tokens; set token_url")) {
            try exchange([("scopes", ["x"])], of: duke)
        }
        #expect(throws: UnusableInput("Box requires scopes; set scopes")) {
            try exchange([], of: boxParent())
        }
        let oauth = try grant(
            "oauth2_client_credentials",
            ["token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s"]
        )
        #expect(throws: UnusableInput("shared_link is for Box tokens")) {
            try exchange([("shared_link", "https://app.box.com/s/abc")], of: oauth)
        }
    }

    @Test(
        arguments: [
            (
                [("scopes", ["a b"])],
                "scopes: a scope is visible ASCII without spaces; write each as a separate list element"
            ),
            (
                [("resource", "files/1")],
                "resource: expected an absolute URL, such as https://api.box.com/2.0/files/1"
            ),
            (
                [("resource", "https://a.example"), ("shared_link", "https://b.example")],
                "shared_link: cannot be combined with resource: a token is for one of them"
            ),
            (
                [("parameters", ["subject_token": "x"])],
                "parameters: \"subject_token\" is set by the strategy; use its own key"
            ),
        ] as [([(String, FixtureNode)], String)]
    )
    func mistakesAreExplained(_ block: [(String, FixtureNode)], _ problem: String) throws {
        #expect(try problems("oauth2_token_exchange", .mapping([("parent", "p")] + block)) == [problem])
    }

    @Test func aParentIsNeeded() throws {
        #expect(try problems("oauth2_token_exchange", ["scopes": ["x"]]) == ["missing key \"parent\""])
    }

    @Test func everyInputMakesAnotherToken() throws {
        let other = try grant(
            "box_ccg",
            ["client_id": "app", "client_secret": "s", "subject": ["enterprise": "6"]]
        )
        let grants = try [
            exchange([("scopes", ["item_preview"])], of: boxParent()),
            exchange([("scopes", ["item_download"])], of: boxParent()),
            exchange([("scopes", ["item_preview"])], of: other),
            exchange([("scopes", ["item_preview"]), ("resource", "https://a.example/1")], of: boxParent()),
            exchange([("scopes", ["item_preview"]), ("shared_link", "https://a.example/1")], of: boxParent()),
            exchange([("scopes", ["item_preview"]), ("parameters", ["a": "b"])], of: boxParent()),
            exchange([("scopes", ["item_preview"]), ("token_url", "https://a.example/t")], of: boxParent()),
            exchange([("scopes", ["item_preview"]), ("client_id", "app")], of: boxParent()),
        ]
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    @Test func theGrantConforms() throws {
        let grant = try exchange([("scopes", ["item_preview"])], of: boxParent())
        try TokenGrantConformance(grant, success: Self.success).check()
    }

    /// The token is ended with the parent's credentials.
    @Test func revocationIsTheParents() throws {
        let grant = try exchange([("scopes", ["item_preview"])], of: boxParent())
        let token = TokenSet(access: Secret("weak"), obtainedAt: now.wall)
        #expect(
            grant.revocation(of: token)?.wire
                == "POST https://api.box.com/oauth2/revoke\n\nclient_id=app&client_secret=s&token=weak"
        )
    }

    /// What another authority gave is not shown to the parent's.
    @Test func aTokenOfAnotherAuthorityIsRevokedThereOrNowhere() throws {
        let token = TokenSet(access: Secret("weak"), obtainedAt: now.wall)
        let elsewhere: [(String, FixtureNode)] = [
            ("scopes", ["a"]), ("token_url", "https://sts.example.com/token"), ("client_id", "app"),
        ]
        let parent = try grant(
            "oauth2_client_credentials",
            [
                "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s",
                "revoke_url": "https://id.example.com/revoke",
            ]
        )
        #expect(try exchange(elsewhere, of: parent).revocation(of: token) == nil)
        let revocable = elsewhere + [("revoke_url", "https://sts.example.com/revoke")]
        #expect(
            try exchange(revocable, of: parent).revocation(of: token)?.wire
                == "POST https://sts.example.com/revoke\n\ntoken=weak&token_type_hint=access_token&client_id=app"
        )
        #expect(
            try exchange([], of: parent).revocation(of: token)?.wire.hasPrefix("POST https://id.example.com/revoke")
                == true
        )
    }

    @Test func theParentsSecretDoesNotGoToAnotherHostToRevoke() throws {
        let parent = try grant(
            "oauth2_client_credentials",
            ["token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s"]
        )
        #expect(throws: UnusableInput.self) {
            try exchange([("revoke_url", "https://other.example.com/revoke")], of: parent)
        }
        _ = try exchange([("revoke_url", "https://id.example.com/revoke")], of: parent)
    }

    // MARK: Answers

    @Test func aTokenThatNeedNotBeAnAccessTokenIsTaken() throws {
        let reply = TokenReply(200, #"{"access_token":"t","token_type":"N_A","issued_token_type":"x"}"#)
        guard case .token = try answer(reply) else { throw WrongKind() }
    }

    private func answer(_ reply: TokenReply) throws -> GrantAnswer {
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        attempt.answers = 1
        return try exchange([("scopes", ["item_preview"])], of: boxParent()).interpret(reply, in: &attempt)
    }

    @Test(arguments: [
        TokenReply(400, #"{"error":"invalid_grant","error_description":"Invalid subject token"}"#),
        TokenReply(401, #"{"error":"invalid_token"}"#),
        TokenReply(400, #"{"error":"invalid_request","error_description":"The subject_token has expired"}"#),
        TokenReply(
            401,
            "",
            ["www-authenticate": #"Bearer realm="Service", error="invalid_token", error_description="Expired.""#]
        ),
    ])
    func aRefusedParentIsToldApart(_ reply: TokenReply) throws {
        guard case .parentRefused(let failure) = try answer(reply) else { throw WrongKind() }
        #expect(failure.class == .terminal)
    }

    /// Documented by Box as 401, and no reason to renew the parent.
    @Test(arguments: [
        TokenReply(401, ""), TokenReply(401, #"{"error":"invalid_scope"}"#), TokenReply(403, ""),
        TokenReply(401, #"{"error":"insufficient_scope"}"#),
        TokenReply(401, "", ["www-authenticate": #"Bearer realm="Service", error="insufficient_scope""#]),
        TokenReply(401, #"{"error":"unauthorized_client"}"#),
    ])
    func scopesThatTheParentLacksAreFinal(_ reply: TokenReply) throws {
        guard case .failure(let failure) = try answer(reply) else { throw WrongKind() }
        #expect(failure.class == .terminal)
        #expect(failure.problem.kind == .credentialMisconfigured)
        #expect(failure.problem.detail.contains("parent"))
        #expect(failure.problem.detail.contains("scopes"))
    }
}
