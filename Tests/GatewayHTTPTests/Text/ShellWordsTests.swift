import GatewayHTTP
import Testing

@Suite("Shell words", .timeLimit(.minutes(5)))
struct ShellWordsTests {
    @Test(arguments: [
        ("curl -X POST a", ["curl", "-X", "POST", "a"]),
        ("a  'b c'\t\"d e\"", ["a", "b c", "d e"]),
        ("a'b'\"c\"", ["abc"]),
        (#"a\ b \'c"#, ["a b", "'c"]),
        (#""a\"b\\c\d""#, [#"a"b\c\d"#]),
        ("curl \\\n -H 'A: 1' \\\r\n b", ["curl", "-H", "A: 1", "b"]),
        ("'' \"\"", ["", ""]),
        (#"$'a\'b\n\x41\u00e9'"#, ["a'b\nAé"]),
        ("a # b\nc", ["a", "c"]),
        ("a#b", ["a#b"]),
        ("", []),
    ])
    func wordsAreSplitAsAShellDoes(_ text: String, _ words: [String]) throws {
        #expect(try ShellWords(text).words == words)
    }

    @Test(arguments: [
        ("curl a | jq .", Character("|"), ["curl", "a"]), ("curl http://x/?a=1&b=2", "&", ["curl", "http://x/?a=1"]),
        ("curl a; b", ";", ["curl", "a"]), ("curl a > f", ">", ["curl", "a"]),
    ])
    func anOperatorEndsTheCommand(_ text: String, _ end: Character, _ words: [String]) throws {
        let split = try ShellWords(text)
        #expect(split.end == end && split.words == words)
        #expect(try ShellWords("'\(text)'").end == nil)
    }

    @Test func variablesAreNamedAndNotFilledIn() throws {
        let split = try ShellWords(#"a "Bearer $TOKEN" ${B} '$C' $1 \$D $TOKEN"#)
        #expect(split.variables == ["TOKEN", "B"])
        #expect(split.words == ["a", "Bearer $TOKEN", "${B}", "$C", "$1", "$D", "$TOKEN"])
    }

    @Test(arguments: [("a 'b", Character("'")), ("\"b", "\""), (#"$'b\'"#, "'"), (#""b\"#, "\"")])
    func aQuotationMarkWithoutAPartnerIsRefused(_ text: String, _ mark: Character) {
        #expect(throws: ShellWords.Failure.openQuote(mark)) { try ShellWords(text) }
    }
}

@Suite("Commands for people", .timeLimit(.minutes(5)))
struct GatewayCommandTests {
    @Test func plainNamesStayAsTheyAre() {
        #expect(GatewayCommand.line("token", "clear", "box-service_2.x") == "authgateway token clear box-service_2.x")
    }

    @Test(arguments: [
        "reg[http://127.0.0.1/token?a&touch/x&/tmp/evil&&service=s]", "app-user[42]", "a b", "it's", "$(id)", "`id`",
        "a;b", "a|b", "a>b", "a*", "~", "#a", "a\"b", "a\\b", "!a", "{a,b}", "", "&", "a\tb",
    ])
    func aShellReadsANameAsOneWord(_ name: String) throws {
        let line = GatewayCommand.line("token", "clear", name)
        let read = try ShellWords(line)
        #expect(read.words == ["authgateway", "token", "clear", name])
        #expect(read.end == nil && read.variables.isEmpty)
    }

    /// Each printable character of ASCII, in the middle of a name.
    @Test func noCharacterMeansAnythingToAShell() throws {
        for byte in UInt8(0x20)...0x7E {
            let name = "reg[a\(Character(UnicodeScalar(byte)))b]"
            #expect(try ShellWords(GatewayCommand.line("login", name)).words == ["authgateway", "login", name])
        }
    }
}
