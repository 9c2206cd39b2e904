package import GatewayHTTP

/// Collects what a decoding finds, so that all problems are reported in one run.
///
/// Confined to the task that decodes; the decoded values do not refer to it.
package final class ConfigContext {
    package let document: ConfigDocument
    package let secrets: any SecretSource
    /// Told of every key that is asked for; nil but when the schema is made.
    package let recorder: KeyRecorder?
    package private(set) var diagnostics: [ConfigDiagnostic] = []
    /// Where secrets stand, or what may be meant as one: never to be shown with a diagnostic.
    package private(set) var secretSpans: Set<SourceSpan> = []
    /// Where a value only stands for one that was not read: what is said about it is left out.
    private var unreadSpans: Set<SourceSpan>
    private var unreadErrors = 0
    /// Whether a text may come from where secrets come from: in the block of a strategy.
    private(set) var readsTexts = false

    package init(document: ConfigDocument, secrets: any SecretSource, recorder: KeyRecorder? = nil) {
        self.recorder = recorder
        self.document = document
        self.secrets = secrets
        unreadSpans = secrets.areUnread ? Set(document.root.unsetSpans) : []
    }

    package func report(_ diagnostic: ConfigDiagnostic) {
        guard !unreadSpans.contains(diagnostic.span) else {
            if diagnostic.severity == .error { unreadErrors += 1 }
            return
        }
        diagnostics.append(diagnostic)
    }

    /// The value there was read from the source of secrets.
    package func noteSecret(at span: SourceSpan) {
        if secrets.areUnread { unreadSpans.insert(span) }
    }

    /// The value there only stands for one that was not read.
    package func isUnread(at span: SourceSpan) -> Bool { unreadSpans.contains(span) }

    /// Something could not be decoded because a value was not read. What follows from its absence is unknown.
    package var isIncomplete: Bool { unreadErrors > 0 }

    /// Decodes with or without texts that come from where secrets come from.
    package func readingTexts<Value>(_ reads: Bool = true, _ decode: () -> Value) -> Value {
        let before = readsTexts
        readsTexts = reads
        defer { readsTexts = before }
        return decode()
    }

    /// What to say of presets that were left out, when nothing else is said.
    package private(set) var unusedPresets: [ConfigDiagnostic] = []

    package func noteUnusedPreset(_ diagnostic: ConfigDiagnostic) { unusedPresets.append(diagnostic) }

    /// Warnings to be shown behind the errors that may have caused them, wherever those stand.
    package private(set) var consequences: [ConfigDiagnostic] = []

    func retract(_ diagnostic: ConfigDiagnostic) { diagnostics.removeAll { $0 == diagnostic } }

    package func error(
        _ message: String,
        at span: SourceSpan,
        path: ConfigPath,
        related: ConfigDiagnostic.Related? = nil
    ) {
        report(ConfigDiagnostic(.error, message, at: span, path: path, related: related))
    }

    /// - Parameter mayFollow: It may be true only because something else could not be decoded.
    package func warning(_ message: String, at span: SourceSpan, path: ConfigPath, mayFollow: Bool = false) {
        let warning = ConfigDiagnostic(.warning, message, at: span, path: path)
        if !mayFollow { report(warning) } else if !unreadSpans.contains(span) { consequences.append(warning) }
    }

    /// Hides every scalar of `node` in the source lines that diagnostics show.
    ///
    /// A scalar that is nothing but `${NAME}` is not hidden: the file does not hold its value.
    package func hide(_ node: ConfigNode) {
        switch node.content {
        case .scalar(let scalar):
            if !scalar.isReference, !scalar.isNull { hide(node.span) }
        case .sequence(let nodes): nodes.forEach(hide)
        case .mapping(let entries): entries.forEach { hide($0.value) }
        }
    }

    package func hide(_ span: SourceSpan) { secretSpans.insert(span) }

    /// Hides what stands at the place of a key and is none: a value whose key is missing, or the space before it.
    func hideStrayValue(_ entry: ConfigNode.Entry) {
        guard entry.value.isNull else { return }
        if let shown = ShownKey(entry.key).columns {
            var value = entry.keySpan
            value.column += shown
            value.length -= shown
            if value.length > 0 { hide(value) }
        } else if !ConfigName.isValid(entry.key) {
            hide(entry.keySpan)
        }
    }

    /// With those that are left out, so that decoders see that something was wrong.
    package var errorCount: Int { unreadErrors + diagnostics.count { $0.severity == .error } }

    /// Makes a path of the configuration absolute: relative ones are relative to the file they stand in.
    package func resolve(_ path: String, at span: SourceSpan) -> String {
        guard !path.hasPrefix("/") else { return path }
        let folder = document.files.indices.contains(span.file) ? document.files[span.file].directory : ""
        let relative = path.hasPrefix("./") ? String(path.dropFirst(2)) : path
        return folder.isEmpty ? relative : "\(folder)/\(relative)"
    }
}
