import Testing

@testable import GatewayHTTP

@Suite("Regular expressions", .timeLimit(.minutes(5)))
struct TextPatternTests {
    private func match(_ pattern: String, _ text: String) throws -> String? {
        try TextPattern(pattern).firstMatch(in: Array(text.utf8)).map { String(decoding: $0, as: UTF8.self) }
    }

    private static let cases: [(String, String, String?)] = [
        ("abc", "xxabcxx", "abc"),
        ("a(b)c", "xxabcxx", "b"),
        ("a.c", "a\nc abc", "abc"),
        ("(a|ab)(?:c|bcd)", "abcd", "a"),
        ("(a+)", "baaac", "aaa"),
        ("(a+?)", "baaac", "a"),
        ("<(.*)>", "<a><b>", "a><b"),
        ("<(.*?)>", "<a><b>", "a"),
        ("<([^>]*)>", "<a><b>", "a"),
        ("^b", "ab", nil),
        ("^a", "ab", "a"),
        ("b$", "ab", "b"),
        ("a$", "ab", nil),
        (#"\d{4}-\d{2}"#, "on 2026-03-01", "2026-03"),
        (#"(\w+)@"#, "mail ada_1@example.com", "ada_1"),
        ("a{2,3}", "aaaa", "aaa"),
        ("a{2,}?", "aaaa", "aa"),
        ("(?:ab)+", "ababa", "abab"),
        ("[a-c-]+", "x-a-c-d", "-a-c-"),
        ("[]x]+", "a]x]b", "]x]"),
        ("[^\\]]+", "]]ab]", "ab"),
        (#"\."#, "a.b", "."),
        ("ü", "für", "ü"),
        ("x*", "aaa", ""),
        ("(a*)*b", "aaab", "aaa"),
        ("name=\"csrf\" value=\"([^\"]+)\"", "<input name=\"csrf\" value=\"t0k\">", "t0k"),
        ("(?:a|b|c)d", "xbd", "bd"),
        ("", "abc", ""),
    ]

    @Test(arguments: cases)
    func itFinds(_ pattern: String, _ text: String, _ expected: String?) throws {
        #expect(try match(pattern, text) == expected)
    }

    @Test(arguments: [
        "(", ")", "a)", "[a", "*a", "a**", "a{", "a{3,2}", "a{1000}", "(a)(b)", "(?=a)", "(?<n>a)", "\\1", "\\p{L}",
        "a\\",
        "[z-a]", "[ä]",
    ])
    func whatItDoesNotKnowIsRefused(_ pattern: String) {
        #expect(throws: UnusableInput.self) { try TextPattern(pattern) }
    }

    @Test func aPatternThatIsTooLargeIsRefused() {
        #expect(throws: UnusableInput.self) { try TextPattern("(?:(?:a{100}){100}){100}") }
        #expect(throws: UnusableInput.self) { try TextPattern(String(repeating: "(?:", count: 1000)) }
    }

    /// What takes a backtracking engine longer than the universe lasts.
    @Test func itsTimeGrowsWithTheTextAlone() throws {
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: 20_000)
        let patterns = try ["(a+)+$b", "(?:a|aa)+$b", "(?:a*)*(?:a*)*b"].map { try TextPattern($0) }
        let elapsed = ContinuousClock().measure {
            for pattern in patterns { #expect(pattern.firstMatch(in: text) == nil) }
        }
        #expect(elapsed < .seconds(20))
    }

    @Test func onlyTheBeginningOfALongTextIsSearched() throws {
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: TextPattern.longestText) + Array("b".utf8)
        #expect(try TextPattern("b").firstMatch(in: text) == nil)
    }

    // MARK: Bounds

    private func isRead(_ pattern: String) -> Bool { (try? TextPattern(pattern)) != nil }

    @Test func theLengthOfASearchedTextIsLimited() throws {
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: TextPattern.longestText - 1)
        #expect(try TextPattern("b").firstMatch(in: text + Array("b".utf8)) != nil)
        #expect(try TextPattern("b").firstMatch(in: text + Array("ab".utf8)) == nil)
    }

    @Test func theStepsOfASearchAreLimited() throws {
        let pattern = try TextPattern("(?:.*a){20}z")
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: 1000) + Array("z".utf8)
        #expect(pattern.firstMatch(in: text) != nil)
        #expect(pattern.firstMatch(in: text, mostSteps: 1000) == nil)
        // Never more steps for a byte than the size says.
        #expect(pattern.firstMatch(in: text, mostSteps: (text.count + 1) * pattern.size) != nil)
        // A text that fits nowhere costs few.
        let page = [UInt8](repeating: UInt8(ascii: "<"), count: 1000) + Array("session expired".utf8)
        let alternatives = try TextPattern("(?:session|login|token)[a-z ]{0,40}(?:expired|invalid)")
        #expect(alternatives.size <= 128)
        #expect(alternatives.firstMatch(in: page, mostSteps: 10_000) != nil)
    }

    @Test func theSizeOfAPatternIsLimited() {
        #expect(isRead(String(repeating: "a", count: TextPattern.largestProgram)))
        #expect(!isRead(String(repeating: "a", count: TextPattern.largestProgram + 1)))
    }

    @Test func theNestingOfGroupsIsLimited() {
        func nested(_ count: Int) -> String {
            String(repeating: "(?:", count: count) + "a" + String(repeating: ")", count: count)
        }
        // The pattern itself is the first level.
        #expect(isRead(nested(TextPatternParser.deepest - 1)))
        #expect(!isRead(nested(TextPatternParser.deepest)))
    }

    @Test func theCountOfARepetitionIsLimited() {
        let most = TextPatternParser.maximumRepetitions
        for pattern in ["a{\(most)}", "a{0,\(most)}", "a{\(most),}"] { #expect(isRead(pattern)) }
        for pattern in ["a{\(most + 1)}", "a{0,\(most + 1)}", "a{\(most + 1),}"] { #expect(!isRead(pattern)) }
    }
}
