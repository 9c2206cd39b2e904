/// Lines of a configuration with their indentation.
struct ExportText {
    private var lines: [String] = []
    private var depth = 0
    private let indentation: String

    init(indentation: String) { self.indentation = indentation }

    var text: String { lines.map { $0 + "\n" }.joined() }

    mutating func add(_ line: String) {
        lines.append(line.isEmpty ? "" : String(repeating: indentation, count: depth) + line)
    }

    mutating func add(_ more: [String]) { for line in more { add(line) } }

    mutating func comment(_ text: String) { add("# \(text)") }

    /// `head`, the body one step deeper, and `end`, where there is one.
    mutating func block<Failure: Error>(
        _ head: String,
        _ end: String? = "}",
        body: (inout ExportText) throws(Failure) -> Void
    ) throws(Failure) {
        add(head)
        depth += 1
        try body(&self)
        depth -= 1
        if let end { add(end) }
    }
}

/// Spellings that several proxies share.
enum ExportSyntax {
    /// Matches the text alone (PCRE and RE2). Paths and hosts of the configuration have few other characters.
    static func pattern(_ text: String) -> String {
        text.map { character in
            switch character {
            case ".", "$", "(", ")", "+", "*", "?", "|", "[", "{": "[\(character)]"
            default: String(character)
            }
        }.joined()
    }

    /// In seconds, rounded up.
    static func seconds(_ duration: Duration) -> Int { max(1, Int((duration.wholeMilliseconds + 999) / 1000)) }

    /// Text of the configuration as part of a double-quoted string, in which nothing is replaced.
    static func checked(_ text: String, refusing characters: String, at place: String, for proxy: ExportedProxy)
        throws(ExportProblem) -> String
    {
        for character in text.unicodeScalars {
            if characters.unicodeScalars.contains(character) || !(0x21...0x7E).contains(character.value) {
                throw ExportProblem(
                    place,
                    "has the character \(JSONString.quoted(String(character))), which \(proxy.title) cannot take here; change it, or leave the route out."
                )
            }
        }
        return text
    }
}
