import Testing

@testable import GatewayConfiguration
@testable import GatewayHTTP

/// In lines that were never decoded, anything that might be a secret is masked, however far it is from its key.
@Suite("Secrets in lines that were not decoded", .timeLimit(.minutes(1)))
struct SecretMaskTests {
    /// A value that spans this many lines below its key, then another key.
    private static func lines(_ key: String, _ count: Int) -> [String] {
        ["\(key): |"] + (1...count).map { "  line\($0)" } + ["other: x"]
    }

    @Test(arguments: [1, SecretMask.maximumContinued, SecretMask.maximumContinued + 1, 1000])
    func everyLineOfASecretContinuesIt(_ count: Int) {
        let lines = Self.lines("password", count)
        let expected = [false] + [Bool](repeating: true, count: count) + [false]
        #expect(SecretMask.continuations(in: lines) == expected)
        #expect(lines.indices.map { SecretMask.continuesSecret($0, in: lines) } == expected)
    }

    @Test func aLineWithoutAKeyNearbyCountsAsASecret() {
        let lines = Self.lines("paths", SecretMask.maximumContinued + 1)
        #expect(!SecretMask.continuesSecret(SecretMask.maximumContinued, in: lines))
        #expect(SecretMask.continuesSecret(SecretMask.maximumContinued + 1, in: lines))
        // Reading all lines at once finds every key.
        #expect(!SecretMask.continuations(in: lines).contains(true))
    }

    @Test func theLinesOfALongSecretAreNotPrinted() {
        let lines = Self.lines("password", 300)
        let file = ConfigDocument.File(name: "a.yaml", path: "/a.yaml", lines: lines)
        let renderer = DiagnosticRenderer(files: [file])
        for line in [2, 201, 202, 301] {
            let span = SourceSpan(file: 0, line: line, column: 3)
            let text = renderer.render(ConfigDiagnostic(.error, "wrong", at: span))
            #expect(text.contains("***") && !text.contains("line\(line - 1)"), "\(text)")
        }
        let old = ConfigurationDifference.Side(lines)
        let new = ConfigurationDifference.Side(lines.map { $0 == "  line250" ? "  changed" : $0 })
        let difference = ConfigurationDifference(of: "a.yaml", from: old, to: new).text
        #expect(difference.contains("+  ***") && !difference.contains("line") && !difference.contains("changed"))
    }

    /// The key is at the start, in the middle or at the end of the line.
    @Test(arguments: [-1, 0, 1, 100, 4000, 10_000])
    func aSecretIsFoundInALineOfAnyLength(_ more: Int) {
        let filler = String(repeating: "x", count: max(0, SecretMask.searched + more))
        #expect(SecretMask.opensSecret("{a: \(filler), token: \"") == true)
        #expect(SecretMask.opensSecret("{token: \"\(filler)") == true)
        #expect(SecretMask.opensSecret("{a: \(filler), token: \"\(filler)") == true)
        #expect(SecretMask.opensSecret("\(filler) {token: \"\(filler)") == true)
        #expect(SecretMask.opensSecret(filler) == nil)
    }

    /// Only the part of a long line near a mistake is looked at for values.
    @Test(arguments: [
        "a: https://h.example/p?sig=", "a: \"https://ada:", "token:\(String(repeating: " ", count: 1500))",
        "password: ",
    ])
    func aValueThatBeganBeforeThePartThatIsShownIsHidden(_ start: String) {
        let line = start + String(repeating: "A", count: 2 * DiagnosticRenderer.neighbourhood)
        let file = ConfigDocument.File(name: "a.yaml", path: "/a.yaml", lines: [line])
        let span = SourceSpan(file: 0, line: 1, column: DiagnosticRenderer.neighbourhood + 900)
        let text = DiagnosticRenderer(files: [file]).render(ConfigDiagnostic(.error, "wrong", at: span))
        #expect(!text.contains("AAA"), "\(text)")
    }

    @Test func theUnsearchedPartOfALineCountsAsASecret() {
        func line(_ count: Int) -> String { "{a: " + String(repeating: "x", count: count - 4) }
        #expect(SecretMask.opensSecret(line(SecretMask.searched)) == false)
        #expect(SecretMask.opensSecret(line(SecretMask.searched + 10)) == true)
        // The cut goes through the name of the key.
        let cut = "token: " + String(repeating: "x", count: SecretMask.searched - 5)
        #expect(SecretMask.opensSecret(cut) == true)
    }

    @Test func theRestOfALongLineIsHiddenIfItMightBeASecret() {
        func shown(_ line: String, at column: Int) -> String {
            let file = ConfigDocument.File(name: "a.yaml", path: "/a.yaml", lines: [line])
            let span = SourceSpan(file: 0, line: 1, column: column)
            return DiagnosticRenderer(files: [file]).render(ConfigDiagnostic(.error, "wrong", at: span))
        }
        let long = String(repeating: "s3cr", count: 5000)
        for column in [1, 1990, 2000, 2001, 2020, 6100, 19_000] {
            for line in ["token: \(long)", "token: \"\(long)", "{a: b, token: [\(long)", "  \"token\": '\(long)"] {
                #expect(!shown(line, at: column).contains("s3cr"), "column \(column) of \(line.prefix(20))")
            }
        }
        let nearby = "{token: short, a: \(String(repeating: "word ", count: 500)), b: here}"
        #expect(shown(nearby, at: nearby.count - 4).contains("b: here}"))
    }
}

@Suite("Environment of programs", .timeLimit(.minutes(5)))
struct ProgramEnvironmentTests {
    @Test func programsAreGivenWhatProgramsNeedAndNothingElse() {
        let variables = ["PATH": "/bin", "HOME": "/home/ada", "BOX_CLIENT_SECRET": "x", "LD_PRELOAD": "y", "path": "z"]
        #expect(ProgramEnvironment.inherited(from: variables) == ["PATH": "/bin", "HOME": "/home/ada"])
    }
}
