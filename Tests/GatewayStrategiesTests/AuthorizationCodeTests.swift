import GatewayConfiguration
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Authorization code", .timeLimit(.minutes(5)))
struct AuthorizationCodeTests {
    private static let plain: FixtureNode = [
        "authorize_url": "https://id.example.com/authorize", "token_url": "https://id.example.com/token",
        "client_id": "app",
    ]
    private static let wholeEntries: [(String, FixtureNode)] = [
        ("authorize_url", "https://id.example.com/authorize?tenant=1"), ("token_url", "https://id.example.com/token"),
        ("revoke_url", "https://id.example.com/revoke"), ("client_id", "app"), ("client_secret", "s3 c"),
        ("client_auth", "basic"), ("scopes", ["read", "offline"]), ("redirect_uri", "http://127.0.0.1:8765/cb"),
        ("issuer", "https://id.example.com"), ("authorize_parameters", ["prompt": "consent"]),
        ("parameters", ["resource": "https://api.example.com/"]),
    ]
    private static let whole = FixtureNode.mapping(wholeEntries)

    private let held = TokenSet(access: Secret("old"), refreshToken: Secret("r1"), obtainedAt: now.wall)

    private func flow(_ block: FixtureNode, _ kind: String = "oauth2_authorization_code") throws -> any LoginFlow {
        try #require(try grant(kind, block).login)
    }

    private func attempt(_ redirect: String = "http://127.0.0.1:8765/cb", seed: UInt64 = 1) -> LoginAttempt {
        var random = SplitMix(seed: seed)
        return LoginAttempt(redirectURI: redirect, random: &random)
    }

    private func refusal(_ step: LoginStep) -> String? {
        switch step {
        case .refused(_, let reason): reason
        case .foreign(let refusal): refusal.reason
        case .exchange, .token: nil
        }
    }

    // MARK: A login of a client

    @Test func aClientsCodeIsExchangedAsTheGateway() throws {
        try #expect(grant("oauth2_authorization_code", Self.whole).capture == nil)
        let block = FixtureNode.mapping(Self.wholeEntries + [("capture", true)])
        let login = try #require(try grant("oauth2_authorization_code", block).capture)
        #expect(login.clientID == "app")
        #expect(login.endpoints.map(\.0) == [.token, .revocation])
        let form: [TokenRequest.Parameter] = [
            .init("grant_type", "authorization_code"), .init("code", "c"), .init("resource", "https://other.example/"),
        ]
        guard case .request(let request) = login.exchange(form, nonce: "n", at: now) else {
            Issue.record("no exchange")
            return
        }
        #expect(request.url.text == "https://id.example.com/token")
        let expected: [TokenRequest.Parameter] = [
            .init("grant_type", "authorization_code"), .init("code", "c"),
            .init("resource", "https://api.example.com/"),
        ]
        #expect(request.body == .form(expected))
        #expect(request.fields.map(\.name) == ["Authorization"])
    }

    // MARK: The page

    @Test func thePageCarriesStateChallengeAndWhatTheConfigurationAdds() throws {
        let attempt = attempt()
        let page = try flow(Self.whole).page(of: attempt)
        let query = try LoginParameters(page, expecting: "https://id.example.com/authorize?tenant=1")
        #expect(query["response_type"] == "code")
        #expect(query["client_id"] == "app")
        #expect(query["redirect_uri"] == "http://127.0.0.1:8765/cb")
        #expect(query["state"] == attempt.state.text)
        #expect(query["scope"] == "read offline")
        #expect(query["code_challenge_method"] == "S256")
        #expect(query["prompt"] == "consent")
        #expect(!page.contains(attempt.verifier.text) && !page.contains("s3"))
    }

    /// RFC 7636 appendix B.
    @Test func theChallengeIsTheHashOfTheVerifier() {
        let verifier = Secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        #expect(PKCE.challenge(of: verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
    }

    @Test func withoutPKCENothingOfItIsSent() throws {
        let block: FixtureNode = [
            "authorize_url": "https://id.example.com/authorize", "token_url": "https://id.example.com/token",
            "client_id": "app", "pkce": false,
        ]
        let (flow, attempt) = (try flow(block), attempt())
        #expect(!flow.page(of: attempt).contains("challenge"))
        let address = "http://127.0.0.1:8765/cb?code=c&state=\(attempt.state.text)"
        guard case .exchange(let request) = flow.read(.redirect(address), of: attempt, at: now) else {
            Issue.record("no exchange")
            return
        }
        #expect(!request.wire.contains("code_verifier"))
        #expect(refusal(flow.read(.pasted("c"), of: attempt, at: now)) == "address_needed")
    }

    @Test func aPersonMayAskForMoreScopesAndRenewalsKeepThem() throws {
        let plain = try flow(Self.whole)
        #expect(plain.requestedScopes == ["read", "offline"])
        let login = plain.asking(alsoFor: ["write", "read"])
        let query = try LoginParameters(
            login.page(of: attempt()),
            expecting: "https://id.example.com/authorize?tenant=1"
        )
        #expect(query["scope"] == "read offline write")
        let answer = TokenReply(200, #"{"access_token":"a","refresh_token":"r"}"#)
        let token = try login.interpret(answer, at: now).get()
        #expect(token.addedScopes == ["write"])
        #expect(try plain.interpret(answer, at: now).get().addedScopes == [])
        let alone = TokenReply(200, #"{"refresh_token":"r"}"#)
        #expect(try login.interpret(alone, at: now).get().addedScopes == ["write"])
        let grant = try grant("oauth2_authorization_code", Self.whole)
        let renewed = try grant.interpret(answer, holding: token, at: now).get()
        #expect(renewed.addedScopes == ["write"])
        // RFC 6749 section 6: without the parameter, a refresh token brings what it was issued for.
        guard case .request(let request) = grant.firstStep(holding: token) else {
            Issue.record("nothing is asked")
            return
        }
        #expect(!request.wire.contains("scope="))
    }

    @Test func aLostRegistrationAsksForALogin() throws {
        let lost = TokenReply(401, #"{"error":"invalid_client"}"#)
        func failure(_ more: [(String, FixtureNode)]) throws -> TokenFailure? {
            let grant = try grant("oauth2_authorization_code", .mapping(Self.wholeEntries + more))
            guard case .failure(let failure) = grant.interpret(lost, holding: held, at: now) else { return nil }
            return failure
        }
        let registered = try failure([("registration_url", "https://id.example.com/register")])
        #expect(registered?.class == .loginLikely && registered?.problem.cause?.code == "invalid_client")
        #expect(registered?.problem.detail.contains("registration may be lost") == true)
        #expect(try failure([])?.class == .terminal)
        let begun = FixtureNode.mapping(Self.wholeEntries + [("registration_url", "https://id.example.com/register")])
        let refused = try flow(begun).interpret(lost, at: now).failure
        #expect(refused?.problem.detail.contains("log in with `authgateway login`") == true)
        #expect(refused?.problem.cause?.code == "invalid_client")
    }

    // MARK: The answer

    @Test func theCodeIsExchangedWithTheVerifierAndTheSameRedirect() throws {
        let (flow, attempt) = (try flow(Self.whole), attempt())
        let address = "http://127.0.0.1:8765/cb?code=c%2F1&state=\(attempt.state.text)&iss=https%3A%2F%2Fid.example.com"
        guard case .exchange(let request) = flow.read(.redirect(address), of: attempt, at: now) else {
            Issue.record("no exchange")
            return
        }
        // base64("app:s3+c")
        #expect(
            request.wire == """
                POST https://id.example.com/token
                Authorization: Basic YXBwOnMzK2M=

                grant_type=authorization_code&code=c%2F1&redirect_uri=http%3A%2F%2F127.0.0.1%3A8765%2Fcb\
                &code_verifier=\(attempt.verifier.text)&resource=https%3A%2F%2Fapi.example.com%2F
                """
        )
    }

    @Test(arguments: [
        ("?code=c&state=S", nil), ("?code=c", "wrong_state"), ("?code=c&state=", "wrong_state"),
        ("?code=c&state=Sx", "wrong_state"), ("?error=access_denied", "wrong_state"), ("?state=S", "incomplete"),
        ("?error=access_denied&state=S", "denied"), ("?error=access_denied&code=c&state=S", "denied"),
        ("?code=c&code=d&state=S", "unreadable"), ("x?code=c&state=S", "other_address"), ("", "wrong_state"),
    ])
    func onlyTheAnswerToThisLoginCounts(_ rest: String, _ reason: String?) throws {
        let (flow, attempt) = (try flow(Self.plain), attempt())
        let address = "http://127.0.0.1:8765/cb" + rest.replacing("state=S", with: "state=\(attempt.state.text)")
        #expect(refusal(flow.read(.redirect(address), of: attempt, at: now)) == reason)
        #expect(refusal(flow.read(.redirect(address), of: self.attempt(seed: 2), at: now)) != nil)
    }

    @Test func anotherIssuerIsRefused() throws {
        let (flow, attempt) = (try flow(Self.whole), attempt())
        let address = "http://127.0.0.1:8765/cb?code=c&state=\(attempt.state.text)"
        #expect(refusal(flow.read(.redirect(address), of: attempt, at: now)) == "wrong_issuer")
        let other = address + "&iss=https%3A%2F%2Fevil.example"
        #expect(refusal(flow.read(.redirect(other), of: attempt, at: now)) == "wrong_issuer")
    }

    @Test func anAnswerWithoutIssuerIsAcceptedWhereNoneIsRequired() throws {
        let entries: [(String, FixtureNode)] = Self.wholeEntries + [("issuer_required", false)]
        let (flow, attempt) = (try flow(.mapping(entries)), attempt())
        let address = "http://127.0.0.1:8765/cb?code=c&state=\(attempt.state.text)"
        #expect(refusal(flow.read(.redirect(address), of: attempt, at: now)) == nil)
        #expect(
            refusal(flow.read(.redirect(address + "&iss=https%3A%2F%2Fid.example.com"), of: attempt, at: now)) == nil
        )
        for other in ["https%3A%2F%2Fevil.example", "https%3A%2F%2Fid.example.com%2F", "HTTPS%3A%2F%2Fid.example.com"] {
            #expect(refusal(flow.read(.redirect(address + "&iss=\(other)"), of: attempt, at: now)) == "wrong_issuer")
        }
        let denied =
            "http://127.0.0.1:8765/cb?error=access_denied&state=\(attempt.state.text)&iss=https%3A%2F%2Fevil.example"
        #expect(
            refusal(flow.read(.redirect(denied), of: attempt, at: now)) == "wrong_issuer",
            "its error means nothing"
        )
    }

    @Test func theLoginConforms() throws {
        func answer(_ attempt: LoginAttempt) -> String {
            "\(attempt.redirectURI)?code=c&state=\(attempt.state.text)&iss=https%3A%2F%2Fid.example.com"
        }
        for flow in [try flow(Self.plain), try flow(Self.whole), try flow(Self.box, "box_oauth")] {
            try LoginFlowConformance(flow, answer: answer).check()
        }
    }

    @Test func errorsOfTheAuthorityAreNamedAndItsTextIsNot() throws {
        let (flow, attempt) = (try flow(Self.plain), attempt())
        let address = "http://127.0.0.1:8765/cb?error=canary&error_description=canary&state=\(attempt.state.text)"
        guard case .refused(let problem, _) = flow.read(.redirect(address), of: attempt, at: now) else {
            Issue.record("not refused")
            return
        }
        #expect(problem.cause?.code == "other")
        #expect(!"\(problem)".contains("canary"))
    }

    @Test(arguments: [
        ("the-code", nil), ("two words", "unreadable"), ("", "unreadable"), ("http://x", "other_address"),
    ])
    func aCodeAloneCanBePasted(_ text: String, _ reason: String?) throws {
        let (flow, attempt) = (try flow(Self.plain), attempt())
        #expect(refusal(flow.read(.pasted(text), of: attempt, at: now)) == reason)
        // What a listener receives is an address, or nothing.
        #expect(refusal(flow.read(.redirect(text), of: attempt, at: now)) != nil)
    }

    @Test func aRefusedCodeAsksForANewLogin() throws {
        let failure = try flow(Self.plain).interpret(TokenReply(400, #"{"error":"invalid_grant"}"#), at: now).failure
        #expect(failure?.problem.kind == .loginFailed)
        #expect(failure?.problem.detail.contains("used before") == true)
    }

    // MARK: Renewal

    @Test func theGrantConforms() throws {
        let success = TokenReply(200, #"{"access_token":"new","expires_in":3600,"refresh_token":"r2"}"#)
        try TokenGrantConformance(grant("oauth2_authorization_code", Self.plain), success: success).check()
        try TokenGrantConformance(grant("oauth2_authorization_code", Self.whole), success: success).check()
        try TokenGrantConformance(grant("box_oauth", Self.box), success: success).check()
    }

    @Test func theRefreshTokenRotates() throws {
        let grant = try grant("oauth2_authorization_code", Self.plain)
        let request = try request(of: grant.firstStep(holding: held))
        #expect(request.wire.hasSuffix("grant_type=refresh_token&refresh_token=r1&client_id=app"))
        let reply = TokenReply(
            200,
            #"{"access_token":"new","expires_in":60,"refresh_token":"r2","refresh_token_expires_in":600}"#
        )
        let fresh = try grant.interpret(reply, holding: held, at: now).get()
        #expect(fresh.refreshToken == Secret("r2"))
        #expect(fresh.refreshTokenExpiresAt == now.wall + .seconds(600))
    }

    @Test(arguments: ["0", "-1", "\"-5\"", "1e999", "-1e999", "\"soon\"", "[]"])
    func aPairIsNotLostForItsLifetime(_ lifetime: String) throws {
        let body = #"{"access_token":"new","refresh_token":"r2","expires_in":\#(lifetime)}"#
        for (kind, block) in [("oauth2_authorization_code", Self.plain), ("box_oauth", Self.box)] {
            let grant = try grant(kind, block)
            let fresh = try grant.interpret(TokenReply(200, body), holding: held, at: now).get()
            #expect(fresh.access == Secret("new"))
            #expect(fresh.refreshToken == Secret("r2"))
            #expect(fresh.expiresAt == nil)
        }
        let begun = try flow(Self.plain).interpret(TokenReply(200, body), at: now).get()
        #expect(begun.refreshToken == Secret("r2"))
    }

    @Test(arguments: [
        #"{"access_token":"new","token_type":"mac","refresh_token":"r2"}"#, #"{"refresh_token":"r2"}"#,
        #"{"access_token":"a\r\nb","refresh_token":"r2","expires_in":1e999}"#,
    ])
    func theNextRefreshTokenIsPutAsideWhateverTheAccessTokenIs(_ body: String) throws {
        let grant = try grant("oauth2_authorization_code", Self.plain)
        func refreshToken(_ status: Int) -> Secret? {
            var attempt = GrantAttempt.sample(holding: held, at: now)
            attempt.answers = 1
            if case .token = grant.interpret(TokenReply(status, body), in: &attempt) { Issue.record("a token") }
            return attempt.nextRefreshToken
        }
        #expect(refreshToken(200) == Secret("r2"))
        #expect(refreshToken(400) == nil)
    }

    @Test(arguments: [
        #"{"refresh_token":"r2","refresh_token":"r3"}"#, #"{"refresh_token":["is invalid"]}"#, #"{"refresh_token":""}"#,
        #"{"error":"invalid_grant","refresh_token":"is invalid"}"#, #"{"error":{"code":7},"refresh_token":"r2"}"#,
    ])
    func whatIsNoNextRefreshTokenIsNotPutAside(_ body: String) throws {
        let grant = try grant("oauth2_authorization_code", Self.plain)
        var attempt = GrantAttempt.sample(holding: held, at: now)
        attempt.answers = 1
        guard case .failure = grant.interpret(TokenReply(200, body), in: &attempt) else { throw WrongKind() }
        #expect(attempt.nextRefreshToken == nil)
        #expect(try flow(Self.plain).interpret(TokenReply(200, body), at: now).failure != nil)
    }

    @Test(arguments: [
        (#""a\r\nb""#, true), (#""a","refresh_token":"b""#, true), ("[]", true), ("null", false), (#""r2""#, false),
    ])
    func besideAnUnusableRefreshTokenALoginIsAhead(_ refresh: String, _ isSpent: Bool) throws {
        var attempt = GrantAttempt.sample(holding: held, at: now)
        attempt.answers = 1
        let reply = TokenReply(200, #"{"access_token":"t","expires_in":60,"refresh_token":\#(refresh)}"#)
        let grant = try grant("oauth2_authorization_code", Self.plain)
        guard case .token(let token) = grant.interpret(reply, in: &attempt) else { throw WrongKind() }
        #expect(attempt.isRefreshTokenSpent == isSpent)
        #expect((token.refreshTokenExpiresAt == now.wall + .seconds(60)) == isSpent)
    }

    @Test func aLoginWithoutAUsableAccessTokenIsItsRefreshToken() throws {
        for body in [#"{"refresh_token":"r2"}"#, #"{"access_token":"t","token_type":"mac","refresh_token":"r2"}"#] {
            let token = try flow(Self.plain).interpret(TokenReply(200, body), at: now).get()
            #expect(token.access == Secret("") && token.refreshToken == Secret("r2") && token.expiresAt == now.wall)
        }
        #expect(try flow(Self.plain).interpret(TokenReply(400, #"{"refresh_token":"r2"}"#), at: now).failure != nil)
    }

    @Test func aLoginThatIsNotProlongedIsKnownByItsEnd() throws {
        var held = held
        held.refreshTokenExpiresAt = now.wall + .seconds(600)
        let grant = try grant("oauth2_authorization_code", Self.plain)
        func answer(_ lifetime: Int) throws -> TokenSet {
            let text = #"{"access_token":"new","refresh_token":"r2","refresh_token_expires_in":\#(lifetime)}"#
            return try grant.interpret(TokenReply(200, text), holding: held, at: now).get()
        }
        #expect(try answer(600).refreshTokenObtainedAt == held.obtainedAt, "the same end as before")
        #expect(try answer(601).refreshTokenObtainedAt == held.obtainedAt, "rounded")
        #expect(try answer(1800).refreshTokenObtainedAt == nil, "begun anew")
        held.refreshTokenObtainedAt = now.wall + .seconds(-5000)
        #expect(try answer(600).refreshTokenObtainedAt == held.refreshTokenObtainedAt)
    }

    @Test func theConfigurationMaySayHowLongALoginLasts() throws {
        let block = FixtureNode.mapping(Self.wholeEntries + [("refresh_token_lifetime", "30d")])
        let grant = try grant("oauth2_authorization_code", block)
        let reply = TokenReply(200, #"{"access_token":"new","refresh_token":"r2"}"#)
        let fresh = try grant.interpret(reply, holding: held, at: now).get()
        #expect(fresh.refreshTokenExpiresAt == now.wall + .seconds(30 * 86_400))
    }

    @Test func anAnswerWithoutARefreshTokenKeepsTheOld() throws {
        var held = held
        held.refreshTokenExpiresAt = now.wall + .seconds(900)
        let grant = try grant("oauth2_authorization_code", Self.plain)
        let fresh = try grant.interpret(TokenReply(200, #"{"access_token":"new"}"#), holding: held, at: now).get()
        #expect(fresh.refreshToken == Secret("r1"))
        #expect(fresh.refreshTokenExpiresAt == held.refreshTokenExpiresAt)
    }

    @Test(arguments: ["invalid_grant", "interaction_required", "consent_required", "account_deactivated"])
    func aRefusedRefreshTokenNeedsALogin(_ code: String) throws {
        let grant = try grant("oauth2_authorization_code", Self.plain)
        let failure = grant.interpret(TokenReply(400, #"{"error":"\#(code)"}"#), holding: held, at: now).failure
        #expect(failure?.class == .loginRequired)
        #expect(failure?.problem.kind == .reauthorizationRequired)
        #expect(failure?.clearsToken == false)
    }

    @Test func withoutATokenAPersonIsNeeded() throws {
        let grant = try grant("oauth2_authorization_code", Self.plain)
        var unrenewable = held
        unrenewable.refreshToken = nil
        for token in [nil, unrenewable] {
            guard case .impossible(let failure) = grant.firstStep(holding: token) else {
                Issue.record("something is asked")
                return
            }
            #expect(failure.class == .loginRequired)
        }
        #expect(grant.seed(at: now) == nil)
    }

    @Test func afterARevocationThePersonIsToldSo() throws {
        let revoked = StoredToken.revoked(generation: 1, at: now.wall).token
        let step = try grant("oauth2_authorization_code", Self.plain).firstStep(holding: revoked)
        guard case .impossible(let failure) = step else {
            Issue.record("something is asked")
            return
        }
        #expect(failure.problem.detail.hasPrefix("The token was revoked by an operator: a person must log in at "))
    }

    @Test func configuredTokensAreTriedAtOnce() throws {
        let refreshAlone: FixtureNode = [
            "authorize_url": "https://id.example.com/authorize", "token_url": "https://id.example.com/token",
            "client_id": "app", "refresh_token": "r0",
        ]
        let grant = try grant("oauth2_authorization_code", refreshAlone)
        let seed = try #require(grant.seed(at: now))
        #expect(seed.refreshToken == Secret("r0") && seed.expiresAt == now.wall)
        #expect(grant.renewsSeed)
        let answer = grant.interpret(TokenReply(200, #"{"access_token":"new"}"#), holding: nil, at: now)
        #expect(try answer.get().refreshToken == Secret("r0"))
    }

    @Test func everyInputMakesAnotherToken() throws {
        func block(_ changes: [(String, FixtureNode)]) -> FixtureNode {
            var entries = Self.wholeEntries
            for (key, value) in changes {
                entries.removeAll { $0.0 == key }
                entries.append((key, value))
            }
            return .mapping(entries)
        }
        let variants = [
            block([]), block([("authorize_url", "https://id.example.com/other")]),
            block([("token_url", "https://id.example.com/other")]), block([("client_id", "app2")]),
            block([("client_secret", "other")]), block([("client_auth", "body")]), block([("scopes", ["read"])]),
            block([("parameters", ["resource": "x"])]), block([("authorize_parameters", ["prompt": "none"])]),
            block([("refresh_token", "r")]), block([("access_token", "a")]),
        ]
        try TokenGrantConformance.checkIdentitiesDiffer(
            variants.map { try grant("oauth2_authorization_code", $0) }
        )
    }

    /// A refresh has no scope unless it is told to (RFC 6749 section 6).
    @Test func aRefreshHasParametersOfItsOwn() throws {
        let more: FixtureNode = ["scope": "api://app/read offline", "resource": "https://other.example.com/"]
        let block = FixtureNode.mapping(Self.wholeEntries + [("refresh_parameters", more)])
        let changed = try grant("oauth2_authorization_code", block)
        let refresh = try request(of: changed.firstStep(holding: held))
        #expect(try refresh.parameter("scope") == "api://app/read offline")
        #expect(try refresh.parameter("resource") == "https://other.example.com/")
        #expect(!refresh.wire.contains("api.example.com"))
        let plain = try request(of: grant("oauth2_authorization_code", Self.whole).firstStep(holding: held))
        #expect(plain.wire.contains("api.example.com") && !plain.wire.contains("scope="))
    }

    /// An operator who adds what a refresh lacks keeps the login.
    @Test func parametersOfARefreshMakeNoOtherToken() throws {
        let block = FixtureNode.mapping(Self.wholeEntries + [("refresh_parameters", ["scope": "read"])])
        let grants = try [Self.whole, block].map { try grant("oauth2_authorization_code", $0) }
        #expect(grants[0].identity == grants[1].identity)
    }

    @Test func aScopeInTheWrongPlaceIsSentToTheRightKey() throws {
        let misplaced: [(String, FixtureNode)] = [
            ("authorize_url", "https://id.example.com/authorize"), ("token_url", "https://id.example.com/token"),
            ("client_id", "app"), ("parameters", ["scope": "read"]),
            ("refresh_parameters", ["refresh_token": "r", "client_id": "x"]),
        ]
        #expect(
            try problems("oauth2_authorization_code", .mapping(misplaced)).sorted() == [
                "parameters: \"scope\" is set by the strategy; use scopes, or refresh_parameters for the scope of a refresh",
                "refresh_parameters: \"client_id\" is set by the strategy; use its own key",
                "refresh_parameters: \"refresh_token\" is set by the strategy; use its own key",
            ]
        )
        let client: FixtureNode = [
            "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s",
            "parameters": ["scope": "read"],
        ]
        #expect(
            try problems("oauth2_client_credentials", client) == [
                "parameters: \"scope\" is set by the strategy; use scopes"
            ]
        )
    }

    @Test func credentialsWithoutTokensAreToldApartByTheirPlace() throws {
        let one = try #require(StrategyCatalog.builtIn.strategy(named: "oauth2_authorization_code"))
        func grant(at place: String) throws -> any TokenGrant {
            let strategy = one.init(from: .fixture(Self.plain, path: .root.appending("credentials").appending(place)))
            guard case .token(let grant)? = strategy?.behavior else { throw WrongKind() }
            return grant
        }
        try TokenGrantConformance.checkIdentitiesDiffer([try grant(at: "mine"), try grant(at: "yours")])
    }

    @Test func theRefreshTokenIsRevokedWhereThereIsOne() throws {
        let grant = try grant("oauth2_authorization_code", Self.whole)
        #expect(
            grant.revocation(of: held)?.wire == """
                POST https://id.example.com/revoke
                Authorization: Basic YXBwOnMzK2M=

                token=r1&token_type_hint=refresh_token
                """
        )
        var access = held
        access.refreshToken = nil
        #expect(grant.revocation(of: access)?.wire.hasSuffix("token=old&token_type_hint=access_token") == true)
        #expect(try self.grantWithoutRevocation().revocation(of: held) == nil)
    }

    @Test func aClientThatSignsRevokesToo() throws {
        let block: FixtureNode = [
            "authorize_url": "https://id.example.com/authorize", "token_url": "https://id.example.com/token",
            "revoke_url": "https://id.example.com/revoke", "client_id": "app", "client_auth": "private_key_jwt",
            "private_key": "\(SampleKeys.rsa)",
        ]
        let request = try #require(grant("oauth2_authorization_code", block).revocation(of: held, at: now))
        #expect(try request.parameter("token") == "r1")
        let assertion = try SignedToken(request.parameter("client_assertion"))
        #expect(assertion.claims["jti"] == .string("\(String.sampleNonce)-0"))
        #expect(try assertion.isGenuine())
    }

    private func grantWithoutRevocation() throws -> any TokenGrant {
        try grant("oauth2_authorization_code", Self.plain)
    }

    @Test func everyProblemIsReportedAtOnce() throws {
        let block: FixtureNode = [
            "authorize_url": "http://id.example.com/authorize", "client_id": "app",
            "redirect_uri": "http://apps.example.com/cb", "scopes": ["a b"], "pkce": "yes",
            "authorize_parameters": ["state": "x"], "parameters": ["code": "x"],
        ]
        #expect(
            try problems("oauth2_authorization_code", block).sorted() == [
                "authorize_parameters: \"state\" is set by the strategy; use its own key",
                "authorize_url: must be https: a secret would be sent in the clear (http is for loopback only)",
                "missing key \"token_url\"",
                "parameters: \"code\" is set by the strategy; use its own key",
                "pkce: expected true or false, found \"yes\"",
                "redirect_uri: must be https or on loopback: the code would be sent in the clear",
                "scopes: a scope is visible ASCII without spaces; write each as a separate list element",
            ]
        )
    }

    // MARK: Box

    private static let box: FixtureNode = ["client_id": "box-id", "client_secret": "box-secret"]

    @Test func boxHasItsOwnAddressesAndForms() throws {
        let grant = try grant("box_oauth", Self.box)
        let page = try #require(grant.login).page(of: attempt())
        #expect(page.hasPrefix("https://account.box.com/api/oauth2/authorize?response_type=code&client_id=box-id&"))
        #expect(
            try request(of: grant.firstStep(holding: held)).wire == """
                POST https://api.box.com/oauth2/token

                grant_type=refresh_token&refresh_token=r1&client_id=box-id&client_secret=box-secret
                """
        )
        #expect(
            grant.revocation(of: held)?.wire == """
                POST https://api.box.com/oauth2/revoke

                token=r1&client_id=box-id&client_secret=box-secret
                """
        )
    }

    @Test func boxRefreshTokensLiveForSixtyDays() throws {
        let reply = TokenReply(
            200,
            #"{"access_token":"new","expires_in":3600,"refresh_token":"r2","restricted_to":[]}"#
        )
        let fresh = try grant("box_oauth", Self.box).interpret(reply, holding: held, at: now).get()
        #expect(fresh.refreshTokenExpiresAt == now.wall + .seconds(60 * 86_400))
    }

    @Test func boxTakesCredentialsInTheFormAlone() throws {
        let block: FixtureNode = ["client_id": "a", "client_secret": "b", "client_auth": "basic"]
        #expect(try problems("box_oauth", block) == ["client_auth: Box expects the client's credentials in the form"])
    }
}
