import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Two tokens from any authorizer", .timeLimit(.minutes(5)))
struct SessionRefreshTests {
    private static let full: FixtureNode = [
        "base_url": "https://auth.example.com/v1",
        "client_name": "portal",
        "login": ["path": "/{client_name}/login"],
        "refresh": [
            "method": "GET", "path": "/{client_name}/renew", "access_token": ["header": "X-Old"],
            "session_token": ["header": "X-Session"],
        ],
        "revoke": ["path": "/{client_name}/logout", "session_token": ["header": "X-Bye"]],
        "response": ["access_token": "/tokens/0/value", "session_token": "/tokens/1/value", "expires_in": "/ttl"],
        "rotate": "both",
        "status": ["success": [200, 201], "terminal": [401, 410], "transient": [409, "5xx"]],
        "access_token": "A",
        "session_token": "S",
    ]
    private let token = TokenSet(access: Secret("A1"), refreshToken: Secret("S1"), obtainedAt: now.wall)

    @Test func everyPartOfTheRequestsIsConfigured() throws {
        let grant = try grant("session_refresh", Self.full)
        #expect(
            try request(of: grant.firstStep(holding: token)).wire
                == "GET https://auth.example.com/v1/portal/renew\nX-Old: A1\nX-Session: S1"
        )
        #expect(
            grant.revocation(of: token)?.wire
                == "POST https://auth.example.com/v1/portal/logout\nX-Old: A1\nX-Bye: S1"
        )
    }

    @Test func everyPartOfTheAnswerIsConfigured() throws {
        let grant = try grant("session_refresh", Self.full)
        let reply = TokenReply(201, #"{"tokens":[{"value":"A2"},{"value":"S2"}],"ttl":"90"}"#)
        #expect(
            try grant.interpret(reply, holding: token, at: now).get()
                == TokenSet(
                    access: Secret("A2"),
                    refreshToken: Secret("S2"),
                    obtainedAt: now.wall,
                    expiresAt: now.wall + .seconds(90)
                )
        )
    }

    @Test(arguments: ["both", "access_only"])
    func theLifeOfASessionTokenIsConfigured(_ rotate: String) throws {
        let extra: [(String, FixtureNode)] = [("rotate", .plain(rotate)), ("session_lifetime", "30d")]
        let grant = try grant("session_refresh", Self.minimal(extra + [("access_token", "A")]))
        let days = Duration.seconds(30 * 86_400)
        let seed = try #require(grant.seed(at: now))
        #expect(seed.refreshTokenExpiresAt == now.wall + days)
        let reply = TokenReply(200, #"{"access_token":"A2","session_token":"S2","expires_in":90}"#)
        let later = Moment(monotonic: now.monotonic + .seconds(60), wall: now.wall + .seconds(60))
        let fresh = try grant.interpret(reply, holding: seed, at: later).get()
        let isNew = rotate == "both"
        #expect(fresh.refreshTokenExpiresAt == (isNew ? later.wall : now.wall) + days)
        #expect(fresh.refreshTokenObtainedAt == (isNew ? nil : now.wall))
    }

    @Test(arguments: [
        (401, TokenFailure.Class.loginRequired, true), (410, .loginRequired, true), (400, .suspect, false),
        (409, .transient(retryAfter: nil), false), (500, .transient(retryAfter: nil), false),
        (429, .transient(retryAfter: nil), false), (404, .terminal, false),
    ])
    func everyStatusIsConfigured(_ status: Int, _ class: TokenFailure.Class, _ clears: Bool) throws {
        let grant = try grant("session_refresh", Self.full)
        let failure = try #require(grant.interpret(TokenReply(status, ""), holding: token, at: now).failure)
        #expect(failure.class == `class`)
        #expect(failure.clearsToken == clears)
    }

    private static func minimal(_ extra: (String, FixtureNode)...) -> FixtureNode { minimal(extra) }

    private static func minimal(_ extra: [(String, FixtureNode)]) -> FixtureNode {
        .mapping(
            [
                ("base_url", "https://auth.example.com/"),
                ("refresh", ["path": "/refresh", "session_token": ["header": "X-Session"]]),
                ("session_token", "S"),
            ] + extra
        )
    }

    @Test func aSessionTokenAloneBuysTheFirstAccessToken() throws {
        let grant = try grant("session_refresh", Self.minimal(("rotate", "access_only")))
        #expect(!grant.rotatesRefreshToken)
        let wire = "POST https://auth.example.com/refresh\nX-Session: S"
        #expect(try request(of: grant.firstStep(holding: nil)).wire == wire)
        #expect(try request(of: grant.firstStep(holding: grant.seed(at: now))).wire == wire)
        let reply = TokenReply(200, #"{"access_token":"A2","session_token":"other","expires_in":60}"#)
        let fresh = try grant.interpret(reply, holding: nil, at: now).get()
        #expect(fresh.refreshToken == Secret("S"))
        #expect(fresh.lifetime == .seconds(60))
        #expect(try request(of: grant.firstStep(holding: fresh)).wire.hasSuffix("X-Session: S"))
        #expect(grant.revocation(of: fresh) == nil)
    }

    @Test(arguments: ["both", "access_only"])
    func aSessionTokenAloneBeginsAsAPairThatIsOver(_ rotate: String) throws {
        let extra: [(String, FixtureNode)] = [("rotate", .plain(rotate)), ("session_lifetime", "30d")]
        let begun = try grant("session_refresh", Self.minimal(extra))
        let seed = try #require(begun.seed(at: now))
        #expect(seed.access.isEmpty)
        #expect(seed.refreshToken == Secret("S"))
        #expect(seed.expiresAt == now.wall)
        #expect(seed.refreshTokenExpiresAt == now.wall + .seconds(30 * 86_400))
        #expect(begun.renewsSeed == (rotate == "both"), "one that is not spent waits for a request")
        #expect(try !grant("session_refresh", Self.minimal(("access_token", "A"))).renewsSeed)
    }

    @Test func aSessionTokenThatIsNotSentAloneIsNoBeginning() throws {
        let refresh: FixtureNode = [
            "path": "/refresh", "access_token": ["header": "X-Old"], "session_token": ["header": "X-Session"],
        ]
        let block: FixtureNode = ["base_url": "https://auth.example.com", "refresh": refresh, "session_token": "S"]
        #expect(try grant("session_refresh", block).seed(at: now) == nil)
    }

    @Test(arguments: [
        #"{"session_token":"S2"}"#, #"{"access_token":"a\nb","session_token":"S2","expires_in":1e999}"#,
    ])
    func theNextSessionTokenIsPutAsideWhateverTheAccessTokenIs(_ body: String) throws {
        var attempt = GrantAttempt.sample(holding: token, at: now)
        attempt.answers = 1
        guard
            case .failure = try grant("session_refresh", Self.minimal()).interpret(TokenReply(200, body), in: &attempt)
        else {
            Issue.record("no failure")
            return
        }
        #expect(attempt.nextRefreshToken == Secret("S2"))
    }

    @Test func anyStatusOf2xxIsASuccess() throws {
        let reply = TokenReply(201, #"{"access_token":"A2","session_token":"S2"}"#)
        let fresh = try grant("session_refresh", Self.minimal()).interpret(reply, holding: token, at: now).get()
        #expect(fresh.access == Secret("A2") && fresh.refreshToken == Secret("S2"))
    }

    @Test(arguments: [
        (201, #"{"session_token":"S2"}"#, String?("S2")), (201, #"{"error":"no","session_token":"S2"}"#, nil),
        (403, #"{"session_token":"S2"}"#, nil),
    ])
    func theNextSessionTokenIsPutAsideWithAStatusThatIsNotListed(
        _ status: Int,
        _ body: String,
        _ next: String?
    ) throws {
        var attempt = GrantAttempt.sample(holding: token, at: now)
        attempt.answers = 1
        let grant = try grant("session_refresh", Self.minimal(("status", ["success": [200]])))
        guard case .failure = grant.interpret(TokenReply(status, body), in: &attempt) else { throw WrongKind() }
        #expect(attempt.nextRefreshToken == next.map { Secret($0) })
    }

    @Test(arguments: [
        (#""a\nb""#, true), (#""a","session_token":"b""#, true), ("7", true), ("null", false), (#""""#, false),
        (#""S2""#, false),
    ])
    func besideAnUnusableSessionTokenALoginIsAhead(_ session: String, _ isSpent: Bool) throws {
        var attempt = GrantAttempt.sample(holding: token, at: now)
        attempt.answers = 1
        let reply = TokenReply(200, #"{"access_token":"A2","expires_in":60,"session_token":\#(session)}"#)
        guard case .token(let fresh) = try grant("session_refresh", Self.minimal()).interpret(reply, in: &attempt)
        else { throw WrongKind() }
        #expect(attempt.isRefreshTokenSpent == isSpent)
        #expect(fresh.refreshTokenExpiresAt == (isSpent ? now.wall + .seconds(60) : nil))
    }

    @Test func nothingIsReadOutOfTwoAnswers() throws {
        let body = #"{"tokens":[{"value":"A"},{"value":"S2"}],"tokens":[{"value":"B"},{"value":"S2"}]}"#
        var attempt = GrantAttempt.sample(holding: token, at: now)
        attempt.answers = 1
        guard case .failure = try grant("session_refresh", Self.full).interpret(TokenReply(200, body), in: &attempt)
        else { throw WrongKind() }
        #expect(attempt.nextRefreshToken == nil)
    }

    private static let expiries: [([(String, FixtureNode)], Duration?)] = [
        ([], .seconds(60)),
        ([("expiry", "response")], .seconds(60)),
        ([("expiry", "fixed"), ("lifetime", "10m")], .seconds(600)),
        ([("expiry", "none")], nil),
        ([("expiry", "jwt_exp")], nil),
        ([("response", ["expires_in": "/missing"])], nil),
        ([("response", ["expires_in": "/missing"]), ("lifetime", "10m")], .seconds(600)),
        ([("lifetime", "10m")], .seconds(60)), ([("expiry", "jwt_exp"), ("lifetime", "10m")], .seconds(600)),
    ]

    @Test(arguments: expiries)
    func theEndComesFromWhereTheConfigurationSays(_ extra: [(String, FixtureNode)], _ lifetime: Duration?) throws {
        let block = FixtureNode.mapping(
            [
                ("base_url", "https://auth.example.com"),
                ("refresh", ["path": "/refresh", "session_token": ["header": "X-Session"]]),
            ] + extra
        )
        let reply = TokenReply(200, #"{"access_token":"A2","session_token":"S2","expires_in":60}"#)
        let fresh = try grant("session_refresh", block).interpret(reply, holding: token, at: now).get()
        #expect(fresh.lifetime == lifetime)
    }

    @Test(arguments: ["0", "1e999"])
    func aStatedEndThatIsOverOrUnreadableDoesNotLoseThePair(_ lifetime: String) throws {
        let reply = TokenReply(200, #"{"access_token":"A2","session_token":"S2","expires_in":\#(lifetime)}"#)
        let fresh = try grant("session_refresh", Self.minimal()).interpret(reply, holding: token, at: now).get()
        #expect(fresh.refreshToken == Secret("S2"))
        #expect(fresh.expiresAt == nil)
    }

    private static let odd: [(String, Duration?, Int)] = [
        (#""2026-03-01 09:40:00Z""#, .seconds(600), 0), ("1772358000", .seconds(600), 0),
        ("1772358000000", .seconds(600), 0),
        (#""2026-03-01T09:40:00""#, nil, 1), ("true", nil, 1), ("null", nil, 0),
    ]

    @Test(arguments: odd)
    func anOddEndIsReadOrRemarkedUpon(_ end: String, _ lifetime: Duration?, _ remarks: Int) throws {
        var attempt = GrantAttempt(holding: token, at: now, nonce: "")
        let reply = TokenReply(200, #"{"access_token":"A2","session_token":"S2","expires_in":\#(end)}"#)
        guard case .token(let fresh) = try grant("session_refresh", Self.minimal()).interpret(reply, in: &attempt)
        else {
            Issue.record("no token")
            return
        }
        #expect(fresh.lifetime == lifetime && attempt.remarks.count == remarks)
    }

    @Test func aWebTokenStatesItsEndWhereTheAnswerDoesNot() throws {
        let token = jwt(#"{"exp":1772358000}"#)
        let reply = TokenReply(200, #"{"access_token":"\#(token)","session_token":"S2"}"#)
        let grant = try grant("session_refresh", Self.minimal())
        #expect(try grant.interpret(reply, holding: self.token, at: now).get().lifetime == .seconds(600))
    }

    @Test func theGrantConforms() throws {
        let success = TokenReply(200, #"{"access_token":"A2","session_token":"S2","expires_in":60}"#)
        try TokenGrantConformance(
            grant("session_refresh", Self.minimal()),
            success: success,
            answersErrorsInOAuth: false
        ).check()
    }

    @Test func everyInputMakesAnotherToken() throws {
        let blocks = [
            Self.minimal(), Self.minimal(("access_token", "A")), Self.minimal(("rotate", "access_only")),
            Self.minimal(("expiry", "none")), Self.minimal(("lifetime", "10m")), Self.minimal(("client_name", "x")),
            Self.minimal(("response", ["access_token": "/a"])), Self.minimal(("response", ["session_token": "/a"])),
            Self.full,
        ]
        try TokenGrantConformance.checkIdentitiesDiffer(blocks.map { try grant("session_refresh", $0) })
    }

    private static let mistakes: [(FixtureNode, [String])] = [
        ([:], ["missing key \"base_url\"", "missing key \"refresh\""]),
        (
            ["base_url": "https://a.example/?x", "refresh": [:]],
            [
                "base_url: must not contain a query", "refresh: missing key \"session_token\": {header: NAME}",
                "refresh: missing key \"path\"",
            ]
        ),
        (
            ["base_url": "https://a.example", "refresh": ["path": "refresh", "session_token": ["header": "Host"]]],
            [
                "refresh.session_token.header: this field belongs to the connection, not to a credential",
                "refresh.path: must begin with \"/\"",
            ]
        ),
        (
            [
                "base_url": "https://a.example",
                "refresh": ["path": "/{client_name}", "session_token": ["cookie": "s"], "method": "PUT"],
            ],
            [
                "refresh.method: expected one of GET, POST; found \"PUT\"",
                "refresh.session_token: missing key \"header\"",
                "refresh.session_token: unknown key \"cookie\"",
                "refresh.path: {client_name} needs the key client_name",
            ]
        ),
        (
            minimal(("revoke", ["path": "/{other}"])),
            ["revoke.path: must be a path without query and fragment; the only variable is {client_name}"]
        ),
        (
            minimal(("status", ["terminal": [400, "4x"], "transient": [400, "9xx"], "sucess": [200]])),
            [
                "status.terminal: expected a status such as 400 or a class such as 5xx",
                "status.transient: a status is in two lists",
                "status.transient: expected a status such as 400 or a class such as 5xx",
                "status: unknown key \"sucess\"; did you mean \"success\"?",
            ]
        ),
        (
            minimal(("expiry", "fixed"), ("response", ["access_token": "access", "session_token": "/a~2"])),
            [
                "response.access_token: expected a JSON pointer such as /data/access_token (RFC 6901)",
                "response.session_token: expected a JSON pointer such as /data/session_token (RFC 6901)",
                "missing key \"lifetime\", which \"expiry: fixed\" needs",
            ]
        ),
        (
            minimal(("expiry", "none"), ("lifetime", "10m")),
            ["lifetime: has no effect with \"expiry: none\", where a token is used until it is rejected"]
        ),
    ]

    @Test(arguments: mistakes)
    func mistakesAreExplained(_ block: FixtureNode, _ expected: [String]) throws {
        let found = try problems("session_refresh", block)
        #expect(found == expected)
    }
}

@Suite("Small readers", .timeLimit(.minutes(5)))
struct SmallReaderTests {
    @Test(arguments: [
        ("/a/b", "1"), ("/a~1b", "2"), ("/m~0n", "3"), ("/list/1", "5"), ("/", "6"), ("/list/2", nil), ("/a/x", nil),
        ("/a/b/c", nil), ("/list/-1", nil), ("a", nil), ("", nil), ("/a~", nil), ("/a~2", nil),
    ])
    func pointersFindMembers(_ pointer: String, _ found: String?) throws {
        let json = #"{"a":{"b":"1"},"a/b":"2","m~n":"3","list":["4","5"],"":"6"}"#
        let document = try #require(JSONValue(Array(json.utf8)))
        #expect(JSONPointer(pointer)?.value(in: document)?.string == found)
    }

    @Test(arguments: ["", "a.b", "a.b.c", "a.!!!!.c", "a.bnVsbA.c", "a.W10.c"])
    func whatIsNoJWTHasNoEnd(_ token: String) {
        #expect(UnverifiedJWT(Secret(token)) == nil)
    }

    @Test(arguments: [
        (#"{"exp":1772357400}"#, Int64?(1_772_357_400_000)), (#"{"exp":1772357400.5}"#, 1_772_357_400_500),
        (#"{"exp":"1772357400"}"#, nil), (#"{"exp":-1}"#, nil), (#"{"exp":1e300}"#, nil), (#"{}"#, nil),
    ])
    func theEndOfAJWTIsANumberOfSeconds(_ payload: String, _ end: Int64?) throws {
        let token = try #require(UnverifiedJWT(Secret(jwt(payload))))
        #expect(token.expiresAt?.milliseconds == end)
    }
}
