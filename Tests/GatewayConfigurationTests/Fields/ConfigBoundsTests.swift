import Testing

@testable import GatewayConfiguration

/// How much of a large file diagnostics read and show.
@Suite("Bounds of diagnostics", .timeLimit(.minutes(1)))
struct ConfigBoundsTests {
    private static func text(_ count: Int, _ character: Character = "a") -> String {
        String(repeating: character, count: count)
    }

    private static let start = SourceSpan(file: 0, line: 1, column: 1)

    private static func file(_ lines: [String]) -> ConfigDocument.File {
        ConfigDocument.File(name: "a.yaml", path: "/a.yaml", lines: lines)
    }

    @Test func theNumberOfShownDiagnosticsIsLimited() {
        func report(_ count: Int) -> String {
            let diagnostics = (1...count).map { ConfigDiagnostic(.error, "no. \($0)", at: Self.start) }
            return DiagnosticRenderer(files: []).render(diagnostics, consequence: "refused")
        }
        let most = DiagnosticRenderer.maximumShown
        #expect(report(most).contains("no. \(most)\n") && !report(most).contains("more."))
        #expect(!report(most + 1).contains("no. \(most + 1)\n") && report(most + 1).contains("… and 1 more."))
    }

    @Test func aLineIsCutAtTheWidthOfAScreen() {
        let widest = Self.text(SourceLine.widest)
        #expect(SourceLine(widest, hiding: []).text == widest)
        #expect(SourceLine(widest + "a", hiding: []).text == widest + "…")
    }

    @Test func aVariableIsMarkedUnlessItsLineIsTooLong() {
        func span(_ count: Int) -> SourceSpan? {
            let text = "${X}" + Self.text(count - 4)
            var node = ConfigNode(
                .scalar(.init(text: text, isQuoted: false)),
                at: SourceSpan(file: 0, line: 1, column: 1, length: count)
            )
            var interpolation = Interpolation(files: [Self.file([text])]) { _ in nil }
            interpolation.apply(to: &node)
            return interpolation.diagnostics.first?.span
        }
        #expect(span(Interpolation.longestSearched)?.length == 4)
        #expect(span(Interpolation.longestSearched + 1)?.length == Interpolation.longestSearched + 1)
    }

    @Test func onlyShortKeysAreRepeated() {
        #expect(ShownKey("\(Self.text(ShownKey.longest)):x").advice != nil)
        #expect(ShownKey("\(Self.text(ShownKey.longest + 1)):x").advice == nil)
        #expect(ShownKey(Self.text(ShownKey.longest)).isWord && !ShownKey(Self.text(ShownKey.longest + 1)).isWord)
    }

    /// A file without a known key might be a list of secrets, so nothing of it is shown.
    @Test func keysAreOnlyLookedForNearTheStartOfALine() {
        func isHidden(_ indentation: Int) -> Bool {
            let lines = UnreadLines([Self.text(indentation, " ") + "version: 1"])
            return !lines.hidden(from: [ConfigDiagnostic(.error, "wrong", at: Self.start)]).isEmpty
        }
        let most = UnreadLines.searched - "version:".count
        #expect(!isHidden(most))
        #expect(isHidden(most + 1))
    }

    @Test func theNumberOfListedNamesIsLimited() {
        func message(_ count: Int) -> String {
            let known = (1...count).map { "name\($0)" }
            return UnknownName.message("zzzzzzzzzzzz", kind: "route", in: "it", known: known) ?? ""
        }
        #expect(!message(UnknownName.listed).contains("more"))
        #expect(message(UnknownName.listed + 1).hasSuffix(" and 1 more"))
    }

    @Test func theNumberOfComparedLinesIsLimited() {
        func difference(_ count: Int) -> String {
            // The first and last lines differ; otherwise the common lines would be skipped without a comparison.
            let old = ["a"] + (2..<ConfigurationDifference.maximumCompared / 2).map { "x\($0)" } + ["b"]
            let new = ["c"] + (2..<count - old.count).map { "x\($0)" } + ["d"]
            return ConfigurationDifference(of: "a.yaml", from: .init(old), to: .init(new)).text
        }
        #expect(difference(ConfigurationDifference.maximumCompared).contains("-a\n+c\n x2\n"))
        #expect(difference(ConfigurationDifference.maximumCompared + 1).contains("-a\n-x2\n"))
    }

    @Test func theNumberOfEntriesHasARange() {
        func entries(_ number: Int) -> Int? {
            try? ConfigurationSize.read { _ in String(number) }.get().entries
        }
        for number in [ConfigurationSize.range.lowerBound, ConfigurationSize.range.upperBound] {
            #expect(entries(number) == number)
        }
        #expect(entries(ConfigurationSize.range.lowerBound - 1) == nil)
        #expect(entries(ConfigurationSize.range.upperBound + 1) == nil)
    }
}
