package import GatewayHTTP

/// A mapping of the configuration, read key by key. Mistakes are recorded in the context; the reader gets nil.
///
/// The owner calls ``refuseUnknownKeys()`` after the reading, so decoders only ask for the keys that they know.
///
/// What is read stands in files of its own: values and nested mappings in `ConfigFields+Values`, secrets in
/// `ConfigFields+Secrets`, names in `ConfigName`, declared keys in `Keys`, presets in `PresetExpansion`. They need no
/// state of this class beyond what it offers every decoder.
package final class ConfigFields {
    package let path: ConfigPath
    package let span: SourceSpan
    package let context: ConfigContext
    private let entries: [ConfigNode.Entry]
    /// In the order of first mention, for suggestions.
    private var known: [String] = []
    private var knownSet: Set<String> = []
    /// The maximum number of unknown keys of one mapping that get a suggestion.
    private static let suggestions = 50
    private var missed: [String: ConfigDiagnostic] = [:]
    /// Where a secret is expected, an unknown key may be a misspelt one with the secret behind it.
    package var hidesUnknownValues = false
    /// A strategy has read its block, so that what it did not ask for is unknown.
    package var isComplete = false
    /// What keys of this mapping mean, as far as their decoders have told it. The last table wins.
    private var meanings: [[String: KeyMeaning]] = []
    /// What to write in place of keys that people look for here and that stand elsewhere, or have another name.
    package var hints: [String: String] = [:]

    package init(entries: [ConfigNode.Entry], at span: SourceSpan, path: ConfigPath, context: ConfigContext) {
        self.entries = entries
        self.span = span
        self.path = path
        self.context = context
        context.recorder?.visit(path, keys: entries.map(\.key))
        entries.forEach(context.hideStrayValue)
    }

    /// Reads `node` as a mapping; anything else is a problem.
    ///
    /// - Parameters:
    ///   - keySpan: The key that it stands behind: where to report what is missing in it.
    ///   - example: What to show where it is no mapping.
    package convenience init?(
        _ node: ConfigNode,
        path: ConfigPath,
        context: ConfigContext,
        under keySpan: SourceSpan? = nil,
        example: @autoclosure () -> [String] = []
    ) {
        guard case .mapping(let entries) = node.content else {
            node.keylessScalars.forEach(context.hide)
            let message = "expected a mapping, found \(node.kindName)"
            context.report(ConfigDiagnostic(.error, message, at: node.span, path: path, example: example()))
            return nil
        }
        self.init(entries: entries, at: keySpan ?? node.span, path: path, context: context)
    }

    package var keys: [String] { entries.map(\.key) }

    /// Says what keys of this mapping mean. Their decoder calls this before it asks for them.
    package func explain(_ meanings: [String: KeyMeaning]) {
        self.meanings.append(meanings)
        context.recorder?.explain(meanings, of: path)
    }

    /// What to write where a mapping is missing: the key, and one line below it.
    ///
    /// - Parameter name: The key of the table where `key` is a name that people choose.
    package func example(of key: String, as name: String? = nil) -> [String] {
        let meaning = meanings.reversed().lazy.compactMap { $0[name ?? key] }.first
        return meaning?.lines(for: ShownKey(key).text, limit: 1) ?? []
    }

    /// All that stands here, to be compared; the places do not count.
    package func definition(without key: String? = nil) -> Secret {
        Secret(ConfigNode(.mapping(entries.filter { $0.key != key }), at: span).canonicalText)
    }

    /// The keys that no decoder has asked for so far.
    package var unknownKeys: [String] { entries.map(\.key).filter { !knownSet.contains($0) } }

    /// Names keys that are part of this mapping without reading them.
    package func know(_ keys: String...) { keys.forEach(know) }

    /// The keys that were not asked for so far: names which people choose.
    package func chosenNames() -> [String] {
        context.recorder?.noteNames(of: path, plain: false)
        return unknownKeys
    }

    /// Those of `names` that have a value here. People choose these names elsewhere in the configuration.
    package func chosenNames(among names: Set<String>) -> [String] {
        context.recorder?.noteNames(of: path, plain: false)
        return names.sorted().filter(has)
    }

    private func know(_ key: String) {
        if knownSet.insert(key).inserted {
            known.append(key)
            context.recorder?.know(key, of: path)
        }
    }

    /// All entries, whatever their keys are.
    func everyEntry() -> [ConfigNode.Entry] {
        entries.forEach { know($0.key) }
        return entries
    }

    package func entry(_ key: String) -> ConfigNode.Entry? {
        know(key)
        return entries.first { $0.key == key }
    }

    package func node(_ key: String) -> ConfigNode? { entry(key)?.value }

    package func has(_ key: String) -> Bool {
        know(key)
        return entries.contains { $0.key == key && !$0.value.isNull }
    }

    package func refuseUnknownKeys() {
        context.recorder?.noteClosed(path)
        for (count, entry) in entries.filter({ !knownSet.contains($0.key) }).enumerated() {
            if count < Self.suggestions, let owner = emptyKey(above: entry) {
                if hidesUnknownValues { context.hide(entry.value) }
                let key = ShownKey(entry.key).text
                error("\"\(owner)\" is empty; indent \"\(key)\" below it", at: entry.keySpan)
            } else {
                refuse(entry, suggesting: count < Self.suggestions)
            }
        }
    }

    /// The known key without a value right above an unknown key with a mapping: the mapping was to stand below it.
    private func emptyKey(above entry: ConfigNode.Entry) -> String? {
        guard case .mapping = entry.value.content,
            entry.key.utf8.count < 4 || suggestion(for: entry.key).isEmpty
        else { return nil }
        let above = entries.prefix { $0.key != entry.key }
        let owner = above.last { candidate in
            if case .mapping = candidate.value.content, !knownSet.contains(candidate.key) { return false }
            return true
        }
        return owner.flatMap { $0.value.isNull && knownSet.contains($0.key) ? $0.key : nil }
    }

    private func refuse(_ entry: ConfigNode.Entry, suggesting: Bool) {
        if hidesUnknownValues { context.hide(entry.value) }
        let key = ShownKey(entry.key)
        // A misspelt key is one mistake, not two.
        if suggesting, let meant = Suggestion.nearest(to: key.name, in: missed.keys.sorted()) {
            missed.removeValue(forKey: meant).map(context.retract)
        }
        let suggestion = suggesting ? suggestion(for: key.name) : ""
        if hidesUnknownValues, entry.value.isNull, suggestion.isEmpty, key.columns == nil, !key.isWord {
            // `{SECRET}`: what stands here is rather the value than the key.
            context.hide(entry.keySpan)
            return error("expected a key and its value", at: entry.keySpan)
        }
        refuse(key, at: entry.keySpan, suggestion)
    }

    private func suggestion(for key: String) -> String {
        hints[key].map { "; write \"\($0)\"" } ?? Suggestion.hint(for: key, in: known)
    }

    private func refuse(_ key: ShownKey, at span: SourceSpan, _ suggestion: String) {
        error("unknown key \"\(key.text)\"\(key.advice.map { "; \($0)" } ?? suggestion)", at: span)
    }

    package func refuseUnknownKeysIfComplete() {
        if isComplete { refuseUnknownKeys() }
    }

    /// Reports that `key` is missing, or, when a misspelling of it stands there, that one.
    ///
    /// For keys without which the rest of the mapping cannot be judged.
    package func missingOrMisspelt(_ key: String) {
        know(key)
        context.recorder?.miss(key, of: path)
        let misspelt = entries.first { Suggestion.nearest(to: ShownKey($0.key).name, in: [key]) != nil }
        guard let misspelt else { return missing(key) }
        refuse(ShownKey(misspelt.key), at: misspelt.keySpan, "; did you mean \"\(key)\"?")
    }

    package func error(_ message: String, at span: SourceSpan? = nil) {
        context.error(message, at: span ?? self.span, path: path)
    }

    /// Reports a problem with the value of `key`.
    package func error(_ key: String, _ message: String) {
        let span = entries.first { $0.key == key }?.value.span ?? span
        context.error(message, at: span, path: path.appending(key))
    }

    package func warning(_ key: String, _ message: String) {
        let span = entries.first { $0.key == key }?.value.span ?? span
        context.warning(message, at: span, path: path.appending(key))
    }

    /// Where `key` is not there, or nothing stands behind it.
    package func reportAbsence(of key: String, hint: String = "") {
        guard let entry = entries.first(where: { $0.key == key }) else {
            context.recorder?.miss(key, of: path)
            return error("missing key \"\(key)\"\(hint)")
        }
        error("\"\(key)\" has no value\(hint)", at: entry.keySpan)
    }

    /// For a key that narrows something. Without a value it would narrow nothing, and the mistake would stay
    /// unnoticed.
    package func refuseNothing(behind key: String, hint: String) {
        guard entries.contains(where: { $0.key == key && $0.value.isNull }) else { return }
        reportAbsence(of: key, hint: "; remove it \(hint)")
    }

    /// - Parameter another: Another key may stand in its place, so the schema does not require it.
    package func missing(_ key: String, orAnother another: Bool = false) {
        if another { know(key) } else { context.recorder?.miss(key, of: path) }
        guard !entries.contains(where: { $0.key == key }) else { return reportAbsence(of: key) }
        let diagnostic = ConfigDiagnostic(.error, "missing key \"\(key)\"", at: span, path: path)
        missed[key] = diagnostic
        context.report(diagnostic)
    }
}
