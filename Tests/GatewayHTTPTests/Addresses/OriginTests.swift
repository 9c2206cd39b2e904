import Testing

@testable import GatewayHTTP

@Suite("Origins", .timeLimit(.minutes(5)))
struct OriginTests {
    @Test(
        "host and port are read from an authority, without the brackets of an IPv6 address",
        arguments: [
            ("Api.Example", "api.example", 80), ("127.0.0.1:8080", "127.0.0.1", 8080), ("[::1]", "::1", 80),
            ("[2001:DB8::7]:8080", "2001:db8::7", 8080), ("a.example.:80", "a.example.", 80),
            ("[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1", 1),
        ]
    )
    func read(authority: String, host: String, port: Int) {
        #expect(Origin(scheme: .http, authority: authority) == Origin(scheme: .http, host: host, port: port))
    }

    @Test func theDotOfTheRootIsForTheResolverAlone() throws {
        let origin = try #require(Origin(scheme: .https, authority: "Api.example.:8443"))
        #expect((origin.host, origin.lookupName) == ("api.example", "api.example."))
        #expect(origin.description == "https://api.example:8443")
        #expect(Origin(scheme: .https, host: "api.example", port: 8443).lookupName == "api.example")
        #expect(Set([origin, Origin(scheme: .https, host: "api.example", port: 8443)]).count == 1)
    }

    /// A resolver takes them for names, which may lead elsewhere.
    @Test(arguments: [
        ("127.0.0.1.", true), ("localhost.", true), ("a.localhost.", true), ("10.0.0.1.:80", true),
        ("127.0.0.1", false), ("api.example.", false), ("[::1]", false),
    ])
    func anAddressHasNoDotOfTheRoot(_ authority: String, _ isRefused: Bool) throws {
        #expect(try #require(Origin(scheme: .http, authority: authority)).isRootedAddress == isRefused)
        for scheme in ["http", "https"] where isRefused {
            #expect(throws: AuthorityURL.Refusal.rootedAddress) { try AuthorityURL("\(scheme)://\(authority)/token") }
            let refusal = #expect(throws: UnusableInput.self) { try UpstreamURL("\(scheme)://\(authority)") }
            #expect(refusal?.message.contains("dot at the end") == true)
        }
    }

    @Test func aDotWithinBracketsStays() {
        #expect(Origin(scheme: .http, authority: "[::1.]")?.isLoopback != true)
    }

    @Test(arguments: [
        ("https://idp.example./token?a=b.", "idp.example", "/token?a=b."),
        ("https://idp.example.:8443", "idp.example:8443", ""), ("https://idp.example./", "idp.example", "/"),
        ("https://idp.example?a=/b", "idp.example", "?a=/b"),
    ])
    func aTokenRequestHasNoDotOfTheRoot(_ text: String, _ authority: String, _ target: String) throws {
        let url = try AuthorityURL(text)
        #expect(url.origin.authority == authority && url.target == target)
    }

    @Test(
        "what has a second spelling, or none, is no authority",
        arguments: [
            "", ":80", "[]", "[::1", "::1", "[10.0.0.1]", "[10.0.0.1]:80", "[1:2]", "[abc]", "[localhost]", "[::1]80",
            "a:", "a:0", "a:65536", "a:000080", "a:-1", "a:1:2", "a b", "user@a", "..", ".", ".a", "a..b", "a..",
        ]
    )
    func refused(authority: String) {
        #expect(Origin(scheme: .http, authority: authority) == nil)
    }

    @Test func theLengthOfAHostNameIsLimited() {
        func isRead(_ count: Int) -> Bool {
            Origin(scheme: .https, authority: String(repeating: "a", count: count)) != nil
        }
        #expect(isRead(255))
        #expect(!isRead(256))
    }
}

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
        let refusal = #expect(throws: UnusableInput.self) { try UpstreamURL("https://bücher.example:8443/x") }
        #expect(refusal?.message.hasSuffix("https://xn--bcher-kva.example:8443") == true)
        let port = #expect(throws: UnusableInput.self) { try UpstreamURL("http://büro:8080") }
        #expect(port?.message.hasSuffix("http://xn--bro-hoa:8080") == true)
    }
}
