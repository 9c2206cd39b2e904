import GatewayConfiguration
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Duke's mobile authorizer", .timeLimit(.minutes(5)))
struct DukeSessionTests {
    private static let seeded: FixtureNode = ["client_name": "dukemobile", "access_token": "A", "session_token": "S"]
    private let token = TokenSet(access: Secret("A1"), refreshToken: Secret("S1"), obtainedAt: now.wall)

    private static func pair(_ access: String, _ session: String) -> TokenReply {
        TokenReply(200, #"{"data":{"access_token":"\#(access)","session_token":"\#(session)"}}"#)
    }

    private static let sites: [(FixtureNode, String, String?)] = [
        (
            ["client_name": "wearduke"], "https://mobile-authorizer.api.oit.duke.edu/wearduke/ios/refresh",
            "https://mobile-authorizer.api.oit.duke.edu/wearduke/ios/revoke"
        ),
        (
            ["client_name": "wearduke", "environment": "debug"],
            "https://mobile-authorizer-test.oit.duke.edu/wearduke/ios/refresh",
            "https://mobile-authorizer-test.oit.duke.edu/wearduke/ios/revoke"
        ),
        (
            ["client_name": "dukemobile", "path_style": 2022],
            "https://mobile-authorizer.oit.duke.edu/dukemobile/refresh", nil
        ),
        (
            ["client_name": "dukemobile", "path_style": "2019", "base_url": "http://127.0.0.1:9002"],
            "http://127.0.0.1:9002/dukemobile/ios/refresh", "http://127.0.0.1:9002/dukemobile/ios/revoke"
        ),
        (
            [
                "client_name": "dukemobile", "path_style": "2022", "environment": "debug",
                "base_url": "http://127.0.0.1:9002/duke/",
            ],
            "http://127.0.0.1:9002/duke/dukemobile/refresh", nil
        ),
    ]

    @Test(arguments: sites)
    func bothTokensGoToTheAuthorizerWithoutABody(_ block: FixtureNode, _ refresh: String, _ revoke: String?) throws {
        let grant = try grant("duke_session", block)
        let request = try request(of: grant.firstStep(holding: token))
        #expect(request.wire == "POST \(refresh)\nX-Access-Token: A1\nX-Session-Token: S1")
        #expect(request.body == .none)
        #expect(
            grant.revocation(of: token)?.wire == revoke.map { "POST \($0)\nX-Access-Token: A1\nX-Session-Token: S1" }
        )
    }

    @Test func onlyTheAccessTokenGoesUpstream() throws {
        #expect(try grant("duke_session", Self.seeded).injection(of: token).wire == ["Authorization: Bearer A1"])
    }

    @Test func bothTokensRotate() throws {
        let grant = try grant("duke_session", Self.seeded)
        #expect(grant.rotatesRefreshToken)
        let fresh = try grant.interpret(Self.pair("A2", "S2"), holding: token, at: now).get()
        #expect(fresh == TokenSet(access: Secret("A2"), refreshToken: Secret("S2"), obtainedAt: now.wall))
    }

    @Test func anAnswerWithoutASessionTokenKeepsTheOld() throws {
        let grant = try grant("duke_session", Self.seeded)
        let reply = TokenReply(200, #"{"data":{"access_token":"A2"}}"#)
        #expect(try grant.interpret(reply, holding: token, at: now).get().refreshToken == Secret("S1"))
    }

    @Test func theEndIsReadFromTheToken() throws {
        let grant = try grant("duke_session", Self.seeded)
        let end = now.wall + .seconds(600)
        let reply = Self.pair(jwt(#"{"exp":\#(end.milliseconds / 1000)}"#), "S2")
        #expect(try grant.interpret(reply, holding: token, at: now).get().expiresAt == end)
    }

    @Test(arguments: [
        (-3600, Int?(-7200), Duration?(.seconds(3600))),
        (-3600, nil, nil),
        (-3600, 0, nil),
        (3600, -60, .seconds(3600)),
    ])
    func aClockThatIsWrongDoesNotLoseThePair(_ exp: Int, _ iat: Int?, _ lifetime: Duration?) throws {
        let grant = try grant("duke_session", Self.seeded)
        let start = Int(now.wall.milliseconds / 1000)
        let issued = iat.map { #","iat":\#(start + $0)"# } ?? ""
        let reply = Self.pair(jwt(#"{"exp":\#(start + exp)\#(issued)}"#), "S2")
        let fresh = try grant.interpret(reply, holding: token, at: now).get()
        #expect(fresh.refreshToken == Secret("S2"))
        #expect(fresh.lifetime == lifetime)
    }

    @Test func seedsAreUsedUntilTheirEnd() throws {
        let end = now.wall + .seconds(-5)
        let access = jwt(#"{"exp":\#(end.milliseconds / 1000)}"#)
        let block: FixtureNode = ["client_name": "dukemobile", "access_token": "\(access)", "session_token": "S"]
        let seed = try #require(try grant("duke_session", block).seed(at: now))
        #expect(seed.expiresAt == end)
        #expect(seed.refreshToken == Secret("S"))
    }

    @Test func withoutSeedsALoginIsNeeded() throws {
        let grant = try grant("duke_session", ["client_name": "dukemobile"])
        #expect(grant.seed(at: now) == nil)
        guard case .impossible(let failure) = grant.firstStep(holding: nil) else { throw WrongKind() }
        #expect(failure.class == .loginRequired)
        #expect(failure.problem.kind == .loginRequired)
        #expect(
            failure.problem.detail.contains("https://mobile-authorizer.api.oit.duke.edu/dukemobile/ios/login")
        )
    }

    @Test func anAccessTokenAloneIsUsedAndNotRenewed() throws {
        let grant = try grant("duke_session", ["client_name": "dukemobile", "access_token": "A"])
        let seed = try #require(grant.seed(at: now))
        guard case .impossible(let failure) = grant.firstStep(holding: seed) else { throw WrongKind() }
        #expect(failure.class == .loginRequired)
        #expect(grant.revocation(of: seed) == nil)
    }

    @Test(arguments: [
        (400, TokenFailure.Class.loginRequired, true), (401, .suspect, false), (403, .suspect, false),
        (404, .terminal, false), (302, .terminal, false), (204, .transient(retryAfter: nil), false),
        (423, .transient(retryAfter: .seconds(9)), false),
        (429, .transient(retryAfter: .seconds(9)), false), (500, .transient(retryAfter: .seconds(9)), false),
        (503, .transient(retryAfter: .seconds(9)), false),
    ])
    func everyStatusHasItsMeaning(_ status: Int, _ class: TokenFailure.Class, _ clears: Bool) throws {
        let grant = try grant("duke_session", Self.seeded)
        let reply = TokenReply(status, "canary", ["Retry-After": "9"])
        let failure = try #require(grant.interpret(reply, holding: token, at: now).failure)
        #expect(failure.class == `class`)
        #expect(failure.clearsToken == clears)
        #expect(failure.problem.cause?.httpStatus == status)
    }

    @Test(arguments: [
        "", "{}", "<html>", #"{"access_token":"A2","session_token":"S2"}"#, #"{"data":{"access_token":""}}"#,
        #"{"data":[]}"#,
    ])
    func aBrokenAnswerKeepsTheTokens(_ body: String) throws {
        let grant = try grant("duke_session", Self.seeded)
        let failure = try #require(grant.interpret(TokenReply(200, body), holding: token, at: now).failure)
        #expect(failure.class == .transient(retryAfter: nil))
        #expect(!failure.clearsToken)
    }

    @Test func theGrantConforms() throws {
        let end = now.wall.milliseconds / 1000 + 3600
        try TokenGrantConformance(
            grant("duke_session", Self.seeded),
            success: Self.pair(jwt(#"{"exp":\#(end)}"#), "S2"),
            answersErrorsInOAuth: false
        ).check()
    }

    @Test func sessionsOfDifferentPeopleAreDifferentTokens() throws {
        let blocks: [FixtureNode] = [
            Self.seeded,
            ["client_name": "dukemobile", "access_token": "B", "session_token": "S"],
            ["client_name": "dukemobile", "access_token": "A", "session_token": "T"],
            ["client_name": "wearduke", "access_token": "A", "session_token": "S"],
            ["client_name": "dukemobile", "access_token": "A", "session_token": "S", "environment": "debug"],
            ["client_name": "dukemobile", "access_token": "A", "session_token": "S", "path_style": 2022],
            ["client_name": "dukemobile"],
        ]
        try TokenGrantConformance.checkIdentitiesDiffer(blocks.map { try grant("duke_session", $0) })
    }

    @Test func credentialsThatBeginWithoutTokensDoNotShareThem() throws {
        let grants = try ["alice", "bob"].map { name in
            let path = ConfigPath.root.appending("credentials").appending(name)
            let strategy = try #require(DukeSessionStrategy(from: .fixture(["client_name": "dukemobile"], path: path)))
            guard case .token(let grant) = strategy.behavior else { throw WrongKind() }
            return grant
        }
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }

    private static let mistakes: [(FixtureNode, [String])] = [
        ([:], ["missing key \"client_name\""]),
        (
            ["client_name": "a/b"],
            ["client_name: is part of a path: letters, digits, \"-\", \".\", \"_\" and \"~\" only"]
        ),
        (
            ["client_name": "..", "environment": "relase", "path_style": 2020],
            [
                "environment: expected one of release, debug; found \"relase\"; did you mean \"release\"?",
                "path_style: expected one of 2019, 2022; found \"2020\"; did you mean \"2022\"?",
                "client_name: is part of a path: letters, digits, \"-\", \".\", \"_\" and \"~\" only",
            ]
        ),
        (
            ["client_name": "dukemobile", "path_style": 2022, "environment": "debug"],
            ["environment: no debug authorizer is known for path_style 2022; set base_url"]
        ),
        (
            ["client_name": "dukemobile", "base_url": "http://authorizer.example"],
            ["base_url: must be https: a secret would be sent in the clear (http is for loopback only)"]
        ),
        (
            ["client_name": "dukemobile", "access_token": "Bearer A"],
            ["access_token: begins with the scheme; the gateway writes \"Bearer\" itself"]
        ),
    ]

    @Test(arguments: mistakes)
    func mistakesAreExplained(_ block: FixtureNode, _ expected: [String]) throws {
        let found = try problems("duke_session", block)
        #expect(found == expected)
    }
}

@Suite("Duke's login", .timeLimit(.minutes(5)))
struct DukeLoginTests {
    private static let site = "https://mobile-authorizer.api.oit.duke.edu"

    private func flow(_ block: FixtureNode = ["client_name": "dukemobile"]) throws -> any LoginFlow {
        try #require(try grant("duke_session", block).login)
    }

    private var attempt: LoginAttempt {
        var random = SplitMix(seed: 1)
        return LoginAttempt(redirectURI: "", random: &random)
    }

    private static let places: [(FixtureNode, String, String)] = [
        (["client_name": "wearduke"], "\(site)/wearduke/ios/login", "\(site)/wearduke/ios/token"),
        (
            ["client_name": "wearduke", "environment": "debug"],
            "https://mobile-authorizer-test.oit.duke.edu/wearduke/ios/login",
            "https://mobile-authorizer-test.oit.duke.edu/wearduke/ios/token"
        ),
        (
            ["client_name": "dukemobile", "path_style": "2022"],
            "https://mobile-authorizer.oit.duke.edu/dukemobile/login",
            "https://mobile-authorizer.oit.duke.edu/dukemobile/token"
        ),
    ]

    @Test(arguments: places)
    func pageAndEndFollowTheConfiguration(_ block: FixtureNode, _ page: String, _ end: String) throws {
        let flow = try flow(block)
        #expect(flow.page(of: attempt) == page)
        #expect(flow.redirect == .elsewhere(end))
    }

    @Test func theLoginConforms() throws {
        try LoginFlowConformance(flow()) { "\($0.redirectURI)?access_token=A&session_token=S" }.check()
    }

    @Test(arguments: ["/dukemobile/ios/token", "/dukemobile/token"])
    func bothTokensAreReadByName(_ path: String) throws {
        let access = jwt(#"{"exp":\#((now.wall + .seconds(900)).milliseconds / 1000)}"#)
        let address = "\(Self.site)\(path)?session_token=S%2B1&x=1&access_token=\(access)"
        let step = try flow().read(.pasted(address), of: attempt, at: now)
        let pair = TokenSet(
            access: Secret(access),
            refreshToken: Secret("S+1"),
            obtainedAt: now.wall,
            expiresAt: now.wall + .seconds(900)
        )
        #expect(step == .token(pair))
    }

    @Test(arguments: [
        ("\(site)/dukemobile/token?access_token=A", "incomplete"), ("\(site)/dukemobile/token", "incomplete"),
        ("\(site)/wearduke/token?access_token=A&session_token=S", "other_address"),
        ("https://evil.example/dukemobile/token?access_token=A&session_token=S", "other_address"),
        ("\(site)/dukemobile/token?access_token=A&access_token=B&session_token=S", "unreadable"),
        ("\(site)/dukemobile/token?access_token=A%0AB&session_token=S", "incomplete"), ("A", "unreadable"),
        ("", "unreadable"),
    ])
    func otherAddressesAreNotTheEnd(_ address: String, _ reason: String) throws {
        switch try flow().read(.pasted(address), of: attempt, at: now) {
        case .refused(let problem, let found):
            #expect(found == reason)
            #expect(problem.kind == .loginFailed)
        case .foreign(let refusal): #expect(refusal.reason == reason)
        case .exchange, .token: Issue.record("taken: \(address)")
        }
    }
}
