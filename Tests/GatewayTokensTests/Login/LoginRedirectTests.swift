import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Login redirects and answers", .timeLimit(.minutes(5)))
struct LoginRedirectTests {
    @Test(arguments: [
        (
            "http://127.0.0.1:8765/callback",
            LoginRedirect.loopback(.init(host: "127.0.0.1", port: 8765, path: "/callback"))
        ),
        ("http://127.0.0.1:0/callback", .loopback(.init(host: "127.0.0.1", port: nil, path: "/callback"))),
        ("http://[::1]:9000", .loopback(.init(host: "::1", port: 9000, path: ""))),
        ("http://LOCALHOST/cb", .loopback(.init(host: "localhost", port: 80, path: "/cb"))),
        ("https://apps.example.com/cb?x=1", .elsewhere("https://apps.example.com/cb?x=1")),
        ("boxsdk-id://boxsdkoauth2redirect", .elsewhere("boxsdk-id://boxsdkoauth2redirect")),
        ("urn:ietf:wg:oauth:2.0:oob", .elsewhere("urn:ietf:wg:oauth:2.0:oob")),
    ])
    func areReadFromTheConfiguration(_ text: String, _ expected: LoginRedirect) throws {
        #expect(try LoginRedirect(text) == expected)
    }

    @Test(arguments: [
        ("callback", LoginRedirect.Refusal.notAbsolute), ("/callback", .notAbsolute), ("http://", .notAbsolute),
        ("http://127.0.0.1:99999/", .notAbsolute), ("http://me@127.0.0.1/", .notAbsolute), ("https:", .notAbsolute),
        ("http://apps.example.com/cb", .plaintext), ("http://127.0.0.1.example.com/cb", .plaintext),
        ("http://x.localhost/cb", .plaintext),
        ("http://127.0.0.1/cb#x", .hasFragment), ("http://127.0.0.1/cb?x=1", .hasQuery),
    ])
    func thatCannotWorkAreRefused(_ text: String, _ refusal: LoginRedirect.Refusal) {
        #expect(throws: refusal) { try LoginRedirect(text) }
    }

    @Test func theRealPortStandsInTheAddress() throws {
        #expect(try LoginRedirect("http://127.0.0.1:0/cb").uri(port: 5123) == "http://127.0.0.1:5123/cb")
        #expect(try LoginRedirect("http://[::1]:9000").uri(port: 9000) == "http://[::1]:9000")
        #expect(LoginRedirect.ephemeral.uri(port: 5123) == "http://127.0.0.1:5123/callback")
    }

    private let expected = "http://127.0.0.1:8765/callback"

    @Test func theQueryIsReadByName() throws {
        let answer = try LoginParameters(expected + "?state=a%2Db&empty=&code=x+y%3D&extra=1#_=_", expecting: expected)
        #expect(answer["code"] == "x y=")
        #expect(answer["state"] == "a-b")
        #expect(answer["empty"] == nil)
        #expect(answer["error"] == nil)
    }

    @Test func aBrowserMayAddTheSlashOfAnEmptyPath() throws {
        let custom = "boxsdk-id://redirect"
        #expect(try LoginParameters(custom + "/?code=1", expecting: custom)["code"] == "1")
        #expect(try LoginParameters(custom + "?code=1", expecting: custom)["code"] == "1")
    }

    @Test func aQueryOfTheRedirectIsKept() throws {
        let redirect = "https://apps.example.com/cb?x=1"
        #expect(try LoginParameters(redirect + "&code=1", expecting: redirect)["code"] == "1")
    }

    @Test(arguments: [
        "http://127.0.0.1:8765/callback2?code=1", "http://127.0.0.1:8765/?code=1",
        "http://127.0.0.1:8766/callback?code=1",
        "http://localhost:8765/callback?code=1", "https://127.0.0.1:8765/callback?code=1",
        "http://127.0.0.1:8765/callback/?code=1", "http://evil.example/http://127.0.0.1:8765/callback?code=1",
    ])
    func anotherAddressIsNotTheAnswer(_ address: String) {
        #expect(throws: LoginRefusal.elsewhere(expected: expected)) {
            try LoginParameters(address, expecting: expected)
        }
    }

    @Test(arguments: ["?code=1&code=2", "?code=%", "?code=%zz", "?code=%ff", "?code=a b", "?code=é"])
    func aBrokenQueryIsUnreadable(_ query: String) {
        #expect(throws: LoginRefusal.unreadable) { try LoginParameters(expected + query, expecting: expected) }
    }

    @Test func anEndlessAddressIsUnreadable() {
        let query = "?code=" + String(repeating: "a", count: LoginAnswer.limitBytes)
        #expect(throws: LoginRefusal.unreadable) { try LoginParameters(expected + query, expecting: expected) }
    }

    @Test func attemptsAreRandomAndLongEnough() {
        var random = SplitMix(seed: 1)
        let one = LoginAttempt(redirectURI: expected, random: &random)
        let two = LoginAttempt(redirectURI: expected, random: &random)
        #expect(one.state != two.state && one.verifier != two.verifier && one.state != one.verifier)
        for token in [one.state, one.verifier] {
            // RFC 7636 §4.1: 43 to 128 unreserved characters.
            #expect(token.withValue { $0.utf8.count } == 43)
        }
        #expect(!"\(one)".contains(one.state.withValue { $0 }))
    }

    @Test func refusalsSayWhatHappenedAndNothingOfTheAnswer() {
        let refusals: [LoginRefusal] = [
            .unreadable, .elsewhere(expected: expected), .wrongState, .missingState, .wrongIssuer,
            .denied("access_denied"), .denied("other"), .denied("invalid_scope"), .incomplete(missing: "code"),
            .addressNeeded,
        ]
        for refusal in refusals {
            #expect(refusal.problem.kind == .loginFailed)
            #expect(refusal.problem.detail.hasSuffix("begin a new login."))
        }
        #expect(Set(refusals.map(\.problem.detail)).count == refusals.count)
    }
}
