import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Client authentication", .timeLimit(.minutes(5)))
struct ClientAuthenticationTests {
    private static func block(_ more: [(String, FixtureNode)] = []) -> FixtureNode {
        .mapping(
            [
                ("token_url", "https://id.example.com/token"), ("client_id", "app"),
                ("client_auth", "private_key_jwt"),
            ] + more
        )
    }

    @Test func aClientSignsAStatementAboutItself() throws {
        let block = Self.block([("private_key", "\(SampleKeys.rsa)"), ("key_id", "k1")])
        let request = try request(of: grant("oauth2_client_credentials", block).firstStep(holding: nil, at: now))
        let token = try SignedToken(request.parameter("client_assertion"))
        #expect(token.header == .object(["alg": .string("RS256"), "kid": .string("k1"), "typ": .string("JWT")]))
        let seconds = Double(now.wall.milliseconds / 1000)
        #expect(
            token.claims
                == .object([
                    "iss": .string("app"), "sub": .string("app"), "aud": .string("https://id.example.com/token"),
                    "jti": .string("\(String.sampleNonce)-0"), "iat": .number(.init(seconds)),
                    "exp": .number(.init(seconds + 60)),
                ])
        )
        #expect(try token.isGenuine())
        #expect(try request.parameter("client_id") == "app")
        #expect(
            try request.parameter("client_assertion_type") == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        )
        #expect(request.fields == [])
        #expect(!request.wire.contains("client_secret"))
    }

    @Test func aRevocationIsSignedAndDatedToo() throws {
        let block = Self.block([
            ("private_key", "\(SampleKeys.rsa)"), ("revoke_url", "https://id.example.com/revoke"),
        ])
        let token = TokenSet(access: Secret("T"), obtainedAt: now.wall)
        let request = try #require(grant("oauth2_client_credentials", block).revocation(of: token, at: now))
        #expect(request.url.text == "https://id.example.com/revoke")
        #expect(try request.parameter("token") == "T")
        #expect(try request.parameter("token_type_hint") == "access_token")
        let assertion = try SignedToken(request.parameter("client_assertion"))
        #expect(assertion.claims["aud"] == .string("https://id.example.com/token"))
        #expect(assertion.claims["exp"] == .number(.init(Double(now.wall.milliseconds / 1000) + 60)))
        #expect(try assertion.isGenuine())
    }

    @Test(arguments: [
        ("RS256", SampleKeys.rsa), ("RS384", SampleKeys.rsa), ("RS512", SampleKeys.rsa), ("PS256", SampleKeys.rsa),
        ("PS384", SampleKeys.rsa), ("PS512", SampleKeys.rsa), ("ES256", SampleKeys.p256), ("ES384", SampleKeys.p384),
        ("ES512", SampleKeys.p521),
    ])
    func everyAlgorithmCanBeVerified(_ algorithm: String, _ key: String) throws {
        let block = Self.block([
            ("private_key", "\(key)"), ("algorithm", "\(algorithm)"), ("audience", "https://id.example.com"),
        ])
        let request = try request(of: grant("oauth2_client_credentials", block).firstStep(holding: nil, at: now))
        let token = try SignedToken(request.parameter("client_assertion"))
        #expect(token.header == .object(["alg": .string(algorithm), "typ": .string("JWT")]))
        #expect(token.claims["aud"] == .string("https://id.example.com"))
        #expect(try token.isGenuine())
    }

    @Test func lineBreaksOfAKeyMayBeEscaped() throws {
        let key = SampleKeys.rsa.replacing("\n", with: "\\n")
        let block = Self.block([("private_key", "\(key)")])
        let request = try request(of: grant("oauth2_client_credentials", block).firstStep(holding: nil, at: now))
        #expect(try SignedToken(request.parameter("client_assertion")).isGenuine())
    }

    private static let publicKey = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
    private static let oldStyle =
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES-EDE3-CBC,00\n\nAAAA\n"
        + "-----END RSA PRIVATE KEY-----"

    @Test(
        arguments: [
            ([], "missing key \"private_key\""),
            (
                [("private_key", "hello")],
                "private_key: is not a private key in PEM (\"-----BEGIN … PRIVATE KEY-----\")"
            ),
            (
                [("private_key", "\(publicKey)")],
                "private_key: holds a public key; a private key in PEM is needed"
            ),
            (
                [("private_key", "\(SampleKeys.encrypted)")],
                "private_key: the private key is encrypted and needs its passphrase"
            ),
            ([("private_key", "\(oldStyle)")], "private_key: the private key is encrypted and needs its passphrase"),
            (
                [("private_key", "\(SampleKeys.encrypted)"), ("passphrase", "wrong")],
                "passphrase: the passphrase does not open the private key"
            ),
            ([("private_key", "\(SampleKeys.p256)")], "private_key: RS256 needs an RSA key"),
            (
                [("private_key", "\(SampleKeys.rsa)"), ("algorithm", "ES256")],
                "private_key: ES256 needs a key of the curve P-256"
            ),
            (
                [("private_key", "\(SampleKeys.p384)"), ("algorithm", "ES256")],
                "private_key: ES256 needs a key of the curve P-256"
            ),
            (
                [("private_key", "\(SampleKeys.rsa1024)")],
                "private_key: the RSA key is too short: it needs at least 2048 bits"
            ),
            (
                [("private_key", "\(SampleKeys.rsa)"), ("algorithm", "HS256")],
                "algorithm: expected one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512; found \"HS256\""
            ),
            (
                [("private_key", "\(SampleKeys.rsa)"), ("client_secret", "s")],
                "client_secret: cannot be combined with client_auth: private_key_jwt"
            ),
        ] as [([(String, FixtureNode)], String)]
    )
    func whatIsWrongWithAKeyIsSaid(_ more: [(String, FixtureNode)], _ problem: String) throws {
        #expect(try problems("oauth2_client_credentials", Self.block(more)) == [problem])
    }

    @Test func keysOfOneMethodMeanNothingToAnother() throws {
        let block: FixtureNode = [
            "token_url": "https://id.example.com/token", "client_id": "app", "client_secret": "s", "key_id": "k1",
        ]
        #expect(
            try problems("oauth2_client_credentials", block) == ["key_id: is for client_auth: private_key_jwt"]
        )
    }

    @Test func everyInputMakesAnotherToken() throws {
        let variants: [[(String, FixtureNode)]] = [
            [("private_key", "\(SampleKeys.rsa)")],
            [("private_key", "\(SampleKeys.rsa)"), ("key_id", "k1")],
            [("private_key", "\(SampleKeys.rsa)"), ("algorithm", "RS512")],
            [("private_key", "\(SampleKeys.rsa)"), ("audience", "https://id.example.com")],
            [("private_key", "\(SampleKeys.p256)"), ("algorithm", "ES256")],
        ]
        let grants = try variants.map { try grant("oauth2_client_credentials", Self.block($0)) }
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
        let success = TokenReply(200, #"{"access_token":"new","token_type":"bearer","expires_in":3600}"#)
        try TokenGrantConformance(grants[0], success: success).check()
    }

    /// The passphrase is not part of the key.
    @Test func aKeyUnderAnotherLockIsTheSameKey() throws {
        let open = try grant("oauth2_client_credentials", Self.block([("private_key", "\(SampleKeys.rsa)")]))
        let locked = try grant(
            "oauth2_client_credentials",
            Self.block([("private_key", "\(SampleKeys.encrypted)"), ("passphrase", "sesame")])
        )
        #expect(open.identity == locked.identity)
    }
}
