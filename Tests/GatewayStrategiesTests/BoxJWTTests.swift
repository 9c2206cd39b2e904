import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Box with signed assertions", .timeLimit(.minutes(5)))
struct BoxJWTTests {
    private static let block: FixtureNode = [
        "client_id": "app", "client_secret": "s+1", "key_id": "k1", "private_key": "\(SampleKeys.rsa)",
        "subject": ["enterprise": "12345"],
    ]
    private static let seconds = Double(now.wall.milliseconds / 1000)
    private static let success = TokenReply(
        200,
        #"{"access_token":"new","expires_in":4123,"restricted_to":[],"token_type":"bearer"}"#
    )

    private static func with(_ name: String, _ value: FixtureNode) -> FixtureNode {
        .mapping([
            ("client_id", "app"), ("client_secret", "s+1"), ("key_id", "k1"), ("private_key", "\(SampleKeys.rsa)"),
            ("subject", ["enterprise": "12345"]), (name, value),
        ])
    }

    private static func settings(
        key: String = SampleKeys.encrypted,
        more: String = #","enterpriseID":"12345""#
    ) -> String {
        #"{"boxAppSettings":{"clientID":"app","clientSecret":"s+1","appAuth":{"publicKeyID":"k1","privateKey":""#
            + key.replacing("\n", with: "\\n") + #"","passphrase":"sesame"}}"# + more + "}"
    }

    @Test func theAssertionIsWhatBoxWants() throws {
        let request = try request(of: boxJWT(Self.block).firstStep(holding: nil, at: now))
        let assertion = try SignedToken(request.parameter("assertion"))
        #expect(assertion.header == .object(["alg": .string("RS256"), "kid": .string("k1"), "typ": .string("JWT")]))
        #expect(
            assertion.claims
                == .object([
                    "iss": .string("app"), "sub": .string("12345"), "box_sub_type": .string("enterprise"),
                    "aud": .string("https://api.box.com/oauth2/token"), "jti": .string("\(String.sampleNonce)-0"),
                    "exp": .number(.init(Self.seconds + 30)),
                ])
        )
        #expect(try assertion.isGenuine())
        let text = try request.parameter("assertion")
        #expect(
            request.wire == """
                POST https://api.box.com/oauth2/token

                grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(text)\
                &client_id=app&client_secret=s%2B1
                """
        )
    }

    @Test(arguments: ["RS256", "RS384", "RS512"])
    func allThreeAlgorithmsOfBoxAreGenuine(_ algorithm: String) throws {
        let grant = try boxJWT(Self.with("algorithm", "\(algorithm)"))
        let assertion = try SignedToken(request(of: grant.firstStep(holding: nil, at: now)).parameter("assertion"))
        #expect(assertion.header["alg"] == .string(algorithm))
        #expect(try assertion.isGenuine())
    }

    @Test func theAudienceIsBoxWhateverTheURL() throws {
        let grant = try boxJWT(Self.with("token_url", "http://127.0.0.1:9001/oauth2/token"))
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(request.url.text == "http://127.0.0.1:9001/oauth2/token")
        let assertion = try SignedToken(request.parameter("assertion"))
        #expect(assertion.claims["aud"] == .string("https://api.box.com/oauth2/token"))
        let token = TokenSet(access: Secret("T"), obtainedAt: now.wall)
        #expect(grant.revocation(of: token)?.url.text == "http://127.0.0.1:9001/oauth2/revoke")
    }

    @Test func theFileOfTheConsoleSaysItAll() throws {
        let grant = try boxJWT(["app_settings": ["env": "SETTINGS"]], settings: Self.settings())
        #expect(try grant.identity == boxJWT(Self.block).identity)
        let token = TokenSet(access: Secret("T"), obtainedAt: now.wall)
        #expect(
            grant.revocation(of: token)?.wire
                == "POST https://api.box.com/oauth2/revoke\n\nclient_id=app&client_secret=s%2B1&token=T"
        )
    }

    private func boxJWT(_ block: FixtureNode, settings: String = "") throws -> any TokenGrant {
        try grant("box_jwt", block, ["SETTINGS": settings])
    }

    @Test func whatStandsBesideTheFileTakesItsPlace() throws {
        let block: FixtureNode = [
            "app_settings": ["env": "SETTINGS"], "key_id": "k2", "private_key": "\(SampleKeys.rsa)",
            "subject": ["user": "7"],
        ]
        let settings = Self.settings(key: "", more: #","enterpriseID":12345"#)
        let grant = try boxJWT(block, settings: settings)
        let assertion = try SignedToken(request(of: grant.firstStep(holding: nil, at: now)).parameter("assertion"))
        #expect(assertion.header["kid"] == .string("k2"))
        #expect(assertion.claims["sub"] == .string("7"))
        #expect(assertion.claims["box_sub_type"] == .string("user"))
    }

    @Test(arguments: [
        (#","enterpriseID":"1""#, "enterprise:1"), (#","userID":"2""#, "user:2"),
        (#","enterpriseID":1"#, "enterprise:1"),
    ])
    func aFileThatNamesOneSubjectIsEnough(_ more: String, _ subject: String) throws {
        let block: FixtureNode = ["app_settings": ["env": "SETTINGS"]]
        let grant = try boxJWT(block, settings: Self.settings(more: more))
        #expect(grant.identity.subject == subject)
    }

    private static let notTheFile =
        "app_settings: is not the JSON file that the Box developer console hands out with a key pair"

    @Test(arguments: [
        ("hello", notTheFile),
        ("{}", notTheFile),
        (#"{"boxAppSettings":"x"}"#, notTheFile),
        (
            #"{"boxAppSettings":{"clientID":"app","clientSecret":"s","appAuth":{}}}"#,
            "app_settings: there is no appAuth.privateKey in it; generate a key pair in the Box developer console, or set "
                + "private_key and key_id here"
        ),
        (
            settings(more: ""),
            "missing key \"subject\": the file names neither enterpriseID nor userID"
        ),
        (
            settings(more: #","enterpriseID":"1","userID":"2""#),
            "missing key \"subject\": the file names both enterpriseID and userID, so say which one"
        ),
        (
            settings().replacing("sesame", with: "wrong"),
            "app_settings: the passphrase does not open the private key"
        ),
        (settings(key: SampleKeys.p256), "app_settings: RS256 needs an RSA key"),
        (settings(key: SampleKeys.rsa1024), "app_settings: the RSA key is too short: it needs at least 2048 bits"),
        (settings().replacing("\"clientID\":\"app\",", with: ""), "missing key \"client_id\""),
        (settings().replacing("\"clientSecret\":\"s+1\",", with: ""), "missing key \"client_secret\""),
    ])
    func whatIsWrongWithTheFileIsSaid(_ settings: String, _ problem: String) throws {
        let found = try problems("box_jwt", ["app_settings": ["env": "SETTINGS"]], ["SETTINGS": settings])
        #expect(found == [problem])
    }

    @Test func inlineFieldsAreAllNeeded() throws {
        #expect(
            try problems("box_jwt", ["algorithm": "ES256"]) == [
                "missing key \"client_id\"",
                "missing key \"client_secret\"",
                "algorithm: expected one of RS256, RS384, RS512; found \"ES256\"",
                "missing key \"private_key\"",
                "missing key \"subject\": {enterprise: \"…\"} or {user: \"…\"}",
            ]
        )
    }

    @Test func aRouteCanSpeakForAnotherUser() throws {
        let strategy = try decode("box_jwt", Self.block)
        #expect(type(of: strategy).hasSubject)
        let switched = try #require(strategy.switchingSubject(.fixture(["subject": ["user": "42"]])))
        guard case .token(let original) = strategy.behavior, case .token(let other) = switched.behavior else {
            throw WrongKind()
        }
        let assertion = try SignedToken(request(of: other.firstStep(holding: nil, at: now)).parameter("assertion"))
        #expect(assertion.claims["sub"] == .string("42"))
        #expect(assertion.claims["box_sub_type"] == .string("user"))
        #expect(other.identity.subject == "user:42")
        #expect(original.identity.subject == "enterprise:12345")
    }

    @Test func everyInputMakesAnotherToken() throws {
        let grants = try [
            Self.block, Self.with("algorithm", "RS512"), Self.with("token_url", "https://box.example/oauth2/token"),
            [
                "client_id": "app", "client_secret": "s+1", "key_id": "k2", "private_key": "\(SampleKeys.rsa)",
                "subject": ["enterprise": "12345"],
            ],
            [
                "client_id": "app", "client_secret": "s+1", "key_id": "k1", "private_key": "\(SampleKeys.rsa)",
                "subject": ["user": "12345"],
            ],
        ].map { try boxJWT($0) }
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    @Test func theGrantConforms() throws {
        try TokenGrantConformance(boxJWT(Self.block), success: Self.success).check()
    }

    // MARK: Refusals

    private static let expired = "Current date/time MUST be before the expiration date/time listed in the 'exp' claim"

    private func refusal(_ description: String, date: String? = "Sun, 01 Mar 2026 10:00:00 GMT") -> TokenReply {
        let body = #"{"error":"invalid_grant","error_description":"\#(description)"}"#
        return TokenReply(400, body, date.map { ["date": $0] } ?? [:])
    }

    private func attempt(answers: Int = 1) -> GrantAttempt {
        var attempt = GrantAttempt(holding: nil, at: now, nonce: .sampleNonce)
        attempt.answers = answers
        return attempt
    }

    @Test(arguments: [
        expired, "The 'exp' value exceeds the maximum value of 60 seconds beyond the issue time",
        "Current date/time MUST be after or equal to the not-before date/time listed in the 'nbf' or 'iat' claim",
        "A unique 'jti' value is required",
    ])
    func theClockOfBoxCounts(_ description: String) throws {
        let grant = try boxJWT(Self.block)
        var attempt = attempt()
        guard case .next(let request) = grant.interpret(refusal(description), in: &attempt) else { throw WrongKind() }
        let assertion = try SignedToken(request.parameter("assertion"))
        // 2026-03-01T10:00:00Z, whatever this machine's clock says.
        #expect(assertion.claims["exp"] == .number(1_772_359_230))
        #expect(assertion.claims["jti"] == .string("\(String.sampleNonce)-1"))
        #expect(try assertion.isGenuine())
    }

    @Test func aUsedIDIsReplacedByTheOwnClockToo() throws {
        var attempt = attempt()
        let reply = refusal("A unique 'jti' value is required", date: nil)
        guard case .next(let request) = try boxJWT(Self.block).interpret(reply, in: &attempt) else { throw WrongKind() }
        let assertion = try SignedToken(request.parameter("assertion"))
        #expect(assertion.claims["exp"] == .number(.init(Self.seconds + 30)))
        #expect(assertion.claims["jti"] == .string("\(String.sampleNonce)-1"))
    }

    /// Whoever sets the clock need not touch the gateway.
    @Test(arguments: [(4, "Sun, 01 Mar 2026 10:00:00 GMT"), (1, "yesterday"), (1, nil)] as [(Int, String?)])
    func whatSigningAgainDoesNotHelpIsTriedLater(_ answers: Int, _ date: String?) throws {
        var attempt = attempt(answers: answers)
        guard
            case .failure(let failure) = try boxJWT(Self.block).interpret(
                refusal(Self.expired, date: date),
                in: &attempt
            )
        else { throw WrongKind() }
        #expect(failure.class == .transient(retryAfter: nil))
        #expect(failure.problem.detail.contains("NTP"))
    }

    @Test func theDifferenceOfTheClocksIsSaid() throws {
        var attempt = attempt(answers: 4)
        guard case .failure(let failure) = try boxJWT(Self.block).interpret(refusal(Self.expired), in: &attempt) else {
            throw WrongKind()
        }
        #expect(failure.problem.detail.contains("clock is 1800 s behind the authorization server's"))
    }

    /// Every row of Box's table of errors that is not about a clock.
    @Test(arguments: [
        ("invalid_client", "The client credentials are invalid", "client_id or client_secret is wrong"),
        ("invalid_grant", "Grant credentials are invalid", "key_id"),
        ("invalid_grant", "Please check the 'sub' claim. The 'sub' specified is invalid.", "does not know the subject"),
        ("invalid_grant", "OAuth JWT signature is invalid", "does not belong to key_id"),
        ("invalid_grant", "Refresh token has expired", "key_id"),
        ("unauthorized_client", "This app is not authorized by the enterprise admin", "by the enterprise admin"),
        (
            "unauthorized_client", "The \\\"box_subject_type\\\" value is unauthorized for this client_id",
            "Generate user access tokens"
        ),
        ("unauthorized_client", "The grant type is unauthorized for this client_id", "with JWT"),
        ("invalid_request", "The grant type is unauthorized for this client_id", "with JWT"),
        ("invalid_request", "Invalid grant_type parameter or parameter missing", "token_url"),
        ("unauthorized_device", "", "check the credential"),
        ("exceeded_device_limits", "", "check the credential"),
        ("missing_device_id", "", "check the credential"),
        ("unsupported_device_pinning_runtime", "", "check the credential"),
        ("account_deactivated", "", "check the credential"),
    ])
    func refusalsAreFinalAndSayWhereToLook(_ code: String, _ description: String, _ hint: String) throws {
        let body = #"{"error":"\#(code)","error_description":"\#(description)"}"#
        for status in [400, 401] {
            let reply = TokenReply(status, body, ["date": "Sun, 01 Mar 2026 10:00:00 GMT"])
            let failure = try #require(boxJWT(Self.block).interpret(reply, holding: nil, at: now).failure)
            #expect(failure.class == .terminal)
            #expect(failure.problem.kind == .credentialMisconfigured)
            #expect(failure.problem.cause == GatewayProblem.Cause(code: code, httpStatus: status))
            #expect(failure.problem.detail.contains(hint))
        }
    }
}
