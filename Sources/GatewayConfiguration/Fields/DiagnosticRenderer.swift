import GatewayHTTP

/// Prints diagnostics the way compilers do, so that people and editors find the place.
package struct DiagnosticRenderer: Sendable {
    private let files: [ConfigDocument.File]
    private let hidden: [Place: [SourceSpan]]

    static let maximumShown = 100
    /// How many characters around the mistake are looked at in a long line.
    static let neighbourhood = 2000

    private struct Place: Hashable {
        let file: Int
        let line: Int
    }

    /// - Parameter hiding: What the decoder found to be secrets (``ConfigContext/secretSpans``).
    package init(files: [ConfigDocument.File], hiding hidden: Set<SourceSpan> = []) {
        self.files = files
        self.hidden = Dictionary(grouping: hidden) { Place(file: $0.file, line: $0.line) }
    }

    /// All diagnostics and a closing line.
    ///
    /// - Parameter consequence: What the problems led to, for example `the running configuration was kept`. Not printed
    ///   when there are only warnings.
    package func render(_ diagnostics: [ConfigDiagnostic], consequence: String) -> String {
        var text = diagnostics.prefix(Self.maximumShown).map(render).joined()
        if diagnostics.count > Self.maximumShown { text += "… and \(diagnostics.count - Self.maximumShown) more.\n" }
        let problems = diagnostics.count { $0.severity == .error }
        let warnings = diagnostics.count - problems
        switch (problems, warnings) {
        case (0, 0): break
        case (0, _): text += "\(warnings.counted("warning")).\n"
        case (_, 0): text += "\(problems.counted("problem")); \(consequence).\n"
        default:
            text += "\(problems.counted("problem")), \(warnings.counted("warning")); \(consequence).\n"
        }
        return text
    }

    /// One diagnostic, with a newline at the end.
    package func render(_ diagnostic: ConfigDiagnostic) -> String {
        let path = diagnostic.path.description.isEmpty ? "" : "\(diagnostic.path): "
        var text = "\(place(diagnostic.span)): \(diagnostic.severity.rawValue): \(path)\(diagnostic.message)\n"
        text += snippet(diagnostic.span)
        if !diagnostic.example.isEmpty {
            text += "      = for example:\n" + diagnostic.example.map { "          \($0)\n" }.joined()
        }
        if let related = diagnostic.related {
            text += "\(place(related.span)): note: \(related.message)\n"
            text += snippet(related.span)
        }
        return text
    }

    private func place(_ span: SourceSpan) -> String {
        guard files.indices.contains(span.file) else { return "?:\(span.line):\(span.column)" }
        let name = files[span.file].name
        // There is no file, or nothing in it.
        if files[span.file].lines.isEmpty { return name }
        return "\(name):\(span.line):\(span.column)"
    }

    private func snippet(_ span: SourceSpan) -> String {
        guard files.indices.contains(span.file), files[span.file].lines.indices.contains(span.line - 1) else {
            return ""
        }
        let lines = files[span.file].lines
        let whole = lines[span.line - 1].unicodeScalars
        let skipped = max(0, span.column - Self.neighbourhood)
        let line = String(String.UnicodeScalarView(whole.dropFirst(skipped).prefix(2 * Self.neighbourhood)))
        var masked = SecretMask.ranges(in: line, continuing: SecretMask.continuesSecret(span.line - 1, in: lines))
        // The rest of a long line might belong to a secret whose key was cut off, or cut in half.
        if skipped > 0, SecretMask.reachesEnd(of: whole.prefix(skipped + 100)) {
            masked.append(0..<line.unicodeScalars.count)
        }
        for secret in hidden[Place(file: span.file, line: span.line)] ?? [] {
            let start = secret.column - 1 - skipped
            guard start + secret.length > 0, start < 2 * Self.neighbourhood else { continue }
            masked.append(max(0, start)..<(start + secret.length))
        }
        var near = span
        near.column -= skipped
        let (shown, marks) = SourceLine(line, hiding: masked).render(marking: near)
        let number = String(span.line)
        let margin = String(repeating: " ", count: max(0, 5 - number.count))
        return "\(margin)\(number) | \(shown)\n      | \(marks)\n"
    }
}

/// A line of a configuration file as a diagnostic shows it: secrets hidden, and no longer than a screen is wide.
struct SourceLine {
    private let shown: [Unicode.Scalar]
    /// For each column of the file, counted from 0, the column where it is shown.
    private let columns: [Int]

    private static let mask = Array("***".unicodeScalars)
    static let widest = 160

    /// - Parameter hidden: Column ranges, counted from 0.
    init(_ line: String, hiding hidden: [Range<Int>]) {
        let scalars = Array(line.unicodeScalars)
        var shown: [Unicode.Scalar] = []
        var columns: [Int] = []
        var isHidden = [Bool](repeating: false, count: scalars.count)
        for range in hidden {
            for index in range.clamped(to: scalars.indices) { isHidden[index] = true }
        }
        for (index, scalar) in scalars.enumerated() {
            guard isHidden[index] else {
                columns.append(shown.count)
                shown.append(Self.isPrintable(scalar) ? scalar : "\u{FFFD}")
                continue
            }
            let isFirst = index == 0 || !isHidden[index - 1]
            if isFirst { shown.append(contentsOf: Self.mask) }
            columns.append(shown.count - Self.mask.count)
        }
        columns.append(shown.count)
        self.shown = shown
        self.columns = columns
    }

    /// The text without control characters: a terminal must not obey what a broken file holds.
    static func printable(_ text: String) -> String {
        guard !text.unicodeScalars.allSatisfy(isPrintable) else { return text }
        return String(String.UnicodeScalarView(text.unicodeScalars.map { isPrintable($0) ? $0 : "\u{FFFD}" }))
    }

    private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "\t" || (scalar.value >= 0x20 && !(0x7F...0x9F).contains(scalar.value))
    }

    /// The line, cut where a screen ends.
    var text: String {
        let kept = String(String.UnicodeScalarView(shown.prefix(Self.widest)))
        return shown.count > Self.widest ? kept + "…" : kept
    }

    /// The line, and below it the marks under a span.
    func render(marking span: SourceSpan) -> (line: String, marks: String) {
        let start = columns[min(span.column - 1, columns.count - 1)]
        var end = max(columns[min(span.column - 1 + span.length, columns.count - 1)], start + 1)
        let first = start > Self.widest / 2 ? start - Self.widest / 4 : 0
        let last = min(shown.count, first + Self.widest)
        end = min(end, max(last, start + 1))

        var line = first > 0 ? "…" : ""
        line.unicodeScalars.append(contentsOf: shown[min(first, last)..<last])
        if last < shown.count { line += "…" }
        var marks = first > 0 ? " " : ""
        // A tab stays a tab, so that the marks stand below what they mark.
        for index in first..<start { marks += index < shown.count && shown[index] == "\t" ? "\t" : " " }
        marks += "^" + String(repeating: "~", count: end - start - 1)
        return (line, marks)
    }
}

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
