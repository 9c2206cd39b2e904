import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Login on another device", .timeLimit(.minutes(5)))
struct DeviceLoginTests {
    private static let url = "https://id.example.com/device"

    private static func flow(_ more: [(String, FixtureNode)] = []) throws -> (any DeviceLoginFlow)? {
        let own: [(String, FixtureNode)] = [
            ("authorize_url", "https://id.example.com/authorize"), ("token_url", "https://id.example.com/token"),
            ("client_id", "app"), ("scopes", ["a", "b"]),
        ]
        return try grant("oauth2_authorization_code", .mapping(own + more)).deviceLogin
    }

    private static func device(_ more: [(String, FixtureNode)] = []) throws -> any DeviceLoginFlow {
        try #require(try flow([("device_authorization_url", "\(url)")] + more))
    }

    private static let answer =
        #"{"device_code":"D","user_code":"AB-12","verification_uri":"https://id.example.com/go","expires_in":900,"interval":7}"#

    private static let code = DeviceCode(
        deviceCode: Secret("D"),
        userCode: "AB-12",
        page: "https://id.example.com/go",
        lifetime: .seconds(900),
        interval: .seconds(7)
    )

    @Test func theAddressOfTheAuthorityIsNeeded() throws { #expect(try Self.flow() == nil) }

    @Test func aCodeIsAskedForAndThenTheToken() throws {
        let device = try Self.device([("client_secret", "s"), ("parameters", ["audience": "x"])])
        #expect(
            try device.begin(nonce: "n", at: now).get().wire
                == "POST \(Self.url)\n\nscope=a+b&audience=x&client_id=app&client_secret=s"
        )
        let grantType = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code"
        #expect(
            try device.poll(Self.code, nonce: "n", at: now).get().wire
                == "POST https://id.example.com/token\n\ngrant_type=\(grantType)&device_code=D&audience=x&client_id=app"
                + "&client_secret=s"
        )
    }

    @Test func moreScopesAreAskedForAndKept() throws {
        let device = try Self.device().asking(alsoFor: ["c", "a"])
        #expect(try device.begin(nonce: "n", at: now).get().wire.contains("scope=a+b+c&"))
        let answer = TokenReply(200, #"{"access_token":"t","refresh_token":"r"}"#)
        guard case .token(let token) = device.interpret(answer, at: now) else {
            Issue.record("no token")
            return
        }
        #expect(token.addedScopes == ["c"])
    }

    @Test func theCodeIsRead() throws {
        #expect(try Self.device().code(in: TokenReply(200, Self.answer), at: now).get() == Self.code)
        let short = #"{"device_code":"D","user_code":"AB-12","verification_url":"https://id.example.com/go"}"#
        let code = try Self.device().code(in: TokenReply(200, short), at: now).get()
        #expect(code.interval == .seconds(5) && code.lifetime == .seconds(600))
    }

    @Test(arguments: [
        (400, #"{"error":"invalid_client"}"#, "invalid_client, status 400"), (404, "", "status 404"),
        (200, "{}", "has no code"),
        (
            200, #"{"device_code":"D","user_code":"A\u001b[2J","verification_uri":"https://id.example.com"}"#,
            "has no code"
        ),
        (200, #"{"device_code":"D","user_code":"A","verification_uri":"http://id.example.com"}"#, "no https address"),
        (200, #"{"device_code":"D","user_code":"A","verification_uri":"javascript:alert(1)"}"#, "no https address"),
    ])
    func anAnswerWithoutACodeEndsTheLogin(_ status: Int, _ body: String, _ words: String) throws {
        guard case .failure(let problem) = try Self.device().code(in: TokenReply(status, body), at: now) else {
            Issue.record("there is a code")
            return
        }
        #expect(problem.detail.contains(words), "\(problem.detail)")
    }

    private static func step(_ status: Int, _ body: String) throws -> DeviceLoginStep {
        try device().interpret(TokenReply(status, body), at: now)
    }

    @Test func theAuthoritySaysHowFarThePersonIs() throws {
        #expect(try Self.step(400, #"{"error":"authorization_pending"}"#) == .pending)
        // GitHub's status.
        #expect(try Self.step(200, #"{"error":"authorization_pending"}"#) == .pending)
        #expect(try Self.step(400, #"{"error":"slow_down"}"#) == .slowDown)
        guard case .unclear(let failure) = try Self.step(503, "") else {
            Issue.record("a server that is overloaded ended the login")
            return
        }
        #expect(failure.mayPass)
        guard case .token(let token) = try Self.step(200, #"{"access_token":"T","refresh_token":"R"}"#) else {
            Issue.record("there is no token")
            return
        }
        #expect(token.access == Secret("T") && token.refreshToken == Secret("R"))
    }

    @Test(arguments: [
        ("access_denied", "denied", "was denied"), ("expired_token", "timeout", "in time"),
        ("invalid_client", "exchange_refused", "check client_id"),
    ])
    func aRefusalEndsTheLogin(_ error: String, _ reason: String, _ words: String) throws {
        guard case .refused(let problem, reason) = try Self.step(400, #"{"error":"\#(error)"}"#) else {
            Issue.record("not refused as \(reason)")
            return
        }
        #expect(problem.detail.contains(words), "\(problem.detail)")
    }

    @Test func aRefreshTokenWithoutAUsableAccessTokenIsTheLogin() throws {
        guard case .token(let token) = try Self.step(200, #"{"access_token":"a\u0000","refresh_token":"r2"}"#) else {
            Issue.record("no token")
            return
        }
        #expect(token.access.isEmpty && token.refreshToken == Secret("r2"))
    }

    // MARK: Bounds

    private static func readCode(_ members: String...) throws -> DeviceCode? {
        let own = #""device_code":"D","verification_uri":"https://id.example.com/go""#
        let body = "{\(([own] + members).joined(separator: ","))}"
        return try? device().code(in: TokenReply(200, body), at: now).get()
    }

    @Test func aCodeLastsADayAtMost() throws {
        let longest = DeviceLogin.longest.components.seconds
        let user = #""user_code":"AB""#
        #expect(try Self.readCode(user, "\"expires_in\":\(longest - 1)")?.lifetime == .seconds(longest - 1))
        #expect(try Self.readCode(user, "\"expires_in\":\(longest)")?.lifetime == .seconds(longest))
        #expect(try Self.readCode(user, "\"expires_in\":\(longest + 1)")?.lifetime == .seconds(longest))
    }

    @Test(arguments: [(0, 5), (1, 1), (60, 60), (61, 60), (1_000_000, 60)])
    func thePollingIntervalHasARange(_ asked: Int, _ interval: Int) throws {
        let code = try Self.readCode(#""user_code":"AB""#, "\"interval\":\(asked)")
        #expect(code?.interval == .seconds(interval))
    }

    @Test func theLengthOfAUserCodeIsLimited() throws {
        func user(_ count: Int) -> String { #""user_code":"\#(String(repeating: "A", count: count))""# }
        #expect(try Self.readCode(user(64)) != nil)
        #expect(try Self.readCode(user(65)) == nil)
    }
}
