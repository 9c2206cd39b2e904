import GatewayHTTP

/// Lays out what ArgumentParser prints: help, and usage below an error.
enum HelpText {
    /// What ArgumentParser wraps all other lines to, if there is no terminal.
    private static let width = 80
    private static let margin = String(repeating: " ", count: "USAGE: ".count)

    static func laidOut(_ text: String) -> String {
        var isRoot = false
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line -> String in
            if line.hasPrefix("USAGE: ") || line.hasPrefix("Usage: ") {
                isRoot = line.hasSuffix(": authgateway <subcommand>")
                return usage(line)
            }
            if isRoot, line.hasPrefix(version) { return shortVersion + line.dropFirst(version.count) }
            return isRoot ? heading(line) : String(line)
        }
        return lines.joined(separator: "\n")
    }

    /// The parser suggests only what a command declares, and not the two options that each has.
    ///
    /// - Parameter error: What the parser says.
    static func option(meantBy error: String) -> String? {
        let start = "Error: Unknown option '--"
        guard let line = error.split(separator: "\n").first, line.hasPrefix(start), line.hasSuffix("'") else {
            return nil
        }
        let name = String(line.dropFirst(start.count).dropLast())
        return Suggestion.nearest(to: name, in: ["help", "version"]).map { "--\($0)" }
    }

    private static let version = "  --version    "
    private static let shortVersion = "  -v, --version"

    /// `SERVE:` instead of `SERVE SUBCOMMANDS:`.
    private static func heading(_ line: Substring) -> String {
        let end = " SUBCOMMANDS:"
        return line.hasSuffix(end) ? line.dropLast(end.count) + ":" : String(line)
    }

    /// Breaks between options, not within one.
    private static func usage(_ line: Substring) -> String {
        var lines: [String] = []
        var current = ""
        for word in words(of: line) {
            if current.isEmpty {
                current = word
            } else if current.count + 1 + word.count <= width {
                current += " " + word
            } else {
                lines.append(current)
                current = margin + word
            }
        }
        return (lines + [current]).joined(separator: "\n")
    }

    /// What stands in brackets is one word.
    private static func words(of line: Substring) -> [String] {
        var words: [String] = []
        var depth = 0
        for part in line.split(separator: " ") {
            if depth > 0 { words[words.count - 1] += " " + part } else { words.append(String(part)) }
            for character in part {
                if character == "[" { depth += 1 }
                if character == "]" { depth -= 1 }
            }
        }
        return words
    }
}
