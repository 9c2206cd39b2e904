import GatewayHTTP

/// Reads YAML text into ``ConfigNode``s that know where they stand.
///
/// The subset is YAML 1.1 as libyaml reads it, less what makes a configuration surprising: merge keys, tags other than
/// `!!str`, keys that are not scalars, and more than one document are refused with a diagnostic.
package struct YAMLLoader: Sendable {
    package var limits: YAMLLimits

    package init(limits: YAMLLimits = YAMLLimits()) { self.limits = limits }

    /// - Parameter file: The index that spans of this text carry (``SourceSpan/file``).
    package func load(_ bytes: [UInt8], file: Int = 0) -> YAMLDocument {
        guard bytes.count <= limits.bytes else {
            let limit = ConfigUnits.text(bytes: limits.bytes)
            return refused(
                "the file is larger than \(limit); split it with \"include\"",
                at: SourceSpan(file: file, line: 1, column: 1)
            )
        }
        let text: SourceText
        do throws(SourceText.Refusal) {
            text = try SourceText.read(bytes, file: file)
        } catch {
            return YAMLDocument(root: nil, diagnostics: [error.diagnostic], lines: error.lines)
        }
        // The parser compares each directive with all before it.
        if let line = text.lines.firstIndex(where: { $0.hasPrefix("%TAG") }) {
            let span = SourceSpan(file: file, line: line + 1, column: 1, length: 4)
            let diagnostic = ConfigDiagnostic(.error, "tags are not supported; remove this line", at: span)
            return YAMLDocument(root: nil, diagnostics: [diagnostic], lines: text.lines)
        }
        var composer = YAMLComposer(text: text, limits: limits)
        let root = composer.compose()
        return YAMLDocument(root: root, diagnostics: composer.diagnostics, lines: text.lines)
    }

    private func refused(_ message: String, at span: SourceSpan) -> YAMLDocument {
        YAMLDocument(root: nil, diagnostics: [ConfigDiagnostic(.error, message, at: span)], lines: [])
    }
}

/// What a YAML text says, or why it says nothing.
package struct YAMLDocument: Sendable {
    /// nil when the text could not be read to its end.
    package let root: ConfigNode?
    /// In the order in which they were found.
    package let diagnostics: [ConfigDiagnostic]
    package let lines: [String]
}

/// The bounds that keep a hostile or mistaken document from costing time or memory.
package struct YAMLLimits: Sendable {
    package var bytes = 16 << 20
    package var depth = 64
    /// Counts what aliases stand for, so that a few lines cannot expand into millions of nodes.
    package var nodes = 1_000_000

    package init() {}

    package init(_ size: ConfigurationSize) { (bytes, nodes) = (size.bytes, size.nodes) }
}
