import Testing

@testable import GatewayHTTP
@testable import GatewayTokens

@Suite("What operators are shown of an authority's words", .timeLimit(.minutes(5)))
struct AuthorityTextTests {
    private static func shown(_ text: String, hiding secrets: String...) -> String? {
        AuthorityText(hiding: secrets.map { Secret($0) }).shown(text)
    }

    // MARK: What stays readable

    @Test(arguments: [
        "AADSTS70043: The refresh token has expired or is invalid due to sign-in frequency checks by conditional access.",
        "AADSTS7000215: Invalid client secret provided. Trace ID: 0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
            + " Correlation ID: 1a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9 Timestamp: 2026-03-01 09:30:00Z",
        "AADSTS700016: Application with identifier '0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9' was not found.",
        "unsupported_grant_type: use client_credentials_grant or authorization_code_with_pkce",
        "InvalidAuthenticationToken: CompactToken parsing failed with error code: 80049217",
        "See https://login.microsoftonline.com/error?code=70043 for more.",
        "The audience https://api.example.com/v1/things is unknown.",
        "Der Zugang ist gesperrt: Passwort abgelaufen (日本語).", "Invalid username or password.",
        "error code: E12345", "bad refresh token: expired or revoked",
    ])
    func anExplanationIsShown(_ text: String) { #expect(Self.shown(text) == text) }

    // MARK: What the gateway does not know

    @Test(arguments: [
        ("The token ya29.a0AfB_byC1234567890abcdef is invalid", "The token ‹hidden› is invalid"),
        ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w", "got ‹hidden›"),
        ("aaaaaaaaaaaaaaaaaaaaaaaa", "‹hidden›"), ("d41d8cd98f00b204e9800998ecf8427e", "‹hidden›"),
        ("'SGVsbG8sIHdvcmxkISBIZWxsbw=='", "'‹hidden›=='"),
        ("refresh token 0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9 is spent", "refresh token ‹hidden› is spent"),
        ("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "‹hidden›"),
        ("refresh_token=short1&x=1", "refresh_token=‹hidden›&x=1"), ("password=hunter", "password=‹hidden›"),
        (#"{"client_secret": "hunter", "a": 1"#, #"{"client_secret": ‹hidden› "a": 1"#),
        (#"{"client_secret":"hunter","a":1"#, #"{"client_secret":"‹hidden›","a":1"#),
        ("Authorization: Basic dTpwYXNz1", "Authorization: Basic ‹hidden›"),
        ("unknown token abc123def", "unknown token ‹hidden›"), ("Bearer a1b2c3", "Bearer ‹hidden›"),
        ("back at https://x.example/cb?code=SplxlOBe1&state=1", "back at https://x.example/cb?code=‹hidden›&state=1"),
    ])
    func whatLooksLikeASecretIsHidden(_ text: String, _ expected: String) { #expect(Self.shown(text) == expected) }

    // MARK: The secrets of the request

    @Test(arguments: [
        "s3cret-of-mine", "S3CRET-OF-MINE", "x=s3cret-of-mine;", "s3cret%2Dof%2Dmine", "s3cret%252Dof%252Dmine",
        "s3cret\\-of-mine", "czNjcmV0LW9mLW1pbmU=", "czNjcmV0LW9mLW1pbmU",
    ])
    func aSecretOfTheRequestIsHiddenHoweverItIsWritten(_ written: String) {
        #expect(Self.shown("It \(written) is wrong", hiding: "s3cret-of-mine") == "It ‹hidden› is wrong")
    }

    @Test(arguments: [
        "s3cr3t-Value+of/the=clien", "3cr3t-Value+of/the=client", "s3cr3t-Value+...", "s3cr3t-Va***",
        "'cr3t-Value+of/'",
        "&#x73;3cr3t-Value+of/the=client", "...of/the=client", "czNjcjN0LVZhbHVlK29mL3R",
    ])
    func aLongPartOfASecretIsHidden(_ written: String) {
        let shown = Self.shown("It is wrong: \(written) (AADSTS7000215)", hiding: "s3cr3t-Value+of/the=client")
        #expect(shown == "It is wrong: ‹hidden› (AADSTS7000215)")
    }

    @Test(arguments: ["s3cr3t", "=client", "value", "The value of the client is wrong."])
    func aShortPartOrAWordIsNone(_ text: String) {
        #expect(Self.shown(text, hiding: "s3cr3t-Value+of/the=client") == text)
    }

    /// Values of a request that are no secret, and that texts repeat a part of.
    @Test func whatIsCommonInTextsIsShown() {
        let text = "See https://login.example.com/errors: the client-credentials of production-client are not known."
        let secrets = [
            "https://login.example.com/tenant", "client-credentials-of-mine", "correct horse battery staple",
        ]
        for secret in secrets { #expect(Self.shown(text, hiding: secret) == text) }
    }

    @Test func aSecretWithSpacesHidesTheWhole() {
        for text in ["the pass-9 of mine now is wrong", "the pass-9%20of mine is wrong", "a=pass-9\tof\nmine"] {
            #expect(Self.shown(text, hiding: "pass-9 of mine") == AuthorityText.allHidden)
        }
    }

    @Test func inMarkupItIsHiddenToo() {
        #expect(Self.shown("It p4ss&amp;w&lt;rd9 is wrong", hiding: "p4ss&w<rd9") == "It ‹hidden› is wrong")
    }

    /// Nobody encodes a word nine times who has nothing to hide.
    @Test func whatIsEncodedTooOftenIsHidden() {
        let word = "%" + String(repeating: "25", count: 12) + "41"
        #expect(Self.shown("It is \(word) now") == AuthorityText.allHidden)
    }

    @Test func encodedItIsOneWord() {
        #expect(Self.shown("the pass-9%20of+mine is wrong", hiding: "pass-9 of mine") == "the ‹hidden› is wrong")
    }

    /// The gap in "invalid username or …" would tell it.
    @Test(arguments: ["password", "hunter2", "abc", "Summer"])
    func aSecretThatCouldBeGuessedHidesTheWhole(_ secret: String) {
        #expect(Self.shown("wrong \(secret) for ada", hiding: secret) == AuthorityText.allHidden)
        #expect(Self.shown("wrong \(secret.uppercased())", hiding: secret) == AuthorityText.allHidden)
        #expect(Self.shown("no such thing", hiding: secret) == "no such thing")
    }

    @Test func aTinySecretCountsAsAWholeWordOnly() {
        #expect(Self.shown("an apple a day", hiding: "day") == AuthorityText.allHidden)
        #expect(Self.shown("an apple on Friday", hiding: "day") == "an apple on Friday")
    }

    // MARK: Bounds

    @Test func onlyWhatIsPrintableOfItStays() {
        #expect(Self.shown("a\u{1B}[31m b\r\nc\u{202E}d \u{0}") == "a [31m b c d")
        #expect(Self.shown(" \n\t ") == nil)
        #expect(Self.shown("") == nil)
    }

    @Test func itIsCut() {
        let text = String(repeating: "word ", count: 2000)
        let shown = Self.shown(text)
        #expect(shown?.count == 257)
        #expect(shown?.hasSuffix("…") == true)
        #expect(AuthorityText(hiding: []).shown(text, limit: 100)?.count == 101)
    }

    /// Half a secret is not recognised.
    @Test func aWordAtTheEndOfWhatIsReadIsDropped() {
        let secret = "s3cret-of-mine"
        let long = String(repeating: "a1", count: 2040) + " " + secret + secret
        #expect(Self.shown(long, hiding: secret) == "‹hidden›")
    }

    @Test func nothingOfManySecretsIsShown() {
        let secrets = (0..<50).map { "k3y-\($0)-\($0 * 7919)" }
        let text = AuthorityText(hiding: secrets.map { Secret($0) }).shown(secrets.joined(separator: ", ")) ?? ""
        #expect(secrets.allSatisfy { !text.contains($0) })
    }

    // MARK: At the bounds

    private static func encoded(_ text: String, times: Int) -> String {
        text.replacing("%", with: "%" + String(repeating: "25", count: times - 1))
    }

    @Test func theNumberOfDecodingsIsLimited() {
        let most = HiddenSecret.maximumDecodings
        for times in 1...12 {
            let text = "It is \(Self.encoded("%41", times: times)) now"
            #expect(Self.shown(text) == (times < most ? text : AuthorityText.allHidden))
        }
    }

    @Test(arguments: 1...12) func noNumberOfEncodingsShowsASecret(_ times: Int) {
        let shown = Self.shown("It is \(Self.encoded("s3cr%2Dof-me", times: times)) now", hiding: "s3cr-of-me")
        #expect(shown == (times < HiddenSecret.maximumDecodings ? "It is ‹hidden› now" : AuthorityText.allHidden))
    }

    @Test func onlyTheBeginningOfALongTextIsRead() {
        let text = String(repeating: "w ", count: AuthorityText.inputLimit / 2 - 4) + "eeeeeeee"
        let whole = AuthorityText(hiding: []).shown(text, limit: .max)
        #expect(whole?.hasSuffix("w eeeeeeee") == true)
        let cut = AuthorityText(hiding: []).shown(text + "e", limit: .max)
        #expect(cut?.hasSuffix("w w") == true)
    }

    @Test func aLongTextIsCut() {
        func text(_ count: Int) -> String { String(repeating: "w ", count: count / 2) + (count % 2 == 1 ? "w" : "") }
        let longest = text(AuthorityText.limit - 1)
        #expect(Self.shown(longest) == longest)
        #expect(Self.shown(longest + "w") == longest + "w")
        #expect(Self.shown(longest + "ww") == longest + "w…")
    }

    @Test func aLongRunOfCharactersIsHidden() {
        let run = String(repeating: "a1b2", count: AuthorityText.runLimit / 4)
        #expect(Self.shown("It is \(run) now") == "It is ‹hidden› now")
        #expect(Self.shown("It is \(run.dropLast()) now") == "It is \(run.dropLast()) now")
    }
}
