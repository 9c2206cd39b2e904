import GatewayHTTP
import GatewayProxy
import Testing

@Suite("Answers to whoami", .timeLimit(.minutes(5)))
struct WhoAmIAnswerTests {
    private static func text(_ name: String, hiding secrets: [Secret] = []) -> String {
        let request = WhoAmI(path: "/user", shows: JSONPointer("/login"))
        let body = JSONValue.object(["login": .string(name)])
        return WhoAmIAnswer(status: 200, body: body, to: request, hiding: secrets).text(to: request)
    }

    @Test func aNameIsShown() {
        #expect(Self.text("octo-cat").hasSuffix("the credential is that of octo-cat"))
        #expect(Self.text("ada@example.com").hasSuffix("ada@example.com"))
    }

    @Test(arguments: ["Bearer ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"])
    func aCredentialThatTheServiceRepeatsIsNot(_ name: String) {
        #expect(!Self.text(name).contains("292c6912"))
    }

    @Test func aShortSecretIsKnownByItsValue() {
        #expect(!Self.text("Bearer s3cr3t-x", hiding: [Secret("Bearer s3cr3t-x")]).contains("s3cr3t"))
    }

    @Test func whatIsLongIsCut() {
        #expect(Self.text(String(repeating: "a b ", count: 500)).count < 200)
        let request = WhoAmI(path: "/")
        #expect(WhoAmIAnswer.failed("h cannot be resolved.").text(to: request) == "GET /: h cannot be resolved")
        #expect(WhoAmIAnswer.failed(String(repeating: "A", count: 5000)).text(to: request).count < 300)
    }
}
