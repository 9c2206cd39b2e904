import GatewayHTTP
import GatewayTokens
import Testing

@Suite("Percent-encoding and forms", .timeLimit(.minutes(5)))
struct PercentEncodingTests {
    struct Coding: Sendable {
        let text: String
        let percent: String
        let form: String
    }

    private static let codings: [Coding] = [
        Coding(text: "", percent: "", form: ""),
        Coding(text: "azAZ09-._~", percent: "azAZ09-._~", form: "azAZ09-._~"),
        Coding(text: "a b+c", percent: "a%20b%2Bc", form: "a+b%2Bc"),
        Coding(text: "100% / 7:=&;", percent: "100%25%20%2F%207%3A%3D%26%3B", form: "100%25+%2F+7%3A%3D%26%3B"),
        Coding(text: "é😀\u{0}\u{7F}", percent: "%C3%A9%F0%9F%98%80%00%7F", form: "%C3%A9%F0%9F%98%80%00%7F"),
    ]

    @Test(arguments: codings)
    func whatIsEncodedComesBack(_ coding: Coding) {
        #expect(PercentEncoding.encode(coding.text) == coding.percent)
        #expect(PercentEncoding.bytes(of: coding.text) == Array(coding.percent.utf8))
        #expect(FormEncoding.encode(coding.text) == coding.form)
        #expect(PercentEncoding.decode(coding.percent) == coding.text)
        #expect(FormEncoding.decode(Array(coding.form.utf8)) == coding.text)
        #expect(lenient(coding.percent) == Array(coding.text.utf8))
        #expect(lenient(coding.form, isForm: true) == Array(coding.text.utf8))
    }

    private static let oddities: [(text: String, strict: String?, lenient: String, form: String)] = [
        ("a%2fb%c3%A9", "a/bé", "a/bé", "a/bé"),
        ("a+b", "a+b", "a+b", "a b"),
        ("%", nil, "%", "%"), ("%2", nil, "%2", "%2"), ("%zz", nil, "%zz", "%zz"), ("%%41", nil, "%A", "%A"),
        ("%2+1", nil, "%2+1", "%2 1"), ("%+1", nil, "%+1", "% 1"), ("100%", nil, "100%", "100%"),
        // Decoded once.
        ("%2541", "%41", "%41", "%41"),
        // Bytes that need an escape are taken as they are.
        ("a b=é", "a b=é", "a b=é", "a b=é"),
    ]

    @Test(arguments: oddities)
    func aBrokenEscapeIsRefusedOrKept(_ text: String, _ strict: String?, _ lenient: String, _ form: String) {
        #expect(PercentEncoding.decode(text) == strict)
        #expect(FormEncoding.decode(Array(text.utf8)) == (strict == nil ? nil : form))
        #expect(self.lenient(text) == Array(lenient.utf8))
        #expect(self.lenient(text, isForm: true) == Array(form.utf8))
    }

    @Test func onlyTheNamedRangeIsRead() {
        #expect(lenient("%41%42%43", 3..<6) == Array("B".utf8))
        #expect(lenient("%41%42%43", 3..<5) == Array("%4".utf8))
    }

    @Test func bytesThatAreNotTextAreRefused() {
        #expect(PercentEncoding.decode("%FF") == nil)
        #expect(FormEncoding.decode(Array("%C3".utf8)) == nil)
        #expect(lenient("%FF") == [0xFF])
    }

    @Test func aFormIsNamesAndValues() {
        let parameters = [
            TokenRequest.Parameter("a b", "c&d"), TokenRequest.Parameter("e", Secret("=+")),
            TokenRequest.Parameter("f", ""),
        ]
        #expect(String(decoding: FormEncoding.encode(parameters), as: UTF8.self) == "a+b=c%26d&e=%3D%2B&f=")
    }

    @Test(arguments: [
        ("/%6cog%69n%2D%7e", "/login-~"), ("/a%2Fb%3b%20%25", "/a%2Fb%3b%20%25"), ("/%", "/%"), ("/%4", "/%4"),
        ("/%zz%41", "/%zzA"), ("/%2541", "/%2541"), ("%2e%2E", ".."),
    ])
    func onlyEscapesOfUnreservedCharactersAreUndone(_ text: String, _ decoded: String) {
        #expect(PercentEncoding.decodeUnreserved(Array(text.utf8)) == Array(decoded.utf8))
    }

    private func lenient(_ text: String, _ range: Range<Int>? = nil, isForm: Bool = false) -> [UInt8] {
        let bytes = Array(text.utf8)
        return PercentEncoding.decodeLeniently(bytes.span, range ?? bytes.indices, isForm: isForm)
    }
}
