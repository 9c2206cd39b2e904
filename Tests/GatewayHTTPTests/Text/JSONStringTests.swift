import GatewayHTTP
import Testing

@Suite("JSON strings", .timeLimit(.minutes(5)))
struct JSONStringTests {
    private static let texts: [(text: String, plain: String, harmless: String)] = [
        ("", #""""#, #""""#),
        ("Ünïcode 😀", #""Ünïcode 😀""#, #""Ünïcode 😀""#),
        (#"a"b\c/"#, #""a\"b\\c/""#, #""a\"b\\c/""#),
        ("\n\r\t", #""\n\r\t""#, #""\n\r\t""#),
        ("\u{0}\u{1B}\u{7F}", #""\u0000\u001b\u007f""#, #""\u0000\u001b\u007f""#),
        // A reader of JSON takes these as they are, a terminal or a person does not.
        ("\u{85}\u{2028}\u{202E}", "\"\u{85}\u{2028}\u{202E}\"", #""\u0085\u2028\u202e""#),
        ("\u{E0041}", "\"\u{E0041}\"", #""\udb40\udc41""#),
    ]

    @Test(arguments: texts)
    func theyAreWrittenAsTheReaderNeedsThem(_ text: String, _ plain: String, _ harmless: String) {
        #expect(JSONString.quoted(text) == plain)
        #expect(JSONString.quoted(text, isPlain: \.isHarmless) == harmless)
        for written in [plain, harmless] { #expect(JSONValue(Array(written.utf8))?.string == text) }
    }

    @Test func whatIsTooLongIsCutAndMarked() {
        #expect(JSONString.quoted("abcdef", limit: 4, isPlain: \.isHarmless) == #""abc…""#)
        #expect(JSONString.quoted("abc", limit: 4, isPlain: \.isHarmless) == #""abc""#)
        // An escape is whole or not there.
        #expect(JSONString.quoted("ab\u{1}c", limit: 4, isPlain: \.isHarmless) == #""ab\u0001…""#)
    }
}
