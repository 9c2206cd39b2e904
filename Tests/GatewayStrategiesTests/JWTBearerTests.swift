import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("JWT bearer grant", .timeLimit(.minutes(5)))
struct JWTBearerTests {
    private static let seconds = Double(now.wall.milliseconds / 1000)

    private static func block(_ more: [(String, FixtureNode)] = [], claims: FixtureNode = ["iss": "robot"])
        -> FixtureNode
    {
        .mapping(
            [
                ("token_url", "https://id.example.com/token"), ("key", "\(SampleKeys.rsa)"), ("claims", claims),
            ] + more
        )
    }

    private func jwtBearer(_ block: FixtureNode) throws -> any TokenGrant { try grant("oauth2_jwt_bearer", block) }

    @Test func theAssertionHoldsTheClaims() throws {
        let claims: FixtureNode = [
            "iss": "robot", "sub": "ada@example.com", "aud": ["https://a.example", "https://b.example"],
            "level": .plain("7"), "number": "7", "admin": .plain("false"),
        ]
        let block = Self.block(
            [
                ("key_id", "k1"), ("lifetime", "5m"), ("scopes", ["read", "write"]),
                ("parameters", ["audience": "https://api.example/"]),
            ],
            claims: claims
        )
        let request = try request(of: jwtBearer(block).firstStep(holding: nil, at: now))
        let text = try request.parameter("assertion")
        let assertion = try SignedToken(text)
        #expect(assertion.header == .object(["alg": .string("RS256"), "kid": .string("k1"), "typ": .string("JWT")]))
        #expect(
            assertion.claims
                == .object([
                    "iss": .string("robot"), "sub": .string("ada@example.com"),
                    "aud": .array([.string("https://a.example"), .string("https://b.example")]),
                    "level": .number(7), "number": .string("7"), "admin": .bool(false),
                    "iat": .number(.init(Self.seconds)), "exp": .number(.init(Self.seconds + 300)),
                    "jti": .string("\(String.sampleNonce)-0"),
                ])
        )
        #expect(try assertion.isGenuine())
        #expect(
            request.wire == """
                POST https://id.example.com/token

                grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(text)&scope=read+write\
                &audience=https%3A%2F%2Fapi.example%2F
                """
        )
    }

    private static let clients: [([(String, FixtureNode)], String)] = [
        ([], ""), ([("client_id", "app"), ("client_secret", "s")], "&client_id=app&client_secret=s"),
    ]

    @Test(arguments: clients)
    func aTokenIsRevokedByWhoeverAskedForIt(_ client: [(String, FixtureNode)], _ proof: String) throws {
        let token = TokenSet(access: Secret("T"), obtainedAt: now.wall)
        let block = Self.block(client + [("revoke_url", "https://id.example.com/revoke")])
        #expect(
            try jwtBearer(block).revocation(of: token)?.wire
                == "POST https://id.example.com/revoke\n\ntoken=T&token_type_hint=access_token\(proof)"
        )
        #expect(try jwtBearer(Self.block()).revocation(of: token) == nil)
    }

    @Test func theAudienceIsTheTokenURLUnlessItIsGiven() throws {
        let request = try request(of: jwtBearer(Self.block()).firstStep(holding: nil, at: now))
        let assertion = try SignedToken(request.parameter("assertion"))
        #expect(assertion.claims["aud"] == .string("https://id.example.com/token"))
        #expect(assertion.claims["exp"] == .number(.init(Self.seconds + 60)))
        #expect(assertion.claims["sub"] == nil)
    }

    @Test(arguments: [("ES256", SampleKeys.p256), ("ES512", SampleKeys.p521), ("PS256", SampleKeys.rsa)])
    func otherAlgorithmsAreGenuineToo(_ algorithm: String, _ key: String) throws {
        let block: FixtureNode = [
            "token_url": "https://id.example.com/token", "key": "\(key)", "algorithm": "\(algorithm)",
            "claims": ["iss": "robot"],
        ]
        let request = try request(of: jwtBearer(block).firstStep(holding: nil, at: now))
        #expect(try SignedToken(request.parameter("assertion")).isGenuine())
    }

    @Test(
        arguments: [
            ([("client_id", "app"), ("client_secret", "s")], "&client_id=app&client_secret=s"),
            ([("client_id", "app")], "&client_id=app"),
        ] as [([(String, FixtureNode)], String)]
    )
    func theClientMayHaveToProveItselfToo(_ more: [(String, FixtureNode)], _ tail: String) throws {
        let request = try request(of: jwtBearer(Self.block(more)).firstStep(holding: nil, at: now))
        #expect(request.wire.hasSuffix(tail))
    }

    @Test func theClocksOfTheAuthorityCounts() throws {
        var attempt = GrantAttempt(holding: nil, at: now, nonce: .sampleNonce)
        attempt.answers = 1
        let body = #"{"error":"invalid_grant","error_description":"iat is in the future"}"#
        let reply = TokenReply(400, body, ["Date": "Sun, 01 Mar 2026 09:00:00 GMT"])
        guard case .next(let request) = try jwtBearer(Self.block()).interpret(reply, in: &attempt) else {
            throw WrongKind()
        }
        let assertion = try SignedToken(request.parameter("assertion"))
        #expect(assertion.claims["iat"] == .number(1_772_355_600))
        #expect(assertion.claims["jti"] == .string("\(String.sampleNonce)-1"))
    }

    @Test func mistakesAreExplained() throws {
        #expect(
            try problems(
                "oauth2_jwt_bearer",
                [
                    "claims": ["sub": "x", "exp": "1", "nested": ["a": "b"]], "lifetime": "2h",
                    "client_auth": "private_key_jwt", "client_id": "app",
                    "parameters": ["assertion": "x"], "private_key": "x",
                ]
            ) == [
                "missing key \"key\"",
                "missing key \"token_url\"",
                "client_auth: the assertion is signed already; use body, basic, tls or none",
                "parameters: \"assertion\" is set by the strategy; use its own key",
                "lifetime: must be between 1s and 1h",
                "claims: missing key \"iss\"",
                "claims.exp: is set by the strategy",
                "claims.nested: expected a string, a number, true, false or a list of strings",
                "unknown key \"private_key\"",
            ]
        )
        #expect(
            try problems(
                "oauth2_jwt_bearer",
                ["token_url": "https://id.example.com/token", "key": "\(SampleKeys.rsa)"]
            ) == ["missing key \"claims\""]
        )
    }

    @Test func everyInputMakesAnotherToken() throws {
        let grants = try [
            Self.block(), Self.block(claims: ["iss": "other"]), Self.block(claims: ["iss": "robot", "sub": "x"]),
            Self.block([("key_id", "k1")]), Self.block([("algorithm", "RS512")]), Self.block([("lifetime", "2m")]),
            Self.block([("scopes", ["read"])]), Self.block([("parameters", ["a": "b"])]),
            Self.block([("client_id", "app")]), Self.block([("client_id", "app"), ("client_secret", "s")]),
        ].map { try jwtBearer($0) }
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    @Test func theGrantConforms() throws {
        let success = TokenReply(200, #"{"access_token":"new","token_type":"bearer","expires_in":3600}"#)
        try TokenGrantConformance(jwtBearer(Self.block()), success: success).check()
    }
}
