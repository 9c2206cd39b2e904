import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Recipes", .timeLimit(.minutes(5)))
struct RecipeTests {
    /// Plays an attempt through: what is asked, and what it ends in.
    static func play(
        _ grant: any TokenGrant,
        holding token: TokenSet? = nil,
        _ replies: TokenReply...
    ) throws -> (requests: [String], end: Result<TokenSet, TokenFailure>) {
        var attempt = GrantAttempt(holding: token, at: now, nonce: "")
        guard case .request(var next) = grant.firstStep(of: attempt) else { throw WrongKind() }
        var requests: [String] = []
        for reply in replies {
            requests.append(next.whole)
            attempt.answers += 1
            switch grant.interpret(reply, in: &attempt) {
            case .next(let request): next = request
            case .token(let token): return (requests, .success(token))
            case .failure(let failure), .parentRefused(let failure): return (requests, .failure(failure))
            }
        }
        Issue.record("goes on with \(next.whole)")
        throw WrongKind()
    }

    private static let login: FixtureNode = [
        "secrets": ["user": "ada", "password": "p&w"],
        "acquire": [
            [
                "url": "https://app.example.com/login",
                "outputs": ["csrf": ["regex": "value=\"([^\"]+)\""], "visit": ["cookie": "visit"]],
            ],
            [
                "url": "https://app.example.com/login?visit={{visit}}", "headers": ["Cookie": "visit={{visit}}"],
                "body": ["form": ["user": "{{user}}", "password": "{{password}}", "csrf": "{{csrf}}"]],
                "status": ["success": [302], "terminal": [401]],
                "outputs": ["token": ["cookie": "sid"], "device": ["header": "X-Device", "regex": "id=(\\d+)"]],
            ],
        ],
        "keep": ["device"], "expiry": "fixed", "lifetime": "30m",
        "apply": [["cookie": "sid"], ["header": "X-Device", "value": "d-{{device}}"]],
    ]

    @Test func stepsBuildOnEachOther() throws {
        let grant = try grant("recipe", Self.login)
        let (requests, end) = try Self.play(
            grant,
            TokenReply(200, "<input name=\"csrf\" value=\"t0k\">", ["set-cookie": "visit=v/1; Path=/; HttpOnly"]),
            TokenReply(302, "", ["Set-Cookie": "sid=\"s3ss\"; Secure", "X-Device": "os=x id=77", "Location": "/home"])
        )
        #expect(
            requests == [
                "GET https://app.example.com/login",
                """
                POST https://app.example.com/login?visit=v%2F1
                Cookie: visit=v/1

                user=ada&password=p%26w&csrf=t0k
                """,
            ]
        )
        let token = try end.get()
        #expect(token.access == Secret("\"s3ss\""))
        #expect(token.extras == ["device": Secret("77")])
        #expect(token.lifetime == .seconds(1800))
        #expect(grant.injection(of: token).wire == ["X-Device: d-77", "Cookie: sid=\"s3ss\""])
        #expect(grant.revocation(of: token) == nil)
        #expect(!grant.rotatesRefreshToken)
    }

    @Test func whatIsMissingIsTriedAgain() throws {
        let page = TokenReply(200, "<input value=\"t\">", ["Set-Cookie": "visit=v"])
        for (reply, place) in [
            (TokenReply(302, "", ["X-Device": "id=1"]), "the cookie sid is missing"),
            (TokenReply(302, "", ["Set-Cookie": "sid=s"]), "the header field X-Device is missing"),
            (TokenReply(302, "", ["Set-Cookie": "sid=a; Max-Age=0", "X-Device": "id=1"]), "the cookie sid is missing"),
        ] {
            let failure = try #require(Self.play(grant("recipe", Self.login), page, reply).end.failure)
            #expect(failure.class == .transient(retryAfter: nil))
            #expect(failure.problem.detail.contains(place))
        }
    }

    @Test func aRefusalNamesTheStep() throws {
        let page = TokenReply(200, "<input value=\"t\">", ["Set-Cookie": "visit=v"])
        let failure = try #require(Self.play(grant("recipe", Self.login), page, TokenReply(401, "canary")).end.failure)
        #expect(failure.class == .terminal)
        #expect(
            failure.problem.detail
                == "app.example.com refused step 2 of \"acquire\" (status 401): check the recipe and its secrets."
        )
    }

    @Test("a form answers a wrong password with a redirect", arguments: [302, 303, 401, 403])
    func aPasswordThatMayBeWrongIsNotSentAgainByItself(_ status: Int) throws {
        let form: FixtureNode = [
            "secrets": ["password": "p&w"],
            "acquire": [
                [
                    "url": "https://app.example.com/login", "body": ["form": ["password": "{{password}}"]],
                    "outputs": ["token": ["cookie": "sid"]],
                ]
            ],
            "expiry": "none",
        ]
        let reply = TokenReply(status, "", ["Location": "/login?error"])
        let failure = try #require(Self.play(grant("recipe", form), reply).end.failure)
        #expect(failure.isRefusedPassword)
    }

    @Test func aBusyAuthorityIsWaitedFor() throws {
        let reply = TokenReply(503, "", ["Retry-After": "7"])
        let failure = try #require(Self.play(grant("recipe", Self.login), reply).end.failure)
        #expect(failure.class == .transient(retryAfter: .seconds(7)))
    }

    private static let sliding: FixtureNode = [
        "secrets": ["key": "k"],
        "acquire": [
            [
                "url": "https://app.example.com/session", "body": ["json": ["key": "{{key}}"]],
                "outputs": ["token": "/t", "renewal": "/r", "expires_in": "/ttl"],
            ]
        ],
        "refresh": [
            [
                "url": "https://app.example.com/refresh", "method": "PUT", "body": ["text": "{{renewal}}"],
                "outputs": [
                    "token": "/t", "renewal": ["json": "/r", "optional": true],
                    "expires_at": ["json": "/end", "optional": true],
                ],
            ]
        ],
        "revoke": [["url": "https://app.example.com/session/{{token}}", "method": "DELETE"]],
    ]
    private let held = TokenSet(access: Secret("t/1"), refreshToken: Secret("r1"), obtainedAt: now.wall)

    @Test func aTokenAtHandIsRefreshed() throws {
        let grant = try grant("recipe", Self.sliding)
        #expect(grant.rotatesRefreshToken)
        let reply = TokenReply(200, #"{"t":"t2","end":"2026-03-01T09:40:00Z"}"#)
        let (requests, end) = try Self.play(grant, holding: held, reply)
        #expect(requests == ["PUT https://app.example.com/refresh\ntext/plain; charset=utf-8\nr1"])
        let token = try end.get()
        #expect(token.refreshToken == Secret("r1"))
        #expect(token.lifetime == .seconds(600))
    }

    @Test func withoutARefreshTokenItBeginsAnew() throws {
        let bare = TokenSet(access: Secret("t1"), obtainedAt: now.wall)
        let reply = TokenReply(200, #"{"t":"t2","r":"r2","ttl":60}"#)
        let (requests, end) = try Self.play(grant("recipe", Self.sliding), holding: bare, reply)
        #expect(requests == ["POST https://app.example.com/session\napplication/json\n{\"key\":\"k\"}"])
        #expect(try end.get().lifetime == .seconds(60))
    }

    @Test func aRefusedRefreshGoesOverIntoALogin() throws {
        let login = TokenReply(200, #"{"t":"t2","r":"r2","ttl":60}"#)
        let (requests, end) = try Self.play(
            grant("recipe", Self.sliding),
            holding: held,
            TokenReply(400, #"{"error":"invalid_grant"}"#),
            login
        )
        #expect(requests.count == 2)
        #expect(try end.get().refreshToken == Secret("r2"))
        let failed = try Self.play(
            grant("recipe", Self.sliding),
            holding: held,
            TokenReply(400, #"{"error":"token_expired"}"#),
            TokenReply(401, "")
        )
        #expect(failed.end.failure?.problem.detail.contains("step 1 of \"acquire\" (status 401)") == true)
        let busy = try Self.play(grant("recipe", Self.sliding), holding: held, TokenReply(500, ""))
        #expect(busy.end.failure?.class == .transient(retryAfter: nil))
    }

    @Test(arguments: ["\"whenever\"", "1e999", "-1", "\"soon\""])
    func aPairIsNotLostForItsEnd(_ end: String) throws {
        let reply = TokenReply(200, #"{"t":"t2","r":"r2","end":\#(end)}"#)
        let token = try Self.play(grant("recipe", Self.sliding), holding: held, reply).end.get()
        #expect(token.refreshToken == Secret("r2"))
        #expect(token.expiresAt == nil)
    }

    private static func session(_ outputs: FixtureNode, _ more: [(String, FixtureNode)] = []) -> FixtureNode {
        .mapping([("acquire", [["url": "https://app.example.com/in/session", "outputs": outputs]])] + more)
    }

    private static let ends: [(String, Duration?)] = [
        (#""2026-03-01T09:40:00.000+0000""#, .seconds(600)), (#""2026-03-01 09:40:00Z""#, .seconds(600)),
        ("1772358000", .seconds(600)), ("1772358000000", .seconds(600)),
        // Local time, perhaps; the empty time of Go; words.
        (#""2026-03-01T09:40:00""#, nil), (#""0001-01-01T00:00:00Z""#, nil), (#""whenever""#, nil), ("0", nil),
        ("1e999", nil), (#""2026-03-01 09:40:00Z","end":1"#, nil),
    ]

    @Test(arguments: ends)
    func anOddEndLosesNoToken(_ written: String, _ expected: Duration?) throws {
        let reply = TokenReply(200, #"{"t":"t2","end":\#(written)}"#)
        let outputs: FixtureNode = ["token": "/t", "expires_at": "/end"]
        let bare = try grant("recipe", Self.session(outputs))
        #expect(try Self.play(bare, reply).end.get().lifetime == expected)
        let usual = try grant("recipe", Self.session(outputs, [("lifetime", "30m")]))
        #expect(try Self.play(usual, reply).end.get().lifetime == expected ?? .seconds(1800))
        var attempt = GrantAttempt(holding: nil, at: now, nonce: "")
        attempt.answers = 1
        _ = bare.interpret(reply, in: &attempt)
        #expect(attempt.remarks.count == (expected == nil ? 1 : 0))
    }

    @Test(arguments: [("1772358000", Duration.seconds(600)), ("1772358000000", .seconds(600)), ("600", .seconds(600))])
    func aLifetimeMayBeTheTimeOfTheEnd(_ written: String, _ expected: Duration) throws {
        let grant = try grant("recipe", Self.session(["token": "/t", "expires_in": "/ttl"]))
        #expect(try Self.play(grant, TokenReply(200, #"{"t":"a","ttl":\#(written)}"#)).end.get().lifetime == expected)
    }

    @Test func aTokenThatStatesItsEndItselfNeedsNoOther() throws {
        let token = jwt(#"{"exp":1772358000}"#)
        let cases: [([(String, FixtureNode)], Duration?)] = [([], .seconds(600)), ([("expiry", "none")], nil)]
        for (keys, expected) in cases {
            let grant = try grant("recipe", Self.session(["token": "/t"], keys))
            #expect(try Self.play(grant, TokenReply(200, #"{"t":"\#(token)"}"#)).end.get().lifetime == expected)
            let imported = grant.completing(TokenSet(access: Secret(token), obtainedAt: now.wall))
            #expect(imported.lifetime == expected)
        }
    }

    @Test(arguments: ["17841400008460057", "1.50", "-0.0", "12345678901234567890123", "1e5"])
    func aNumberKeepsItsTextToTheNextRequest(_ number: String) throws {
        let block: FixtureNode = [
            "acquire": [
                ["url": "https://app.example.com/me", "outputs": ["account": "/id"]],
                [
                    "url": "https://app.example.com/{{account}}/token", "body": ["json": ["id": "{{account}}"]],
                    "outputs": ["token": "/t"],
                ],
            ]
        ]
        let (requests, end) = try Self.play(
            grant("recipe", block),
            TokenReply(200, #"{"id":\#(number)}"#),
            TokenReply(200, #"{"t":\#(number)}"#)
        )
        #expect(requests[1].hasPrefix("POST https://app.example.com/\(number)/token\n"))
        #expect(requests[1].hasSuffix(#"{"id":"\#(number)"}"#))
        #expect(try end.get().access == Secret(number))
    }

    // MARK: Cookies

    private static let cookies: [([String], String?)] = [
        (["sid=a"], "a"), (["sid=a", "sid=b; Secure"], "b"), (["sid = \t a b \t ; Path=/"], "a b"),
        (["sid=\"a,b\\\"; HttpOnly"], "\"a,b\\\""), (["sid=a=b==; Path=/"], "a=b=="), (["sid"], nil), (["=a"], nil),
        (["sid="], nil), (["SID=a"], nil),
        // What ends a session.
        (["sid=deleted; Max-Age=0"], nil), (["sid=a", "sid=deleted; max-age=-1"], nil),
        (["sid=a; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], nil), (["sid=a; expires=Thu, 01-Jan-70 00:00:01 GMT"], nil),
        (["sid=a; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60"], "a"),
        (["sid=a; Max-Age=99999999999999999999"], "a"),
        (["sid=a; Expires=Fri, 27 Nov 2026 10:00:00 GMT; Max-Age=0"], nil),
        (["sid=a; Max-Age=soon; Expires=never"], "a"),
        (["sid=a; Max-Age=0; Max-Age=60"], "a"),
        // One of another path or domain is another cookie.
        (["sid=a; Path=/", "sid=deleted; Max-Age=0; Path=/in"], "a"), (["sid=a; Path=/in/", "sid=b; Path=/"], "b"),
        (["sid=b; Path=/", "sid=a; Path=/in/"], "b"), (["sid=a; Path=/in", "sid=gone; Max-Age=0"], nil),
        (["sid=a", "sid=b; Domain=example.com", "sid=gone; Max-Age=0; Domain=.Example.com"], "a"),
        (["sid=a; Domain=app.example.com", "sid=gone; Max-Age=0"], nil),
        (["sid=a; Domain=other.example"], nil), (["sid=a; Domain=ample.com"], nil), (["sid=a; Domain="], "a"),
    ]

    @Test(arguments: cookies)
    func cookiesAreThoseThatAUserAgentWouldHold(_ fields: [String], _ expected: String?) throws {
        let grant = try grant("recipe", Self.session(["token": ["cookie": "sid"]], [("apply", ["cookie": "sid"])]))
        let reply = TokenReply(status: 200, fields: fields.map { TokenReply.Field(name: "Set-Cookie", value: $0) })
        let end = try Self.play(grant, reply).end
        #expect((try? end.get())?.access == expected.map { Secret($0) }, "\(fields)")
        guard let expected, let token = try? end.get() else { return }
        #expect(grant.injection(of: token).wire == ["Cookie: sid=\(expected)"])
    }

    @Test func aPatternFindsItsFieldAmongSeveral() throws {
        let output: FixtureNode = ["header": "Set-Cookie", "regex": "JSESSIONID[^=]*=[^;]+"]
        let fields = ["remember-me=; Max-Age=0", "JSESSIONID.1a2b=node0; Path=/; HttpOnly"]
        let reply = TokenReply(status: 302, fields: fields.map { TokenReply.Field(name: "Set-Cookie", value: $0) })
        let block: FixtureNode = [
            "acquire": [
                ["url": "https://app.example.com/in", "status": ["success": [302]], "outputs": ["token": output]]
            ]
        ]
        #expect(try Self.play(grant("recipe", block), reply).end.get().access == Secret("JSESSIONID.1a2b=node0"))
    }

    @Test func aTokenThatWouldEndACookieIsNotSentAsOne() throws {
        let grant = try grant("recipe", Self.session(["token": "/t"], [("apply", ["cookie": "sid"])]))
        let failure = try #require(Self.play(grant, TokenReply(200, #"{"t":"a; admin=1"}"#)).end.failure)
        #expect(failure.problem.detail.contains("no cookie may contain"))
    }

    // MARK: Web pages

    @Test(arguments: [
        ("a&amp;b&#43;c&#x3D;&quot;", "text/html; charset=utf-8", "a&b+c=\""), ("a&#39;&lt;&gt;&apos;", "", "a'<>'"),
        ("a&unknown;&amp", "text/html", "a&unknown;&amp"), ("&#0;&#xD800;", "text/html", "&#0;&#xD800;"),
        ("&#99999999999;", "text/html", "&#99999999999;"),
        ("a&amp;b", "text/plain", "a&amp;b"), ("&&amp;amp;", "application/xhtml+xml", "&&amp;"),
    ])
    func aFieldOfAPageIsReadAsABrowserReadsIt(_ written: String, _ type: String, _ expected: String) throws {
        let grant = try grant("recipe", Self.session(["token": ["regex": "name=\"t\" value=\"([^\"]+)\""]]))
        let page = "<html><input name=\"t\" value=\"\(written)\">"
        let reply = TokenReply(200, page, type.isEmpty ? [:] : ["Content-Type": type])
        #expect(try Self.play(grant, reply).end.get().access == Secret(expected))
    }

    @Test(arguments: [#"{"r":"r2"}"#, #"{"t":"a\nb","r":"r2"}"#, #"{"t":"tök","r":"r2","end":1e999}"#])
    func theNextRefreshTokenIsPutAsideWhateverTheTokenIs(_ body: String) throws {
        var attempt = GrantAttempt(holding: held, at: now, nonce: "")
        attempt.answers = 1
        guard case .failure = try grant("recipe", Self.sliding).interpret(TokenReply(200, body), in: &attempt) else {
            Issue.record("no failure")
            return
        }
        #expect(attempt.nextRefreshToken == Secret("r2"))
    }

    @Test(arguments: [#"{"t":"t2","r":"r2"}"#, #"{"ok":true,"ok":false,"t":"t2","r":"r2"}"#])
    func theNextRefreshTokenIsPutAsideWhereTheSuccessIsMissing(_ body: String) throws {
        let block: FixtureNode = [
            "initial": ["token": "t1", "renewal": "r1"],
            "refresh": [
                [
                    "url": "https://app.example.com/refresh", "body": ["text": "{{renewal}}"],
                    "success": ["json": "/ok", "equals": true], "outputs": ["token": "/t", "renewal": "/r"],
                ]
            ],
        ]
        var attempt = GrantAttempt(holding: held, at: now, nonce: "")
        attempt.answers = 1
        guard case .failure(let failure) = try grant("recipe", block).interpret(TokenReply(200, body), in: &attempt)
        else { throw WrongKind() }
        #expect(failure.class == .transient(retryAfter: nil))
        #expect(attempt.nextRefreshToken == Secret("r2"))
    }

    @Test(arguments: ["1-2", "0123", "1e999", #""a","t":"b""#, #"["a"],"t":["b"]"#])
    func whatIsDamagedIsNoValue(_ written: String) throws {
        let reply = TokenReply(200, #"{"t":\#(written)}"#)
        for pointer in ["/t", "/t/0"] {
            let grant = try grant("recipe", Self.session(["token": "\(pointer)"]))
            let failure = try #require(Self.play(grant, reply).end.failure)
            #expect(failure.class == .transient(retryAfter: nil))
        }
    }

    @Test func whatALoginBringsIsNotPutAside() throws {
        let grant = try grant("recipe", Self.sliding)
        var attempt = GrantAttempt(holding: held, at: now, nonce: "")
        attempt.answers = 1
        _ = grant.interpret(TokenReply(400, #"{"error":"invalid_grant"}"#), in: &attempt)
        attempt.answers = 2
        _ = grant.interpret(TokenReply(200, #"{"r":"r9"}"#), in: &attempt)
        #expect(attempt.nextRefreshToken == nil)
    }

    @Test func aTokenInAPathIsNotShown() throws {
        let request = try #require(try grant("recipe", Self.sliding).revocation(of: held))
        #expect(request.wire == "DELETE https://app.example.com/session/t%2F1")
        #expect("\(request.url)" == "https://app.example.com/session/{{token}}")
    }

    private static let outcomes: [(String, TokenFailure.Class?)] = [
        (#"{"ok":true,"t":"a"}"#, nil),
        (#"{"ok":false,"error":"invalid_client"}"#, .terminal),
        (#"{"t":"a"}"#, .transient(retryAfter: nil)),
        ("", .transient(retryAfter: nil)),
    ]

    @Test(arguments: outcomes)
    func anAPIThatSays200ToEverythingIsUnderstood(_ body: String, _ expected: TokenFailure.Class?) throws {
        let block: FixtureNode = [
            "secrets": ["key": "k"],
            "acquire": [
                [
                    "url": "https://app.example.com/session?key={{key}}",
                    "success": ["json": "/ok", "equals": true], "outputs": ["token": "/t"],
                ]
            ],
        ]
        let end = try Self.play(grant("recipe", block), TokenReply(200, body)).end
        #expect(end.failure?.class == expected)
        if expected == .terminal { #expect(end.failure?.problem.cause?.code == "invalid_client") }
    }

    @Test func seedsComeFromTheConfiguration() throws {
        let block: FixtureNode = [
            "initial": ["token": "a", "renewal": "r"],
            "refresh": [
                [
                    "url": "https://app.example.com/refresh", "body": ["text": "{{renewal}}"],
                    "outputs": ["token": "/t"], "status": ["terminal": ["400"]],
                ]
            ],
            "login_hint": "ask Ada.",
        ]
        let grant = try grant("recipe", block)
        #expect(grant.seed(at: now) == TokenSet(access: Secret("a"), refreshToken: Secret("r"), obtainedAt: now.wall))
        guard case .impossible(let failure) = grant.firstStep(holding: nil) else { throw WrongKind() }
        #expect(failure.class == .loginRequired)
        #expect(failure.problem.detail == "There is no token to renew from: ask Ada.")
        let refused = try Self.play(grant, holding: held, TokenReply(400, "")).end.failure
        #expect(refused?.class == .loginRequired)
        #expect(refused?.clearsToken == true)
        #expect(try Self.play(grant, holding: held, TokenReply(403, "")).end.failure?.clearsToken == false)
    }

    @Test func itKeepsThePromisesOfAGrant() throws {
        let reply = TokenReply(200, #"{"t":"new","r":"r2","ttl":60}"#)
        try TokenGrantConformance(grant("recipe", Self.sliding), success: reply, answersErrorsInOAuth: false)
            .check()
        let grants = try ["k", "l"].map { key in
            try grant(
                "recipe",
                [
                    "secrets": ["key": "\(key)"],
                    "acquire": [["url": "https://app.example.com/{{key}}", "outputs": ["token": "/t"]]],
                ]
            )
        }
        try TokenGrantConformance.checkIdentitiesDiffer(
            grants + [grant("recipe", Self.sliding), grant("recipe", Self.login)]
        )
    }
}

extension TokenRequest {
    /// The wire form with bodies of any kind.
    var whole: String {
        guard case .content(let type, let content) = body else { return wire }
        return "\(wire)\n\(type)\n\(content.text)"
    }
}
