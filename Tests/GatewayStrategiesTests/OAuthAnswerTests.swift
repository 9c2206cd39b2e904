import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Answers of token endpoints", .timeLimit(.minutes(5)))
struct OAuthAnswerTests {
    private let errors = OAuthErrors(authority: "The authorization server", advice: [])

    private func result(_ reply: TokenReply) -> Result<TokenSet, TokenFailure> {
        errors.read(reply, at: now).map { $0.tokenSet(at: now) }
    }

    private func token(_ body: String, status: Int = 200) -> TokenSet? {
        try? result(TokenReply(status, body)).get()
    }

    private func failure(_ reply: TokenReply) throws -> TokenFailure {
        try #require(result(reply).failure)
    }

    @Test(arguments: [
        (#"3600"#, Duration.seconds(3600)),
        (#""3600""#, .seconds(3600)),
        (#"3599.5"#, .milliseconds(3_599_500)),
        (#""4123.0""#, .seconds(4123)),
        (#"1"#, .seconds(1)),
        (#"null"#, nil),
        (#""soon""#, nil),
        (#""NaN""#, nil),
        (#"[]"#, nil),
        (#"true"#, nil),
        (#"1e308"#, OAuthTokenResponse.longestLifetime),
        (#""Infinity""#, OAuthTokenResponse.longestLifetime),
        // The time of the end, in seconds and in milliseconds.
        (#"1772361000"#, .seconds(3600)),
        (#""1772361000""#, .seconds(3600)),
        (#"1772361000000"#, .seconds(3600)),
        (#""2026-03-01T10:30:00+0000""#, .seconds(3600)),
        // A time that is long over is a lifetime that has no end.
        (#"1000000001"#, OAuthTokenResponse.longestLifetime),
        (#"999999999"#, OAuthTokenResponse.longestLifetime),
    ])
    func theLifetimeIsReadLeniently(_ value: String, _ lifetime: Duration?) throws {
        let issued = try #require(token(#"{"access_token":"t","expires_in":\#(value)}"#))
        #expect(issued.lifetime == lifetime)
        #expect(issued.obtainedAt == now.wall)
    }

    @Test(arguments: [
        (#""soon""#, 1), ("true", 1), ("[]", 1), (#""""#, 1), ("null", 0), ("60", 0), (#""60""#, 0),
    ])
    func aLifetimeThatIsNoNumberIsRemarkedUpon(_ value: String, _ count: Int) {
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        let reply = TokenReply(200, #"{"access_token":"t","expires_in":\#(value)}"#)
        guard case .token = errors.answer(reply, in: &attempt) else {
            Issue.record("no token")
            return
        }
        #expect(attempt.remarks.count == count)
    }

    @Test(arguments: [
        #""Bearer""#, #""bearer""#, #""BEARER""#, "null", #""BearerToken""#, #""""#, #""Bearer ""#, #""bot""#,
        #""Application Access Token""#, "7", "true", "[]",
    ])
    func aTokenIsABearerTokenUnlessItsTypeRulesThatOut(_ type: String) {
        #expect(token(#"{"access_token":"t","token_type":\#(type)}"#)?.access == Secret("t"))
    }

    @Test(arguments: [
        #""mac""#, #""MAC ""#, #""DPoP""#, #""pop""#, #""N_A""#, #""bearer","token_type":"mac""#,
    ])
    func aTokenThatNeedsAProofIsNotSentAsBearer(_ type: String) throws {
        let failure = try failure(TokenReply(200, #"{"access_token":"t","token_type":\#(type)}"#))
        #expect(failure.class == .terminal)
        #expect(failure.problem.kind == .credentialMisconfigured)
        #expect(failure.problem.detail.contains("token_type is not Bearer"))
        #expect(failure.problem.detail.contains("(mac)") == type.lowercased().contains("mac"))
    }

    @Test func aRefreshTokenBesideItThatCannotBeSentIsLeftOut() {
        for refresh in [#""a\r\nb""#, "[]", "7", #""tök""#, #""a","refresh_token":"b""#] {
            var attempt = GrantAttempt.sample(holding: nil, at: now)
            let reply = TokenReply(200, #"{"access_token":"t","refresh_token":\#(refresh)}"#)
            let answer = try? errors.read(reply, in: &attempt, rotatesRefreshToken: true).get()
            #expect(answer?.accessToken == Secret("t") && answer?.refreshToken == nil)
            #expect(attempt.remarks.count == 1)
        }
    }

    @Test(arguments: ["{}", "[]", #"" ""#, #""0""#, #""none""#, "true", #"{"code":0,"message":"ok"}"#])
    func anErrorThatIsNoKnownCodeDoesNotCostThePair(_ error: String) {
        let pair = TokenReply(200, #"{"access_token":"t","refresh_token":"r","error":\#(error)}"#)
        let answers = TokenAnswers(errors: errors)
        let login = try? answers.exchange(pair, at: now).get()
        #expect(login?.access == Secret("t") && login?.refreshToken == Secret("r"))
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        let refreshed = try? answers.refresh(pair, in: &attempt, holding: nil).get()
        #expect(refreshed?.access == Secret("t") && refreshed?.refreshToken == Secret("r"))
        #expect(attempt.nextRefreshToken == Secret("r"))
        #expect(attempt.remarks.count == 1)
    }

    @Test func aKnownCodeCostsThePair() {
        let pair = TokenReply(200, #"{"access_token":"t","refresh_token":"r","error":"bad_refresh_token"}"#)
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        let refreshed = TokenAnswers(errors: errors).refresh(pair, in: &attempt, holding: nil)
        #expect(refreshed.failure?.class == .loginRequired)
        #expect(attempt.nextRefreshToken == nil)
    }

    @Test func aFormIsReadWhereItsTypeSaysThatItIsOne() {
        let form = "access_token=t%2B1&token_type=Bearer&expires_in=60\r\n"
        func token(_ type: String) -> TokenSet? {
            try? result(TokenReply(200, form, ["content-type": type])).get()
        }
        let read = token("application/x-www-form-urlencoded; charset=utf-8")
        #expect(read?.access == Secret("t+1") && read?.lifetime == .seconds(60))
        #expect(token("Application/X-WWW-Form-URLencoded")?.access == Secret("t+1"))
        #expect(token("text/plain") == nil)
    }

    @Test func anErrorInAFormIsOne() throws {
        let type = ["content-type": "application/x-www-form-urlencoded"]
        let failure = try failure(TokenReply(200, "error=invalid_client&error_description=x", type))
        #expect(failure.problem.cause?.code == "invalid_client")
    }

    @Test func textThatIsNotUsedMayBeBroken() {
        let members = [
            #""scope":"a\#u{9}b""#, "\"scope\":\"a\nb\"", #""scope":"\ud83d""#, #""scope":"\x""#,
            #""scope":"a","scope":"b""#, #""n":1e999"#, #""x":{"y":"1","y":"2"}"#,
        ]
        for member in members { #expect(token(#"{"access_token":"t",\#(member)}"#)?.access == Secret("t")) }
        let latin1 = Array(#"{"scope":"caf"#.utf8) + [0xE9] + Array(#"","access_token":"t"}"#.utf8)
        #expect((try? result(TokenReply(status: 200, body: latin1)).get())?.access == Secret("t"))
    }

    @Test func textThatIsUsedIsNotRepaired() {
        for body in ["{\"access_token\":\"a\tb\"}", #"{"access_token":"a","access_token":"b"}"#] {
            #expect(token(body) == nil)
        }
        let bytes = Array(#"{"access_token":"caf"#.utf8) + [0xE9] + Array(#""}"#.utf8)
        #expect((try? result(TokenReply(status: 200, body: bytes)).get()) == nil)
        #expect(token(#"{"access_token":"a","access_token":"a"}"#)?.access == Secret("a"), "they agree")
    }

    @Test func aMissingLifetimeIsNotAnExpiry() {
        #expect(token(#"{"access_token":"t"}"#)?.expiresAt == nil)
    }

    @Test(arguments: ["", #","expires_in":null"#, #","expires_in":"soon""#])
    func aWebTokenStatesItsEndItself(_ more: String) throws {
        let issued = try #require(token(#"{"access_token":"\#(jwt(#"{"exp":1772361000}"#))"\#(more)}"#))
        #expect(issued.lifetime == .seconds(3600))
        let shorter = token(#"{"access_token":"\#(jwt(#"{"exp":1772361000}"#))","expires_in":60}"#)
        #expect(shorter?.lifetime == .seconds(60), "what the authority says counts")
    }

    @Test(arguments: ["0", "-1", "\"-5\"", "-1e308", "0.0", "1772357399"])
    func aTokenThatIsDeadOnArrivalIsNotUsed(_ value: String) throws {
        let reply = TokenReply(200, #"{"access_token":"t","expires_in":\#(value)}"#)
        #expect(try failure(reply).class == .transient(retryAfter: nil))
    }

    @Test(arguments: ["application/json", "text/html", "text/plain; charset=utf-8", ""])
    func theContentTypeDoesNotMatter(_ type: String) {
        let reply = TokenReply(200, #"{"access_token":"t"}"#, ["Content-Type": type])
        #expect((try? result(reply).get())?.access == Secret("t"))
    }

    @Test func otherSuccessStatusesCount() {
        #expect(token(#"{"access_token":"t"}"#, status: 201)?.access == Secret("t"))
        #expect(token(#"{"access_token":"t","error":null}"#)?.access == Secret("t"))
    }

    @Test(arguments: [
        "", " ", "<html></html>", "{", "[]", "null", "{}", #"{"access_token":""}"#, #"{"access_token":null}"#,
        #"{"access_token":7}"#, #"{"access_token":{"value":"t"}}"#, #"{"access_token":"a\r\nX-Evil: 1"}"#,
        #"{"access_token":"a\u0000"}"#, #"{"access_token":"tök"}"#, #"{"access_token":" t"}"#,
        #"{"access_token":"\#(String(repeating: "a", count: 16 << 10 | 1))"}"#,
        String(repeating: "[", count: 100_000),
    ])
    func aBrokenAnswerIsTriedAgain(_ body: String) throws {
        let failure = try failure(TokenReply(200, body))
        #expect(failure.class == .transient(retryAfter: nil))
        #expect(failure.problem.kind == .tokenTemporarilyUnavailable)
    }

    @Test func theLongestTokenIsTaken() {
        let longest = String(repeating: "a", count: 16 << 10)
        #expect(token(#"{"access_token":"\#(longest)"}"#)?.access == Secret(longest))
    }

    @Test func anErrorWithStatus200IsAnError() throws {
        let failure = try failure(TokenReply(200, #"{"error":"invalid_client","access_token":"t"}"#))
        #expect(failure.class == .terminal)
        #expect(failure.problem.cause == GatewayProblem.Cause(code: "invalid_client", httpStatus: 200))
    }

    @Test(arguments: [
        (400, "invalid_client"), (401, "invalid_client"), (400, "invalid_grant"), (400, "invalid_scope"),
        (400, "unauthorized_client"), (403, "access_denied"), (400, "unsupported_grant_type"), (400, "made_up"),
    ])
    func aRefusalIsTerminal(_ status: Int, _ code: String) throws {
        let failure = try failure(TokenReply(status, #"{"error":"\#(code)"}"#))
        #expect(failure.class == .terminal)
        #expect(failure.problem.kind == .credentialMisconfigured)
        #expect(failure.problem.cause?.code == (code == "made_up" ? "other" : code))
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func aRedirectIsAMistakeInTheConfiguration(_ status: Int) throws {
        let failure = try failure(TokenReply(status, "", ["Location": "https://canary.example/"]))
        #expect(failure.class == .terminal)
        #expect(failure.problem.detail.contains("set token_url to the final address"))
        #expect(!failure.problem.detail.contains("canary"))
    }

    @Test(arguments: [
        ("7", Duration.seconds(7)), ("0", .zero), (" 3 ", .seconds(3)), ("1.5", .milliseconds(1500)),
        ("Sun, 01 Mar 2026 09:31:00 GMT", .seconds(60)), ("Sun, 06 Nov 1994 08:49:37 GMT", .zero),
        ("7200", .seconds(7200)), ("999999999999999999999999", .seconds(31_536_000)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", .seconds(31_536_000)),
        ("soon", nil), ("-5", nil), ("", nil), ("nan", nil), ("1e3", nil), (".", nil), ("Sunday", nil),
    ])
    func theWaitIsSecondsOrADate(_ text: String, _ wait: Duration?) throws {
        for status in [429, 503] {
            let failure = try failure(TokenReply(status, "busy", ["retry-after": text]))
            #expect(failure.class == .transient(retryAfter: wait))
            // The gateway does not wait longer than that.
            #expect(failure.problem.retryAfter == wait.map { min($0, .seconds(3600)) })
        }
    }

    @Test(arguments: [(408, ""), (425, ""), (500, #"{"error":"invalid_client"}"#), (400, #"{"error":"slow_down"}"#)])
    func someRefusalsPass(_ status: Int, _ body: String) throws {
        #expect(try failure(TokenReply(status, body)).class == .transient(retryAfter: nil))
    }

    @Test(arguments: ["[],", "{},", "1,", "\"a\","])
    func anAnswerOfCountlessValuesIsNotRead(_ piece: String) throws {
        let filler = String(repeating: piece, count: (1 << 20) / piece.utf8.count - 16)
        let reply = TokenReply(200, #"{"access_token":"t","x":[\#(filler)0]}"#)
        #expect(try failure(reply).class == .transient(retryAfter: nil))
    }
}
