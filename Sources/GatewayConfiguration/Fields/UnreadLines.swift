import GatewayHTTP

/// What must not be shown of a file that the parser did not get through, because it is unknown which parts of it are
/// secret.
///
/// Shown is what begins with a key, less what ``SecretMask`` finds there; of other files than configurations, nothing.
package struct UnreadLines {
    private let lines: [String]
    private let isConfiguration: Bool

    /// The keys at the top. A file that has none of them is none of ours: a list of variables, a token.
    private static let topKeys: Set<String> = [
        "version", "include", "state_directory", "workers", "proxy_status", "request_id_header", "listeners", "access",
        "audit", "tokens", "limits", "credentials", "routes",
    ]
    /// No key is longer.
    static let searched = 200

    package init(_ lines: [String]) {
        self.lines = lines
        isConfiguration = lines.contains { line in
            Self.key(of: Array(line.unicodeScalars.prefix(Self.searched))).map(Self.topKeys.contains) ?? false
        }
    }

    /// The parts of the lines that these diagnostics show.
    package func hidden(from diagnostics: [ConfigDiagnostic]) -> Set<SourceSpan> {
        let spans = diagnostics.flatMap { [$0.span, $0.related?.span ?? $0.span] }
        // A line can be a mebibyte long and hold every problem.
        let starts = Set(spans.map { SourceSpan(file: $0.file, line: $0.line, column: 1) })
        return Set(starts.compactMap(hidden))
    }

    private func hidden(in start: SourceSpan) -> SourceSpan? {
        guard lines.indices.contains(start.line - 1) else { return nil }
        let line = Array(lines[start.line - 1].unicodeScalars)
        guard let first = firstHidden(in: line) else { return nil }
        return SourceSpan(file: start.file, line: start.line, column: first + 1, length: line.count - first)
    }

    private func firstHidden(in line: [Unicode.Scalar]) -> Int? {
        guard let word = Self.firstWord(of: line) else { return nil }
        guard isConfiguration else { return word.lowerBound }
        guard Self.key(of: line) == nil else { return nil }
        var text = String.UnicodeScalarView()
        text.append(contentsOf: line[word.lowerBound...])
        let key = ShownKey(String(text))
        return word.lowerBound + (key.advice == nil ? 0 : key.columns ?? 0)
    }

    /// The word that a line begins with, when a colon makes it a key.
    private static func key(of line: [Unicode.Scalar]) -> String? {
        guard let word = firstWord(of: line) else { return nil }
        let end = line[word.upperBound...].firstIndex { $0 != " " && $0 != "\t" && $0 != "\"" && $0 != "'" }
        guard let end, SecretMask.isColonOfKey(end, in: line) else { return nil }
        var name = String.UnicodeScalarView()
        name.append(contentsOf: line[word])
        return String(name)
    }

    /// Behind indentation, dashes, brackets and quotes.
    private static func firstWord(of line: [Unicode.Scalar]) -> Range<Int>? {
        guard let start = line.firstIndex(where: isOfWord) else { return nil }
        return start..<(line[start...].firstIndex { !isOfWord($0) && $0 != "-" && $0 != "." } ?? line.endIndex)
    }

    /// With the signs of a merge key, `<<`.
    private static func isOfWord(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "_" || scalar == "<" || ("0"..."9").contains(scalar) || scalar.properties.isAlphabetic
    }
}
