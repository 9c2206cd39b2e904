import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Token servers of one's own", .timeLimit(.minutes(5)))
struct DelegatedTests {
    private static let block: FixtureNode = [
        "url": "https://tokens.example.com/token?id={{unique_id}}&tier={{info.tier}}", "unique_id": "a b&c",
        "info": ["tier": "gold"], "request_auth": ["bearer": "key"],
    ]

    private func token(_ reply: TokenReply, _ block: FixtureNode = block) throws -> Result<TokenSet, TokenFailure> {
        try grant("delegated", block).interpret(reply, holding: nil, at: now)
    }

    @Test func theServerIsAskedForOneUser() throws {
        #expect(
            try request(of: grant("delegated", Self.block).firstStep(holding: nil)).wire == """
                GET https://tokens.example.com/token?id=a%20b%26c&tier=gold
                Authorization: Bearer key
                """
        )
        #expect(try grant("delegated", Self.block).identity.subject == "a b&c")
    }

    @Test func theRequestCanBeOfAnyShape() throws {
        let block: FixtureNode = [
            "url": "https://tokens.example.com/v1/{{info.region}}/tokens", "unique_id": "4\"2",
            "info": ["region": "eu/west"], "headers": ["X-User": "id={{unique_id}}"],
            "body": [
                "json": ["user": ["id": "{{unique_id}}", "age": .plain("42"), "zip": .plain("007")], "all": [true]]
            ],
            "request_auth": ["basic": ["username": "gateway", "password": "secret"]],
        ]
        let request = try request(of: grant("delegated", block).firstStep(holding: nil))
        #expect(
            request.wire == """
                POST https://tokens.example.com/v1/eu%2Fwest/tokens
                X-User: id=4"2
                Authorization: Basic Z2F0ZXdheTpzZWNyZXQ=
                """
        )
        let json = #"{"user":{"id":"4\"2","age":42,"zip":"007"},"all":[true]}"#
        #expect(request.body == .content(type: "application/json", Secret(json)))
    }

    @Test func aTextIsTheToken() throws {
        let block: FixtureNode = ["url": "https://tokens.example.com/token", "response": "text"]
        let token = try token(TokenReply(200, "abc.def\n"), block).get()
        #expect(token.access == Secret("abc.def"))
        #expect(token.lifetime == .seconds(2700))
    }

    @Test func theEndIsRelativeOrAbsolute() throws {
        #expect(try token(TokenReply(200, #"{"access_token":"a","expires_in":60}"#)).get().lifetime == .seconds(60))
        let absolute = #"{"access_token":"a","expires_in":60,"expires_at":"2026-03-01T10:30:00+01:00"}"#
        #expect(try token(TokenReply(200, absolute)).get().lifetime == .seconds(0))
        let block: FixtureNode = [
            "url": "https://tokens.example.com/token", "default_ttl": "10m",
            "response": ["token": "/data/token", "expires_at": "/data/until"],
        ]
        let nested = TokenReply(200, #"{"data":{"token":"a","until":1772357460000}}"#)
        #expect(try token(nested, block).get().lifetime == .seconds(60))
        #expect(try token(TokenReply(200, #"{"data":{"token":"a"}}"#), block).get().lifetime == .seconds(600))
    }

    @Test(arguments: [
        (#""2026-03-01T09:40:00.000+0000""#, Duration.seconds(600)), (#""2026-03-01 09:40:00Z""#, .seconds(600)),
        (#""2026-03-01T09:40:00""#, .seconds(2700)), (#""whenever""#, .seconds(2700)),
    ])
    func anOddEndLosesNoToken(_ end: String, _ lifetime: Duration) throws {
        #expect(try token(TokenReply(200, #"{"access_token":"a","expires_at":\#(end)}"#)).get().lifetime == lifetime)
        #expect(try token(TokenReply(200, #"{"access_token":"a","expires_in":\#(end)}"#)).get().lifetime == lifetime)
    }

    @Test(arguments: ["0", "-5"])
    func aLifetimeThatIsOverLosesNoToken(_ seconds: String) throws {
        let reply = TokenReply(200, #"{"access_token":"a","expires_in":\#(seconds)}"#)
        #expect(try token(reply).get().lifetime == .seconds(2700))
    }

    @Test func aWebTokenStatesItsEnd() throws {
        let reply = TokenReply(200, #"{"access_token":"\#(jwt(#"{"exp":1772358000}"#))"}"#)
        #expect(try token(reply).get().lifetime == .seconds(600))
        let absolute = TokenReply(200, #"{"access_token":"a","expires_in":1772358000}"#)
        #expect(try token(absolute).get().lifetime == .seconds(600))
    }

    @Test func anInitialTokenIsUsedFirst() throws {
        let end = now.wall + .seconds(600)
        let access = jwt(#"{"exp":\#(end.milliseconds / 1000)}"#)
        let url: FixtureNode = "https://tokens.example.com/token"
        #expect(try grant("delegated", ["url": url, "initial_token": "abc"]).seed(at: now)?.expiresAt == nil)
        #expect(try grant("delegated", ["url": url, "initial_token": "\(access)"]).seed(at: now)?.expiresAt == end)
        #expect(try grant("delegated", ["url": url]).seed(at: now) == nil)
    }

    @Test func theEndOfTheInitialTokenCanBeGiven() throws {
        let end = now.wall + .seconds(600)
        let block: FixtureNode = [
            "url": "https://tokens.example.com/token", "initial_token": "abc",
            "initial_token_expires": "\(end.rfc3339)",
        ]
        #expect(try grant("delegated", block).seed(at: now)?.expiresAt == end)
        let earlier = jwt(#"{"exp":\#((end + .seconds(-60)).milliseconds / 1000)}"#)
        let signed: FixtureNode = [
            "url": "https://tokens.example.com/token", "initial_token": "\(earlier)",
            "initial_token_expires": "\(end.rfc3339)",
        ]
        #expect(try grant("delegated", signed).seed(at: now)?.expiresAt == end + .seconds(-60))
    }

    @Test(arguments: [401, 403, 404, 302, 409])
    func aRefusalIsFinalAndSaysWhereToLook(_ status: Int) throws {
        let failure = try #require(token(TokenReply(status, "canary")).failure)
        #expect(failure.class == .terminal)
        #expect(failure.problem.detail.contains("tokens.example.com refused to issue a token (status \(status)): "))
        #expect(!failure.problem.detail.contains("canary"))
    }

    @Test func itKeepsThePromisesOfAGrant() throws {
        let grants = try [
            Self.block,
            [
                "url": "https://tokens.example.com/token?id={{unique_id}}&tier={{info.tier}}", "unique_id": "42",
                "info": ["tier": "gold"], "request_auth": ["bearer": "key"],
            ],
            [
                "url": "https://tokens.example.com/token?id={{unique_id}}&tier={{info.tier}}", "unique_id": "42",
                "info": ["tier": "silver"], "request_auth": ["bearer": "key"],
            ],
            [
                "url": "https://tokens.example.com/token?id={{unique_id}}&tier={{info.tier}}", "unique_id": "42",
                "info": ["tier": "silver"], "request_auth": ["bearer": "other"],
            ],
        ].map { try grant("delegated", $0) }
        try TokenGrantConformance(
            grants[0],
            success: TokenReply(200, #"{"access_token":"new","expires_in":60}"#),
            answersErrorsInOAuth: false
        ).check()
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    @Test func aTextAnswerKeepsThemToo() throws {
        let grant = try grant("delegated", ["url": "https://tokens.example.com/token", "response": "text"])
        for page in ["", "<html>hello</html>", "two words", "a\nb", String(repeating: "x", count: 17 << 10)] {
            let failure = try #require(grant.interpret(TokenReply(200, page), holding: nil, at: now).failure)
            #expect(failure.class == .transient(retryAfter: nil))
        }
    }

    @Test func aTemplateNeedsWhatItNames() throws {
        let found = try problems("delegated", ["url": "https://tokens.example.com/token?id={{unique_id}}"])
        #expect(found.count == 1)
        #expect(found.first?.contains("unique_id") == true)
    }
}
