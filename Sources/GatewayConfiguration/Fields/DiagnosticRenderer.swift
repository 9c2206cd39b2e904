import GatewayHTTP

/// Prints diagnostics the way compilers do, so that people and editors find the place.
package struct DiagnosticRenderer: Sendable {
    private let files: [ConfigDocument.File]
    private let hidden: [Place: [SourceSpan]]

    static let maximumShown = 100
    /// Of a longer line only what is near the mistake is looked at.
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
        let name = files.indices.contains(span.file) ? files[span.file].name : "?"
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
