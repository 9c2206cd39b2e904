import Testing

@testable import GatewayConfiguration
@testable import GatewayHTTP

@Suite("The difference of two configurations", .timeLimit(.minutes(5)))
struct ConfigurationDifferenceTests {
    private static func text(_ old: String, _ new: String, hiding: Set<SourceSpan> = []) -> String {
        func lines(_ text: String) -> [String] { text.split(separator: " ").map(String.init) }
        return ConfigurationDifference(of: "a.yaml", from: .init(lines(old)), to: .init(lines(new), hiding: hiding))
            .text
    }

    @Test func equalTextsHaveNone() { #expect(Self.text("a b", "a b").isEmpty) }

    @Test func changesStandWithTheLinesAroundThem() {
        let expected = """
            --- a.yaml
            +++ a.yaml
            @@ -2,7 +2,7 @@
             b
             c
             d
            -e
            +x
             f
             g
             h

            """
        #expect(Self.text("a b c d e f g h i", "a b c d x f g h i") == expected)
    }

    @Test func changesThatAreFarApartStandApart() {
        let text = Self.text("a 1 2 3 4 5 6 7 b", "x 1 2 3 4 5 6 7 y")
        #expect(text.contains("@@ -1,4 +1,4 @@\n-a\n+x\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+y\n"))
        #expect(Self.text("a 1 2 3 4 5 6 b", "x 1 2 3 4 5 6 y").split(separator: "@@ -").count == 2)
    }

    @Test func secretsAreHidden() {
        let old = ConfigurationDifference.Side(["password: hunter2", "blob: hunter3", "a: b"])
        let hidden: Set = [SourceSpan(file: 0, line: 2, column: 7, length: 7)]
        let new = ConfigurationDifference.Side(["password: hunter4", "blob: hunter3", "a: c"], hiding: hidden)
        let text = ConfigurationDifference(of: "a.yaml", from: old, to: new).text
        #expect(!text.contains("hunter"))
        #expect(text.contains("-password: ***\n+password: ***\n blob: ***\n-a: b\n+a: c\n"))
    }

    @Test func manyLinesAreNotCompared() {
        let old = (0..<5000).map { "old \($0)" }
        let new = (0..<5000).map { "new \($0)" }
        let text = ConfigurationDifference(of: "a", from: .init(old), to: .init(new)).text
        #expect(text.hasPrefix("--- a\n+++ a\n@@ -1,5000 +1,5000 @@\n-old 0\n"))
    }
}

@Suite("Who uses a credential", .timeLimit(.minutes(5)))
struct CredentialUsesTests {
    private static func mapping(_ entries: [(String, ConfigNode)]) -> ConfigNode {
        let span = SourceSpan(file: 0, line: 1, column: 1)
        return ConfigNode(.mapping(entries.map { .init(key: $0, keySpan: span, value: $1) }), at: span)
    }

    private static func text(_ text: String) -> ConfigNode {
        ConfigNode(.scalar(.init(text: text, isQuoted: false)), at: SourceSpan(file: 0, line: 1, column: 1))
    }

    @Test func routesAndChildrenAreFound() {
        let root = Self.mapping([
            (
                "credentials",
                Self.mapping([("child", Self.mapping([("parent", Self.text("box"))])), ("box", Self.text(""))])
            ),
            (
                "routes",
                Self.mapping([
                    ("a", Self.mapping([("auth", Self.text("box"))])),
                    ("b", Self.mapping([("auth", Self.mapping([("credential", Self.text("box"))]))])),
                    ("c", Self.mapping([("auth", Self.text("other"))])),
                    ("d", Self.mapping([("auth", Self.mapping([("parent", Self.text("box"))]))])),
                ])
            ),
        ])
        let uses = CredentialUses(of: "box", in: root)
        #expect(uses.routes == ["a", "b", "d"])
        #expect(uses.credentials == ["child"])
    }
}

@Suite("Scalars as YAML writes them", .timeLimit(.minutes(5)))
struct YAMLScalarTests {
    @Test(arguments: [
        ("github", "github"), ("https://api.github.com/v3", "https://api.github.com/v3"), ("a b", "\"a b\""),
        ("null", "\"null\""), ("No", "\"No\""), ("", "\"\""), ("42", "\"42\""), ("1.5", "\"1.5\""), ("-a", "\"-a\""),
        ("*a", "\"*a\""), ("a:", "\"a:\""), ("a#b", "\"a#b\""), ("say \"x\"\n", "\"say \\\"x\\\"\\n\""), ("ä", "\"ä\""),
        ("{a}", "\"{a}\""), ("a,b", "\"a,b\""), ("~", "\"~\""),
    ])
    func whatCouldMeanAnotherThingIsQuoted(_ text: String, _ expected: String) {
        #expect(YAMLScalar.text(text) == expected)
    }
}

@Suite("Lines that go on with a secret", .timeLimit(.minutes(5)))
struct SecretContinuationTests {
    @Test func bothWaysToFindThemAgree() {
        let lines = ["password: |", "  hunter2", "", "  hunter3", "name: a", "  b", "token:", "  c"]
        let found = SecretMask.continuations(in: lines)
        #expect(found == lines.indices.map { SecretMask.continuesSecret($0, in: lines) })
        #expect(found == [false, true, true, true, false, false, false, true])
    }
}
