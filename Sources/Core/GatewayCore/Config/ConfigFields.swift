/// A mapping of the configuration, read key by key. Mistakes are recorded in the context; the reader gets nil.
///
/// Whoever hands it out calls ``refuseUnknownKeys()`` when the reading is done, so decoders only ask for what they know.
package final class ConfigFields {
    package let path: ConfigPath
    package let span: SourceSpan
    package let context: ConfigContext
    private let entries: [ConfigNode.Entry]
    /// In the order of first mention, for suggestions.
    private var known: [String] = []
    private var knownSet: Set<String> = []
    /// So many unknown keys of one mapping get a suggestion.
    private static let suggestions = 50
    private var missed: [String: ConfigDiagnostic] = [:]
    /// Where a secret is expected, an unknown key may be a misspelt one with the secret behind it.
    package var hidesUnknownValues = false
    /// A strategy has read its block, so that what it did not ask for is unknown.
    var isComplete = false

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
    /// - Parameter keySpan: The key that it stands behind: where to report what is missing in it.
    package convenience init?(
        _ node: ConfigNode,
        path: ConfigPath,
        context: ConfigContext,
        under keySpan: SourceSpan? = nil
    ) {
        guard case .mapping(let entries) = node.content else {
            node.keylessScalars.forEach(context.hide)
            context.error("expected a mapping, found \(node.kindName)", at: node.span, path: path)
            return nil
        }
        self.init(entries: entries, at: keySpan ?? node.span, path: path, context: context)
    }

    var keys: [String] { entries.map(\.key) }

    /// All that stands here, to be compared; the places do not count.
    func definition(without key: String? = nil) -> Secret {
        Secret(ConfigNode(.mapping(entries.filter { $0.key != key }), at: span).canonicalText)
    }

    /// The keys that nobody has asked for so far.
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

    /// Refuses a key of the public contract whose feature this version does not have.
    package func refuseUnbuilt(_ keys: String...) {
        for key in keys {
            context.recorder?.note(.unbuilt, for: key, of: path)
            guard let entry = entry(key) else { continue }
            error("\"\(key)\" is not supported by this version", at: entry.keySpan)
        }
    }

    package func refuseUnknownKeys() {
        context.recorder?.noteClosed(path)
        for (count, entry) in entries.filter({ !knownSet.contains($0.key) }).enumerated() {
            refuse(entry, suggesting: count < Self.suggestions)
        }
    }

    private func refuse(_ entry: ConfigNode.Entry, suggesting: Bool) {
        if hidesUnknownValues { context.hide(entry.value) }
        let key = ShownKey(entry.key)
        // A misspelt key is one mistake, not two.
        if suggesting, let meant = Suggestion.nearest(to: key.name, in: missed.keys.sorted()) {
            missed.removeValue(forKey: meant).map(context.retract)
        }
        let suggestion = suggesting ? Suggestion.hint(for: key.name, in: known) : ""
        if hidesUnknownValues, entry.value.isNull, suggestion.isEmpty, key.columns == nil, !key.isWord {
            // `{SECRET}`: what stands here is rather the value than the key.
            context.hide(entry.keySpan)
            return error("expected a key and its value", at: entry.keySpan)
        }
        refuse(key, at: entry.keySpan, suggestion)
    }

    private func refuse(_ key: ShownKey, at span: SourceSpan, _ suggestion: String) {
        error("unknown key \"\(key.text)\"\(key.advice.map { "; \($0)" } ?? suggestion)", at: span)
    }

    func refuseUnknownKeysIfComplete() {
        if isComplete { refuseUnknownKeys() }
    }

    /// Reports that `key` is missing, or, when a misspelling of it stands there, that one.
    ///
    /// For keys without which the rest of the mapping cannot be judged.
    func missingOrMisspelt(_ key: String) {
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
    func reportAbsence(of key: String, hint: String = "") {
        guard let entry = entries.first(where: { $0.key == key }) else {
            context.recorder?.miss(key, of: path)
            return error("missing key \"\(key)\"\(hint)")
        }
        error("\"\(key)\" has no value\(hint)", at: entry.keySpan)
    }

    /// For a key that narrows something: with nothing behind it, it would not, and nobody would notice.
    func refuseNothing(behind key: String, hint: String) {
        guard entries.contains(where: { $0.key == key && $0.value.isNull }) else { return }
        reportAbsence(of: key, hint: "; remove it \(hint)")
    }

    package func missing(_ key: String) {
        context.recorder?.miss(key, of: path)
        guard !entries.contains(where: { $0.key == key }) else { return reportAbsence(of: key) }
        let diagnostic = ConfigDiagnostic(.error, "missing key \"\(key)\"", at: span, path: path)
        missed[key] = diagnostic
        context.report(diagnostic)
    }

    // MARK: Scalars

    /// The scalar behind `key`; nil when it is absent or null. A sequence or mapping is a problem.
    package func scalar(_ key: String) -> (scalar: ConfigNode.Scalar, span: SourceSpan)? {
        context.recorder?.note(.scalar, for: key, of: path)
        guard let node = node(key), !node.isNull else { return nil }
        guard case .scalar(let scalar) = node.content else {
            error(key, "expected a scalar, found \(node.kindName)")
            return nil
        }
        return (scalar, node.span)
    }

    package func string(_ key: String) -> String? {
        context.recorder?.note(.string, for: key, of: path)
        guard let text = scalar(key)?.scalar.text else { return nil }
        guard !text.isEmpty else {
            error(key, "must not be empty")
            return nil
        }
        guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
            error(key, "must not contain control characters")
            return nil
        }
        return text
    }

    package func requiredString(_ key: String) -> String? {
        guard has(key) else {
            missing(key)
            return nil
        }
        return string(key)
    }

    /// `true` or `false`; YAML 1.1's `yes`, `no`, `on` and `off` are words here, so they are refused with a hint.
    package func bool(_ key: String) -> Bool? {
        context.recorder?.note(.bool, for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        switch scalar.text {
        case "true" where !scalar.isQuoted: return true
        case "false" where !scalar.isQuoted: return false
        default:
            error(key, "expected true or false, found \(scalar.shown)")
            return nil
        }
    }

    package func integer(_ key: String, in range: ClosedRange<Int>) -> Int? {
        context.recorder?.note(.integer(range), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        guard !scalar.isQuoted, let value = Int(scalar.text) else {
            error(key, "expected a whole number, found \(scalar.shown)")
            return nil
        }
        guard range.contains(value) else {
            error(key, "must be between \(range.lowerBound) and \(range.upperBound)")
            return nil
        }
        return value
    }

    /// One of the raw values of an enumeration.
    package func choice<Choice: RawRepresentable & CaseIterable>(_ key: String, of type: Choice.Type) -> Choice?
    where Choice.RawValue == String {
        word(key, of: Choice.allCases.map(\.rawValue)).flatMap(Choice.init(rawValue:))
    }

    /// One of these words.
    ///
    /// - Parameter suggests: Whether a word that is nearly one of them is likely to be misspelt.
    package func word(_ key: String, of words: [String], suggests: Bool = true) -> String? {
        context.recorder?.note(.choice(words), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        if words.contains(scalar.text) { return scalar.text }
        let hint = suggests ? Suggestion.hint(for: scalar.text, in: words) : ""
        error(key, "expected one of \(words.joined(separator: ", ")); found \(scalar.shown)\(hint)")
        return nil
    }

    /// `250ms`, `30s`, `10m`, `1h`, `90d`.
    package func duration(_ key: String, in range: ClosedRange<Duration>? = nil) -> Duration? {
        context.recorder?.note(.duration(range), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        guard let value = ConfigUnits.duration(scalar.text) else {
            error(key, "expected a duration such as 250ms, 30s, 10m or 1h, found \(scalar.shown)")
            return nil
        }
        if let range, !range.contains(value) {
            let (low, high) = (ConfigUnits.text(range.lowerBound), ConfigUnits.text(range.upperBound))
            error(key, "must be between \(low) and \(high)")
            return nil
        }
        return value
    }

    /// `512`, `64KiB`, `1MiB`, in bytes.
    package func size(_ key: String, in range: ClosedRange<Int>) -> Int? {
        context.recorder?.note(.size(range), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        guard let value = ConfigUnits.size(scalar.text) else {
            error(key, "expected a size such as 64KiB or 1MiB, found \(scalar.shown)")
            return nil
        }
        guard range.contains(value) else {
            error(key, "must be between \(range.lowerBound) and \(range.upperBound) bytes")
            return nil
        }
        return value
    }

    /// `10%`.
    package func percent(_ key: String, in range: ClosedRange<Int> = 0...100) -> Int? {
        context.recorder?.note(.percent(range), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        guard scalar.text.hasSuffix("%"), let value = Int(scalar.text.dropLast()), range.contains(value) else {
            let (low, high) = (range.lowerBound, range.upperBound)
            error(key, "expected a share between \(low)% and \(high)%, found \(scalar.shown)")
            return nil
        }
        return value
    }

    /// An https URL of an authority, or http on loopback.
    package func authorityURL(_ key: String) -> AuthorityURL? {
        context.recorder?.note(.url, for: key, of: path)
        guard let text = string(key) else { return nil }
        do throws(AuthorityURL.Refusal) {
            return try AuthorityURL(text)
        } catch {
            switch error {
            case .notAbsolute: self.error(key, "expected an absolute https URL")
            case .plaintext:
                self.error(key, "must be https: a secret would be sent in clear (http is for loopback only)")
            case .hasUserInfo: self.error(key, "must not contain a user name or password")
            case .hasFragment: self.error(key, "must not contain a fragment")
            }
            return nil
        }
    }

    package func requiredAuthorityURL(_ key: String) -> AuthorityURL? {
        guard has(key) else {
            missing(key)
            return nil
        }
        return authorityURL(key)
    }

    // MARK: Collections

    package func fields(_ key: String) -> ConfigFields? {
        context.recorder?.note(.mapping, for: key, of: path)
        guard let entry = entry(key), !entry.value.isNull else { return nil }
        return ConfigFields(entry.value, path: path.appending(key), context: context, under: entry.keySpan)
    }

    /// The elements of a sequence with their paths; nil when absent, a problem when it is not a sequence.
    package func elements(_ key: String) -> [(node: ConfigNode, path: ConfigPath)]? {
        context.recorder?.note(.sequence, for: key, of: path)
        guard let node = node(key), !node.isNull else { return nil }
        guard case .sequence(let nodes) = node.content else {
            error(key, "expected a sequence, found \(node.kindName)")
            return nil
        }
        let path = path.appending(key)
        return nodes.enumerated().map { ($1, path.appending($0)) }
    }

    package func strings(_ key: String) -> [String]? {
        context.recorder?.note(.strings, for: key, of: path)
        guard let elements = elements(key) else { return nil }
        var strings: [String] = []
        for (node, path) in elements {
            guard case .scalar(let scalar) = node.content, !scalar.isNull else {
                context.error("expected a string, found \(node.kindName)", at: node.span, path: path)
                continue
            }
            guard !scalar.text.isEmpty else {
                context.error("must not be empty", at: node.span, path: path)
                continue
            }
            strings.append(scalar.text)
        }
        return strings
    }

    package enum ScalarOrStrings {
        case scalar(ConfigNode.Scalar)
        case strings([String])
    }

    /// A scalar, or a list of strings; nil when it is absent. Anything else is a problem, and so is nothing behind the key.
    package func scalarOrStrings(_ key: String) -> ScalarOrStrings? {
        context.recorder?.note(.scalarOrStrings, for: key, of: path)
        switch node(key)?.content {
        case nil: return nil
        case .scalar(let scalar)? where !scalar.isNull: return .scalar(scalar)
        case .sequence?: return strings(key).map { .strings($0) }
        case .scalar?, .mapping?:
            error(key, "expected a text, a number, true, false or a list of texts")
            return nil
        }
    }

    /// A mapping of names to strings, in file order.
    package func stringMap(_ key: String) -> [(name: String, value: String)]? {
        guard let fields = fields(key) else { return nil }
        return fields.chosenNames().compactMap { name in fields.string(name).map { (name, $0) } }
    }

    /// A program and its arguments, to be run without a shell. `./` is the folder of the file that names it.
    package func command(_ key: String) -> [String]? {
        // Of a program and its arguments in one string, an argument may be a secret.
        if let node = node(key), case .scalar = node.content { context.hide(node) }
        guard var arguments = strings(key) else { return nil }
        guard !arguments.isEmpty else {
            error(key, "names no program")
            return nil
        }
        guard !arguments.contains(where: { $0.utf8.contains(0) }) else {
            error(key, "must not contain a NUL character")
            return nil
        }
        if arguments[0].hasPrefix("./"), let span = node(key)?.span {
            arguments[0] = context.resolve(arguments[0], at: span)
        }
        return arguments
    }

    // MARK: Secrets

    /// A mapping of names to values, in file order; each a plain scalar or the name of a secret. What has a secret's name
    /// is one.
    package func valueMap(_ key: String) -> [(name: String, value: Secret)]? {
        guard let fields = fields(key) else { return nil }
        return fields.chosenNames().compactMap { name in
            context.recorder?.note(.secret, for: name, of: fields.path)
            if case .mapping? = fields.node(name)?.content { return fields.secret(name).map { (name, $0) } }
            if SecretMask.isSensitive(name) { return fields.secret(name).map { (name, $0) } }
            return fields.string(name).map { (name, Secret($0)) }
        }
    }

    /// A mapping of names to secrets, in file order.
    package func secretMap(_ key: String) -> [(name: String, value: Secret)]? {
        guard let fields = fields(key) else { return nil }
        return fields.chosenNames().compactMap { name in fields.requiredSecret(name).map { (name, $0) } }
    }

    /// A scalar, `{env:}`, `{file:}`, `{exec:}` or `{systemd_credential:}`, on one line.
    package func secret(_ key: String) -> Secret? {
        guard let secret = anySecret(key) else { return nil }
        guard secret.withValue({ $0.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }) else {
            error(key, "the secret contains a control character, such as a line break in the middle")
            return nil
        }
        return secret
    }

    package func requiredSecret(_ key: String) -> Secret? {
        guard has(key) else {
            hidesUnknownValues = true
            missing(key)
            return nil
        }
        return secret(key)
    }

    /// A secret that may have several lines: a private key in PEM.
    package func requiredSecretText(_ key: String) -> Secret? {
        guard has(key) else {
            hidesUnknownValues = true
            missing(key)
            return nil
        }
        return anySecret(key)
    }

    private func anySecret(_ key: String) -> Secret? {
        context.recorder?.note(.secret, for: key, of: path)
        hidesUnknownValues = true
        guard let node = node(key), !node.isNull else { return nil }
        let secret = SecretReference.read(node, path: path.appending(key), context: context)
        if let secret, secret.isEmpty {
            error(key, "the secret is empty")
            return nil
        }
        return secret
    }
}
