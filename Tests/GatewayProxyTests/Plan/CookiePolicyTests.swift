import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Cookies of a route", .timeLimit(.minutes(5)))
struct CookiePolicyTests {
    @Test func theDefaultDependsOnTheCredential() {
        #expect(CookiePolicy.standard(injectsCredential: true) == .drop)
        #expect(CookiePolicy.standard(injectsCredential: false) == .pass)
    }

    @Test(arguments: [
        (CookiePolicy.drop, FieldKind.cookie, true), (.drop, .setCookie, true), (.drop, .other, false),
        (.drop, .authorization, false), (.pass, .cookie, false), (.pass, .setCookie, false),
    ])
    func onlyCookiesAreDroppedAndOnlyByDrop(_ policy: CookiePolicy, _ kind: FieldKind, _ isDropped: Bool) {
        #expect(policy.drops(kind) == isDropped)
    }

    @Test func theWarningNamesTheKey() {
        #expect(CookiePolicy.warning(route: "jenkins").contains("routes.jenkins.cookies: pass"))
    }

    /// A trailer field is merged into the header section by some recipients.
    @Test(arguments: ["Cookie", "Set-Cookie", "set_cookie", "Set-Cookie2"])
    func noTrailerCarriesACookie(_ name: String) {
        var section = TrailerSection(maxBytes: 1000, maxFields: 10)
        let bytes = Array("X-Sum: 1\r\n\(name): a=b\r\n\r\n".utf8)
        guard case .complete(let output, _) = section.read(bytes.span) else {
            Issue.record("the section is complete")
            return
        }
        #expect(String(decoding: output, as: UTF8.self) == "X-Sum: 1\r\n\r\n")
    }
}
