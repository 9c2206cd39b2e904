import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Showing a token server who asks", .timeLimit(.minutes(5)))
struct DelegatedRequestAuthTests {
    private static let files = ["gateway.pem": "our certificate", "corp-ca.pem": "their authority"]

    private static func block(
        _ authorization: FixtureNode,
        id: FixtureNode = "42",
        url: FixtureNode = "https://tokens.example.com:8443/token?id={{unique_id}}"
    ) -> FixtureNode { ["url": url, "unique_id": id, "request_auth": authorization] }

    private static func jwt(_ claims: FixtureNode, _ more: [(String, FixtureNode)] = []) -> FixtureNode {
        ["jwt": .mapping([("key", "\(SampleKeys.rsa)"), ("claims", claims)] + more)]
    }

    private func bearer(_ request: TokenRequest) throws -> SignedToken {
        let field = try #require(request.fields.first { $0.name == "Authorization" }).value.text
        #expect(field.hasPrefix("Bearer "))
        return try SignedToken(String(field.dropFirst(7)))
    }

    @Test func everyRequestCarriesASignedStatementOfItsOwn() throws {
        let seconds = Double(now.wall.milliseconds / 1000)
        let claims: FixtureNode = ["iss": "gateway", "sub": "user-{{unique_id}}"]
        let grant = try grant("delegated", Self.block(Self.jwt(claims, [("key_id", "k1"), ("lifetime", "2m")])))
        let token = try bearer(request(of: grant.firstStep(holding: nil, at: now)))
        #expect(token.header == .object(["alg": .string("RS256"), "kid": .string("k1"), "typ": .string("JWT")]))
        #expect(
            token.claims
                == .object([
                    "iss": .string("gateway"), "sub": .string("user-42"),
                    "aud": .string("https://tokens.example.com:8443"), "iat": .number(.init(seconds)),
                    "exp": .number(.init(seconds + 120)), "jti": .string("\(String.sampleNonce)-0"),
                ])
        )
        #expect(try token.isGenuine())
    }

    private static func shared(_ algorithm: String, _ secret: String, _ more: [(String, FixtureNode)] = [])
        -> FixtureNode
    {
        let block: [(String, FixtureNode)] = [
            ("secret", "\(secret)"), ("algorithm", "\(algorithm)"), ("claims", ["iss": "gateway"]),
        ]
        return ["jwt": .mapping(block + more)]
    }

    @Test(arguments: [("HS256", 32), ("HS384", 48), ("HS512", 64)])
    func aSharedSecretSigns(_ algorithm: String, _ least: Int) throws {
        let whole = try grant("delegated", Self.block(Self.shared(algorithm, SignedToken.shared)))
        let token = try bearer(request(of: whole.firstStep(holding: nil, at: now)))
        #expect(token.header == .object(["alg": .string(algorithm), "typ": .string("JWT")]))
        #expect(try token.isGenuine())
        let enough = String(SignedToken.shared.prefix(least))
        let shortest = try grant("delegated", Self.block(Self.shared(algorithm, enough)))
        #expect(try bearer(request(of: shortest.firstStep(holding: nil, at: now))).isGenuine() == (least == 64))
        #expect(
            try problems("delegated", Self.block(Self.shared(algorithm, String(enough.dropLast()))))
                == [
                    "request_auth.jwt.secret: \(algorithm) needs a secret of at least \(least) bytes; make one with "
                        + "`openssl rand -hex \(least / 2)`"
                ]
        )
        let other = String(SignedToken.shared.reversed())
        let another = try grant("delegated", Self.block(Self.shared(algorithm, other)))
        try TokenGrantConformance.checkIdentitiesDiffer([whole, another])
    }

    @Test func theStatementSpeaksOfTheSubjectOfTheRequest() throws {
        let block = Self.block(
            Self.jwt(["iss": "gateway", "sub": "{{unique_id}}", "aud": "tokens"]),
            id: ["header": "X-Box-User", "allow": ["7"]],
            url: "https://tokens.example.com/token"
        )
        guard case .tokens(let grants) = try decode("delegated", block).behavior else { throw WrongKind() }
        let token = try bearer(request(of: grants.grant(for: "7").firstStep(holding: nil, at: now)))
        #expect((token.claims["sub"], token.claims["aud"]) == (.string("7"), .string("tokens")))
    }

    @Test func aCertificateIsShownAloneAndBesideAnything() throws {
        let tls: FixtureNode = ["certificate": "gateway.pem", "private_key": "\(SampleKeys.p256)", "ca": "corp-ca.pem"]
        let alone = try grant("delegated", Self.block(["tls": tls]), Self.files)
        let sent = try request(of: alone.firstStep(holding: nil))
        let shown = try #require(sent.tls)
        #expect((shown.certificates, shown.authorities) == ("our certificate", "their authority"))
        #expect(shown.privateKey == SampleKeys.open(Secret(SampleKeys.p256), passphrase: nil))
        #expect(sent.fields.isEmpty)
        let both = try grant("delegated", Self.block(["tls": tls, "bearer": "key"]), Self.files)
        let other = try request(of: both.firstStep(holding: nil))
        #expect(other.tls == shown)
        #expect(other.fields.map(\.value) == [Secret("Bearer key")])
        // Another certificate is another token: whoever proved less must not be given it.
        let renewed = try grant("delegated", Self.block(["tls": tls]), Self.files.merging(["gateway.pem": "a"]) { $1 })
        try TokenGrantConformance.checkIdentitiesDiffer([alone, both, renewed])
    }

    @Test func anEncryptedKeyIsOpened() throws {
        let tls: FixtureNode = [
            "certificate": "gateway.pem", "private_key": "\(SampleKeys.encrypted)", "passphrase": "sesame",
        ]
        let grant = try grant("delegated", Self.block(["tls": tls]), Self.files)
        let key = try #require(request(of: grant.firstStep(holding: nil)).tls).privateKey
        #expect(key == SampleKeys.open(Secret(SampleKeys.rsa), passphrase: nil))
    }

    private static let mistakes: [(FixtureNode, String)] = [
        (
            ["bearer": "a", "basic": ["username": "a", "password": "b"]],
            "request_auth: the request is authenticated by one of bearer, basic, header and jwt, by tls, or by both"
        ),
        (
            .mapping([]),
            "request_auth: the request is authenticated by one of bearer, basic, header and jwt, by tls, or by both"
        ),
        (jwt(["sub": "a"]), "request_auth.jwt.claims: missing key \"iss\""),
        (jwt(["iss": "a", "exp": .plain("1")]), "request_auth.jwt.claims.exp: is set by the strategy"),
        (
            jwt(["iss": "{{nobody}}"]),
            "request_auth.jwt.claims: iss: nothing is named \"{{nobody}}\"; known here: unique_id"
        ),
        (jwt(["iss": "a"], [("algorithm", "ES256")]), "request_auth.jwt.key: ES256 needs a key of the curve P-256"),
        (
            shared("RS256", SignedToken.shared),
            "request_auth.jwt.secret: is for the algorithms HS256, HS384 and HS512"
        ),
        (
            shared("HS256", SignedToken.shared, [("key", "\(SampleKeys.rsa)")]),
            "request_auth.jwt.key: is for a private key; this algorithm signs with \"secret\""
        ),
        (
            ["jwt": ["algorithm": "HS256", "claims": ["iss": "a"]]],
            "request_auth.jwt: signing needs \"key\", a private key, or \"secret\" for HS256, HS384 and HS512"
        ),
        (["tls": ["private_key": "\(SampleKeys.p256)"]], "request_auth.tls: missing key \"certificate\""),
        (["tls": ["certificate": "gateway.pem"]], "request_auth.tls: missing key \"private_key\""),
        (
            ["tls": ["certificate": "lost.pem", "private_key": "\(SampleKeys.p256)"]],
            "request_auth.tls.certificate: lost.pem: no such file"
        ),
        (
            ["tls": ["certificate": "gateway.pem", "private_key": "\(SampleKeys.encrypted)"]],
            "request_auth.tls.private_key: the private key is encrypted and needs its passphrase"
        ),
    ]

    @Test(arguments: mistakes.indices)
    func mistakesAreExplained(_ index: Int) throws {
        let (authorization, problem) = Self.mistakes[index]
        #expect(try problems("delegated", Self.block(authorization), Self.files) == [problem])
    }

    @Test func aCertificateIsOfNoUseInPlaintext() throws {
        let tls: FixtureNode = ["certificate": "gateway.pem", "private_key": "\(SampleKeys.p256)"]
        let block = Self.block(["tls": tls], url: "http://127.0.0.1:1/token?id={{unique_id}}")
        #expect(
            try problems("delegated", block, Self.files)
                == ["request_auth.tls: has no effect: the token server is http"]
        )
    }
}
