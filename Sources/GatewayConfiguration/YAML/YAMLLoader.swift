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
