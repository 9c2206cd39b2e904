import Testing

@Suite("Folder uses", .timeLimit(.minutes(5)))
struct FolderUsesTests {
    private static func examples(_ texts: KeyValuePairs<String, String>) -> [String: [String: String]] {
        FolderUses(
            texts.map { path, text in
                SourceTree.File(path: "Target/\(path)", target: "Target", lines: SourceTree.codeLines(of: text))
            }
        )
        .examples
    }

    @Test func aTypeOfAnotherFolderIsAUse() {
        let examples = Self.examples([
            "Low/Secret.swift": "package struct Secret {}",
            "High/Reader.swift": "// Secret\nstruct Reader {\n    let text = \"\\(Secret())\"\n}",
        ])
        #expect(examples == ["High": ["Low": "Secret in Target/High/Reader.swift:3"]])
    }

    @Test func aMemberOfAnExtensionIsAUse() {
        let examples = Self.examples([
            "Low/Bytes.swift": "extension UInt8 {\n    package var isDigit: Bool { true }\n}",
            "High/Reader.swift": "func read(_ byte: UInt8) -> Bool { byte.isDigit }",
        ])
        #expect(examples == ["High": ["Low": "isDigit in Target/High/Reader.swift:1"]])
    }

    @Test func aNameThatTwoFoldersDeclareTellsNothing() {
        let examples = Self.examples([
            "Low/State.swift": "enum State {}",
            "Middle/State.swift": "private enum State {}",
            "High/Reader.swift": "let state: State?",
        ])
        #expect(examples == [:])
    }

    @Test func aNestedTypeAndAMemberAreNotTheTypeOfThatName() {
        let examples = Self.examples([
            "Low/Key.swift": "struct Key {}",
            "High/Reader.swift": "struct Reader {\n    struct Key {}\n    let key: Key\n}",
            "Higher/Writer.swift": "let key: Other.Key",
        ])
        #expect(examples == [:])
    }
}
