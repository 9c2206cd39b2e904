import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Self-signed tokens", .timeLimit(.minutes(5)))
struct JWTStrategyTests {
    private static let seconds = Double(now.wall.milliseconds / 1000)

    private static func block(_ more: [(String, FixtureNode)] = [], claims: FixtureNode = ["iss": "robot"])
        -> FixtureNode
    {
        .mapping([("key", "\(SampleKeys.rsa)"), ("claims", claims)] + more)
    }

    private func jwt(_ block: FixtureNode) throws -> any TokenGrant { try grant("jwt", block) }

    private func token(_ block: FixtureNode) throws -> TokenSet {
        guard case .token(let token) = try jwt(block).firstStep(holding: nil, at: now) else { throw WrongKind() }
        return token
    }

    @Test func theTokenIsWhatTheClaimsSay() throws {
        let claims: FixtureNode = [
            "iss": "robot", "aud": ["https://a.example", "https://b.example"], "level": .plain("7"),
        ]
        let token = try token(Self.block([("key_id", "k1"), ("lifetime", "20m")], claims: claims))
        let signed = try SignedToken(token.access.text)
        #expect(signed.header == .object(["alg": .string("RS256"), "kid": .string("k1"), "typ": .string("JWT")]))
        #expect(
            signed.claims
                == .object([
                    "iss": .string("robot"), "level": .number(7),
                    "aud": .array([.string("https://a.example"), .string("https://b.example")]),
                    "iat": .number(.init(Self.seconds)), "exp": .number(.init(Self.seconds + 1200)),
                ])
        )
        #expect(try signed.isGenuine())
        #expect(token.obtainedAt == now.wall)
        #expect(token.lifetime == .seconds(1200))
        #expect(try jwt(Self.block()).injection(of: token).wire == ["Authorization: Bearer \(token.access.text)"])
    }

    @Test func aTokenLivesFiveMinutesUnlessTheConfigurationSaysOtherwise() throws {
        #expect(try token(Self.block()).lifetime == .seconds(300))
    }

    /// The digests were made with OpenSSL from the public keys.
    @Test(arguments: [
        ("RS256", SampleKeys.rsa, "SHA256:hPl8MO822kh1VAoEjki175+P4Ox1QxIHqMDvJOA0CDM="),
        ("ES256", SampleKeys.p256, "SHA256:XgyInbUbN/IHxLxKMj6KBxC2e42q5ZspeEqXHi58jXw="),
    ])
    func aClaimMayHoldTheFingerprintOfTheKey(_ algorithm: String, _ key: String, _ fingerprint: String) throws {
        let block: FixtureNode = [
            "key": "\(key)", "algorithm": "\(algorithm)",
            "claims": ["iss": "ACCOUNT.USER.{{fingerprint}}", "sub": "ACCOUNT.USER"],
        ]
        let grant = try jwt(block)
        #expect(grant.identity.subject == "ACCOUNT.USER")
        let signed = try SignedToken(token(block).access.text)
        #expect(signed.claims["iss"] == .string("ACCOUNT.USER.\(fingerprint)"))
        #expect(try signed.isGenuine())
    }

    @Test func aSharedSecretSignsToo() throws {
        let block: FixtureNode = [
            "secret": "\(SignedToken.shared)", "algorithm": "HS256", "claims": ["iss": "app"], "jti": .plain("true"),
            "apply": ["header": "X-Token", "value": "JWT {{token}}"],
        ]
        let token = try token(block)
        let signed = try SignedToken(token.access.text)
        #expect(signed.header == .object(["alg": .string("HS256"), "typ": .string("JWT")]))
        #expect(signed.claims["jti"] == .string("\(String.sampleNonce)-0"))
        #expect(try signed.isGenuine())
        #expect(try jwt(block).injection(of: token).wire == ["X-Token: JWT \(token.access.text)"])
    }

    @Test func mistakesAreExplained() throws {
        #expect(
            try problems("jwt", ["claims": ["exp": "1"], "lifetime": "400d", "audience": "x"]) == [
                "signing needs \"key\", a private key, or \"secret\" for HS256, HS384 and HS512",
                "lifetime: must be between 1s and 366d",
                "claims.exp: is set by the strategy",
                "unknown key \"audience\"; write \"claims: {aud: …}\"",
            ]
        )
        let shared: FixtureNode = [
            "secret": "\(SignedToken.shared)", "algorithm": "HS256", "claims": ["iss": "{{fingerprint}}"],
        ]
        #expect(
            try problems("jwt", shared) == ["claims: iss: nothing is named \"{{fingerprint}}\"; there are none here"]
        )
        #expect(
            try problems("jwt", Self.block(claims: ["iss": "{{fingerprnt}}"])) == [
                "claims: iss: nothing is named \"{{fingerprnt}}\"; did you mean \"fingerprint\"?"
            ]
        )
    }

    @Test func everyInputMakesAnotherToken() throws {
        let grants = try [
            Self.block(), Self.block(claims: ["iss": "other"]), Self.block([("key_id", "k1")]),
            Self.block([("algorithm", "RS512")]), Self.block([("lifetime", "2m")]),
            Self.block([("jti", .plain("true"))]), Self.block([("apply", ["header": "X-Token"])]),
        ].map { try jwt($0) }
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    @Test func theGrantConforms() throws {
        try TokenGrantConformance(jwt(Self.block()), success: TokenReply(status: 200)).check()
    }
}
