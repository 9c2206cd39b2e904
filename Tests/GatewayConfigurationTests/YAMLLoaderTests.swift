import Testing

@testable import GatewayConfiguration

@Suite("YAML loader", .timeLimit(.minutes(5)))
struct YAMLLoaderTests {
    private func load(_ text: String) -> YAMLDocument { YAMLLoader().load(Array(text.utf8)) }

    private func value(_ key: String, in document: YAMLDocument) -> ConfigNode? {
        guard case .mapping(let entries) = document.root?.content else { return nil }
        return entries.first { $0.key == key }?.value
    }

    @Test func nodesKnowWhereTheyStand() throws {
        let document = load("a: 1\nlong:\n  - x\n  - {b: \"two words\"}\n")
        let long = try #require(value("long", in: document))
        #expect(value("a", in: document)?.span == SourceSpan(file: 0, line: 1, column: 4, length: 1))
        guard case .sequence(let elements) = long.content else {
            Issue.record("not a sequence")
            return
        }
        #expect(elements[0].span == SourceSpan(file: 0, line: 3, column: 5, length: 1))
        #expect(elements[1].span == SourceSpan(file: 0, line: 4, column: 5, length: 16))
    }

    @Test func columnsCountCharactersNotBytes() {
        let document = load("\"ключ\": {x: y, x: z}\n")
        #expect(document.diagnostics.map(\.span) == [SourceSpan(file: 0, line: 1, column: 16, length: 1)])
    }

    @Test func aDuplicateKeyNamesBothPlaces() {
        let document = load("a: 1\nb: 2\na: 3\n")
        #expect(document.diagnostics.count == 1)
        #expect(document.diagnostics.first?.span.line == 3)
        #expect(document.diagnostics.first?.related?.span.line == 1)
        #expect(document.root != nil)
    }

    @Test func billionLaughsEndAtOnce() {
        var text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        for level in 1..<30 {
            let aliases = Array(repeating: "*a\(level - 1)", count: 10).joined(separator: ", ")
            text += "a\(level): &a\(level) [\(aliases)]\n"
        }
        let document = load(text)
        #expect(document.root == nil)
        #expect(document.diagnostics.first?.message == "aliases expand to more than 1000000 values")
    }

    @Test func aliasesDoNotEvadeTheDepth() {
        var text = "a0: &a0 [x]\n"
        for level in 1..<80 { text += "a\(level): &a\(level) [*a\(level - 1)]\n" }
        #expect(load(text).diagnostics.first?.message == "nested deeper than 64 levels")
    }

    @Test(arguments: ["[", "{a: ", "- ", "? "])
    func deepNestingIsRefused(_ opening: String) {
        let document = load(String(repeating: opening, count: 100_000))
        #expect(document.root == nil)
        #expect(document.diagnostics.count == 1)
    }

    @Test func aDocumentOfTwentyMebibytesIsRefusedUnread() {
        let document = YAMLLoader().load(Array(repeating: UInt8(ascii: "a"), count: 20 << 20))
        #expect(document.diagnostics.map(\.message) == ["the file is larger than 16MiB; split it with \"include\""])
    }

    struct Refusal: CustomTestStringConvertible {
        let bytes: [UInt8]
        let message: String
        let line: Int
        let column: Int
        var testDescription: String { message }

        init(_ text: String, _ message: String, _ line: Int, _ column: Int) {
            self.init(Array(text.utf8), message, line, column)
        }

        init(_ bytes: [UInt8], _ message: String, _ line: Int, _ column: Int) {
            self.bytes = bytes
            self.message = message
            self.line = line
            self.column = column
        }
    }

    @Test(arguments: [
        Refusal("a: 1\nb: \0", "a NUL byte; the file is not text", 2, 4),
        Refusal("a: \u{7}", "a control character (U+0007)", 1, 4),
        Refusal([0x61, 0x3A, 0x20, 0xFF], "not valid UTF-8", 1, 4),
        Refusal([0xFF, 0xFE, 0x61, 0], "the file is UTF-16; save it as UTF-8", 1, 1),
        Refusal("a: b\u{FEFF}", "a byte order mark in the middle of the file", 1, 5),
        Refusal("", "the file is empty", 1, 1),
        Refusal("# nothing\n", "the file is empty", 1, 1),
        Refusal("a:\n\tb: 1\n", "a tab cannot indent; use spaces", 2, 1),
        Refusal("a: 1\n---\nb: 2\n", "only one document per file; remove this line and what follows", 2, 1),
        Refusal("a: !!python/object x\n", "tags are not supported; remove this one", 1, 4),
        Refusal("a: *b\n", "no anchor &b is defined before this alias", 1, 4),
        Refusal("? [a]\n: b\n", "a key must be a plain word, not a list, a mapping or an alias", 1, 3),
        Refusal("~: b\n", "a key must not be empty", 1, 1),
        Refusal(
            "a: b: c\n",
            """
            a ":" is not expected here; put the value in quotes, check the indentation, or put a space after the ":" of \
            the line above
            """,
            1,
            5
        ),
        Refusal("a: @b\n", "a value cannot begin with \"@\"; put it in quotes", 1, 4),
    ])
    func whatCannotBeReadIsRefusedWithItsPlace(_ refusal: Refusal) {
        let document = YAMLLoader().load(refusal.bytes)
        #expect(document.root == nil)
        #expect(document.diagnostics.map(\.message) == [refusal.message])
        #expect(document.diagnostics.first?.span.line == refusal.line)
        #expect(document.diagnostics.first?.span.column == refusal.column)
    }

    @Test func aByteOrderMarkAtTheStartIsNoPartOfTheFirstKey() {
        let document = YAMLLoader().load([0xEF, 0xBB, 0xBF] + Array("a: 1\n".utf8))
        #expect(value("a", in: document)?.span.column == 4)
    }

    @Test func aMergeKeyIsRefusedWithAnAlternative() {
        let message = load("a: &a {x: 1}\nb:\n  <<: *a\n").diagnostics.first?.message
        #expect(message?.hasPrefix("merge keys (<<) are not supported; write the keys out") == true)
    }

    @Test func anAnchorIsUsedTwiceWithTheSameContent() {
        let document = load("a: &a {x: [1, 2]}\nb: *a\n")
        #expect(document.diagnostics.isEmpty)
        #expect(value("a", in: document)?.content == value("b", in: document)?.content)
    }

    @Test func quotesAndTagsMakeStrings() {
        let document = load("a: \"1\"\nb: !!str 1\nc: 1\n")
        func isQuoted(_ key: String) -> Bool? {
            guard case .scalar(let scalar) = value(key, in: document)?.content else { return nil }
            return scalar.isQuoted
        }
        #expect(isQuoted("a") == true)
        #expect(isQuoted("b") == true)
        #expect(isQuoted("c") == false)
    }

    @Test func linesAreCountedAsTheParserCountsThem() {
        let document = load("a: 1\r\nb: 2\rc: 3\u{2028}d: \u{1}")
        #expect(document.diagnostics.first?.span.line == 4)
    }

    @Test(
        arguments: [
            ("", []), ("x", ["x"]), ("x\n", ["x"]), ("a: 1\n\n\tb", ["a: 1", "", "\tb"]),
            ("a\r\nb\rc\n\n", ["a", "b", "c", ""]),
            ("ключ: 1\nb\u{85}c\u{2028}\nd", ["ключ: 1", "b", "c", "", "d"]),
        ] as [(String, [String])]
    )
    func linesEndWhereTheParserEndsThem(_ text: String, _ lines: [String]) { #expect(load(text).lines == lines) }

    @Test func aCharacterThatIsCutOffEndsWithItsLine() {
        let document = YAMLLoader().load([0x61, 0x3A, 0x20, 0x31, 0x0A, 0x62, 0xE2, 0x82, 0x0A, 0x63])
        #expect(document.lines == ["a: 1", "b\u{FFFD}", "c"])
        #expect(document.diagnostics.map(\.span) == [SourceSpan(file: 0, line: 2, column: 2)])
    }
}
