/// One thing to say about the configuration: where it stands, what is wrong and what would be right.
///
/// The value of a secret never appears in it, not even when it is the mistake.
package struct ConfigDiagnostic: Error, Hashable, Sendable {
    package enum Severity: String, Sendable {
        case error
        case warning
    }

    package var severity: Severity
    package let path: ConfigPath
    package let message: String
    package let span: SourceSpan
    /// A second place that belongs to it, such as the first definition of a duplicate.
    package let related: Related?
    /// What would be right, as lines of YAML; empty when the message says it.
    package let example: [String]
    /// What to type to correct it, where it is a command and no change of the file; the message says it, too.
    package var command: String?

    package struct Related: Hashable, Sendable {
        package let message: String
        package let span: SourceSpan

        package init(_ message: String, at span: SourceSpan) {
            self.message = message
            self.span = span
        }
    }

    package init(
        _ severity: Severity = .error,
        _ message: String,
        at span: SourceSpan,
        path: ConfigPath = .root,
        related: Related? = nil,
        example: [String] = []
    ) {
        self.example = example
        self.severity = severity
        self.message = message
        self.span = span
        self.path = path
        self.related = related
    }
}

extension [ConfigDiagnostic] {
    /// Sorted by place, each place and message once: what an alias repeats is one mistake.
    package var inFileOrder: [ConfigDiagnostic] {
        var seen: Set<Said> = []
        return enumerated()
            .sorted { ($0.element.span, $0.offset) < ($1.element.span, $1.offset) }
            .map(\.element)
            .filter { seen.insert(Said(span: $0.span, message: $0.message)).inserted }
    }
}

private struct Said: Hashable {
    let span: SourceSpan
    let message: String
}
