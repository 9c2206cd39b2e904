/// One thing to say about the configuration: where it stands, what is wrong and what would be right.
///
/// The value of a secret never appears in it, not even when it is the mistake.
package struct ConfigDiagnostic: Error, Hashable, Sendable {
    package enum Severity: String, Sendable {
        case error
        case warning
    }

    package let severity: Severity
    package let path: ConfigPath
    package let message: String
    package let span: SourceSpan
    /// A second place that belongs to it, such as the first definition of a duplicate.
    package let related: Related?

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
        related: Related? = nil
    ) {
        self.severity = severity
        self.message = message
        self.span = span
        self.path = path
        self.related = related
    }
}
