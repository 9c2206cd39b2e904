import Testing

@testable import GatewayHTTP

@Suite("Internationalized host names", .timeLimit(.minutes(1)))
struct PunycodeTests {
    /// The encodings are those of RFC 3492 section 7.1 and of registered names.
    @Test(arguments: [
        ("bücher.example", "xn--bcher-kva.example"), ("API.MÜNCHEN-ost.example", "api.xn--mnchen-ost-9db.example"),
        ("日本語.jp", "xn--wgv71a119e.jp"), ("пример", "xn--e1afmkfd"), ("a.ñandú", "a.xn--and-6ma2c"),
        ("他们为什么不说中文", "xn--ihqwcrb4cv8a8dqg056pqjye"),
    ])
    func aNameIsWrittenInASCII(_ name: String, _ expected: String) {
        #expect(Punycode.hostName(name) == expected)
    }

    /// As some editors and file systems write letters with accents.
    @Test func twoScalarsAreOneLetter() {
        #expect(Punycode.hostName("bu\u{308}cher.example") == "xn--bcher-kva.example")
        #expect(Punycode.hostName("E\u{301}tude") == Punycode.hostName("étude"))
    }

    @Test(arguments: [
        "", "example.com", "a.b:80", String(repeating: "é", count: 70), String(repeating: "é.", count: 200),
    ])
    func othersHaveNoOtherForm(_ name: String) { #expect(Punycode.hostName(name) == nil) }

    @Test func anUpstreamIsToldHowToWriteIt() {
        let refusal = #expect(throws: UpstreamURL.Refusal.self) { try UpstreamURL("https://bücher.example:8443/x") }
        #expect(refusal?.message.hasSuffix("https://xn--bcher-kva.example:8443") == true)
        let port = #expect(throws: UpstreamURL.Refusal.self) { try UpstreamURL("http://büro:8080") }
        #expect(port?.message.hasSuffix("http://xn--bro-hoa:8080") == true)
    }
}
