import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite(.timeLimit(.minutes(5)))
struct ImportedTokenTests {
    @Test(arguments: ["token", " token\n", "Bearer token\r\n", #"{"access_token": "token"}"#])
    func theBareTokenIsEnough(_ text: String) throws {
        #expect(try ImportedToken(reading: Array(text.utf8)) == ImportedToken(access: Secret("token")))
    }

    @Test func anAuthoritysAnswerIsTakenAsItIs() throws {
        let text = """
            {"access_token":"a","refresh_token":"r","expires_in":"3600","token_type":"bearer","restricted_to":[{"x":1}]}
            """
        let expected = ImportedToken(access: Secret("a"), refreshToken: Secret("r"), lifetime: .seconds(3600))
        #expect(try ImportedToken(reading: Array(text.utf8)) == expected)
    }

    @Test func aSessionTokenRenewsAndAnEndMayBeATime() throws {
        let end = UnixTime(seconds: 1_772_357_400)
        for time in ["1772357400", #""2026-03-01T09:30:00Z""#, #""2026-03-01 09:30:00+0000""#] {
            let text = #"{"access_token":"a","session_token":"s","expires_at":\#(time)}"#
            let expected = ImportedToken(access: Secret("a"), refreshToken: Secret("s"), expiresAt: end)
            #expect(try ImportedToken(reading: Array(text.utf8)) == expected)
        }
    }

    @Test(arguments: [
        "", "  \n", "two words", "a\nb", "tökén", "{}", "{", "[1]x y", #"{"access_token":1}"#,
        #"{"access_token":"a b"}"#, #"{"access_token":""}"#, #"{"access_token":"a","expires_in":0}"#,
        #"{"access_token":"a","expires_in":"soon"}"#, #"{"access_token":"a","expires_in":1e300}"#,
        #"{"access_token":"a","expires_at":"tomorrow"}"#, #"{"refresh_token":"a","session_token":"b"}"#,
        "<!doctype html><html></html>", "\0",
    ])
    func whatIsNoTokenIsRefusedWithAReason(_ text: String) {
        #expect(throws: UnusableInput.self) { try ImportedToken(reading: Array(text.utf8)) }
    }

    @Test func theReasonRepeatsNothing() throws {
        let error = try #require(throws: UnusableInput.self) {
            try ImportedToken(reading: Array("canary secret".utf8))
        }
        #expect(!error.message.contains("canary"))
    }

    @Test func aTokenHasALimit() {
        let long = [UInt8](repeating: UInt8(ascii: "a"), count: 16 << 10)
        #expect(throws: Never.self) { try ImportedToken(reading: long) }
        #expect(throws: UnusableInput.self) { try ImportedToken(reading: long + [UInt8(ascii: "a")]) }
    }

    @Test func theSizeOfTheInputIsLimited() throws {
        let text = Array(#"{"access_token": "a"}"#.utf8)
        let longest = text + [UInt8](repeating: 0x20, count: ImportedToken.limitBytes - text.count)
        #expect(try ImportedToken(reading: longest).access == Secret("a"))
        #expect(throws: UnusableInput.self) { try ImportedToken(reading: longest + [0x20]) }
    }
}
