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

/// Diagnostics for programs, as `check --json` prints them. Lines and columns start at 1.
package struct DiagnosticReport: Encodable, Hashable, Sendable {
    package struct Entry: Encodable, Hashable, Sendable {
        package let severity: String
        package let file: String
        /// nil where the mistake is in a file that the configuration names.
        package var line: Int?
        package var column: Int?
        /// How many columns the faulty text has.
        package var length: Int?
        /// The key, such as `routes.box.auth`; empty for the whole document.
        package var path = ""
        package let message: String
        package var related: Related?
        /// What would be right, as YAML.
        package var example: String?
        /// What to type to correct it, where the file itself is right.
        package var command: String?
    }

    /// A second place that belongs to it.
    package struct Related: Encodable, Hashable, Sendable {
        package let file: String
        package let line: Int
        package let column: Int
        package let message: String
    }

    package private(set) var errors = 0
    package private(set) var warnings = 0
    /// In file order.
    package private(set) var diagnostics: [Entry] = []

    package init(_ diagnostics: [ConfigDiagnostic], files: [ConfigDocument.File]) {
        for diagnostic in diagnostics { add(Entry(diagnostic, files: files)) }
    }

    /// Adds an error that stands in no line of the configuration.
    package mutating func add(_ message: String, in file: String) {
        add(Entry(severity: ConfigDiagnostic.Severity.error.rawValue, file: file, message: message))
    }

    private mutating func add(_ entry: Entry) {
        if entry.severity == ConfigDiagnostic.Severity.error.rawValue { errors += 1 } else { warnings += 1 }
        diagnostics.append(entry)
    }

    /// Whether a gateway would start with it, as far as it was looked at.
    package var isValid: Bool { errors == 0 }

    private enum CodingKeys: String, CodingKey {
        case isValid = "valid"
        case errors
        case warnings
        case diagnostics
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(isValid, forKey: .isValid)
        try container.encode(errors, forKey: .errors)
        try container.encode(warnings, forKey: .warnings)
        try container.encode(diagnostics, forKey: .diagnostics)
    }
}

extension DiagnosticReport.Entry {
    fileprivate init(_ diagnostic: ConfigDiagnostic, files: [ConfigDocument.File]) {
        self.init(
            severity: diagnostic.severity.rawValue,
            file: diagnostic.span.fileName(in: files),
            line: diagnostic.span.line,
            column: diagnostic.span.column,
            length: diagnostic.span.length,
            path: diagnostic.path.description,
            message: diagnostic.message,
            related: diagnostic.related.map {
                DiagnosticReport.Related(
                    file: $0.span.fileName(in: files),
                    line: $0.span.line,
                    column: $0.span.column,
                    message: $0.message
                )
            },
            example: diagnostic.example.isEmpty ? nil : diagnostic.example.joined(separator: "\n"),
            command: diagnostic.command
        )
    }
}

extension SourceSpan {
    fileprivate func fileName(in files: [ConfigDocument.File]) -> String {
        files.indices.contains(file) ? files[file].name : "?"
    }
}
