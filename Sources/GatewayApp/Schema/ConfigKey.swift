import GatewayConfiguration
import GatewayHTTP
package import GatewayTokens

/// One key of the configuration, with all that `config explain` says about it.
package struct ConfigKey: Hashable, Sendable {
    /// As people write it: `routes.NAME.upstream`.
    package let path: String
    /// The strategies that read it; empty for a key that does not depend on one.
    var strategies: [String]
    package let type: String
    let isRequired: Bool
    /// nil for a key that nothing explains; a test finds those.
    package let meaning: String?
    /// As it would be written; nil when there is no value without the key.
    package let standard: String?
    /// The whole way from the top of the document, as YAML.
    package let example: String?
    /// The keys below it.
    package let keys: [String]

    /// `*` stands for a name that people choose; a segment that ends with `[]` is a list.
    var segments: [String] {
        path.split(separator: ".").map { $0 == Self.sampleName ? KeyMeaning.anyName : String($0) }
    }

    private static let sampleName = "NAME"

    private init(
        _ segments: [String],
        strategies: [String],
        type: String,
        isRequired: Bool,
        meaning: KeyMeaning?,
        keys: [String]
    ) {
        path = segments.map { $0 == KeyMeaning.anyName ? Self.sampleName : $0 }.joined(separator: ".")
        self.strategies = strategies
        self.type = type
        self.isRequired = isRequired
        self.meaning = meaning?.text
        standard = meaning?.standard
        example = meaning.flatMap { Self.example($0, at: segments) }
        self.keys = keys
    }

    private static func example(_ meaning: KeyMeaning, at segments: [String]) -> String? {
        guard let last = segments.last else { return nil }
        var lines = meaning.lines(for: last == KeyMeaning.anyName ? sampleName : last)
        for segment in segments.dropLast().reversed() {
            if segment.hasSuffix("[]") {
                // The first line begins the element, the others stand below it.
                lines = lines.enumerated().map { $0.offset == 0 ? "- \($0.element)" : "  \($0.element)" }
                lines = ["\(segment.dropLast(2)):"] + lines.map { "  \($0)" }
            } else {
                lines = ["\(segment == KeyMeaning.anyName ? sampleName : segment):"] + lines.map { "  \($0)" }
            }
        }
        return lines.joined(separator: "\n")
    }

    /// Every key there is, once; a key of several strategies is one where it is the same in all of them.
    ///
    /// Takes seconds, because every decoder is asked again and again what it reads.
    package static func all(_ catalog: StrategyCatalog) -> [ConfigKey] {
        var keys = collect(ConfigSchema.tree(catalog), below: [], strategies: [])
        keys.append(include)
        keys += collect(
            ConfigSchema.downscopeTree(catalog),
            below: ["routes", "*", "auth", "downscope"],
            strategies: []
        )
        keys += collect(ConfigSchema.vendTree(catalog), below: ["credentials", "*", "vend"], strategies: [])
        for type in catalog.strategies {
            for key in collect(ConfigSchema.strategyTree(type), below: ["credentials", "*"], strategies: [type.kind])
            where key.segments != ["credentials", "*", "strategy"] {
                keys.append(key)
            }
        }
        return merged(keys)
    }

    /// A key of the main file, which no decoder reads: what loads the files does.
    private static var include: ConfigKey {
        let meaning = PlanDecoder.keys.meanings["include"]
        return ConfigKey(
            ["include"],
            strategies: [],
            type: meaning?.type ?? "",
            isRequired: false,
            meaning: meaning,
            keys: []
        )
    }

    private static func collect(
        _ node: KeyRecorder.Node,
        below path: [String],
        strategies: [String]
    ) -> [ConfigKey] {
        var found: [ConfigKey] = []
        func add(_ name: String, _ child: KeyRecorder.Node) {
            let isList = child.items != nil
            let segments = path + [isList ? "\(name)[]" : name]
            let holdsKeys = !child.kinds.contains(.secret) && !child.isReadText
            let below = isList && !child.isMapping ? child.items ?? child : child
            let meaning = node.meanings[name]
            found.append(
                ConfigKey(
                    path + [name],
                    strategies: strategies,
                    type: meaning?.type ?? KeyType.text(child),
                    isRequired: node.required?.contains(name) ?? false,
                    meaning: meaning,
                    keys: holdsKeys ? below.keys.sorted() : []
                )
            )
            guard holdsKeys else { return }
            found += collect(below, below: segments, strategies: strategies)
        }
        for name in node.keys.sorted() { node.children[name].map { add(name, $0) } }
        if let values = node.values, values.isMapping, !values.kinds.contains(.secret) {
            add(KeyMeaning.anyName, values)
        }
        return found
    }

    /// In the order of their paths.
    private static func merged(_ keys: [ConfigKey]) -> [ConfigKey] {
        var result: [ConfigKey] = []
        var places: [ConfigKey: Int] = [:]
        for key in keys {
            var plain = key
            plain.strategies = []
            if let place = places[plain] {
                result[place].strategies += key.strategies
            } else {
                places[plain] = result.count
                result.append(key)
            }
        }
        return result.sorted { ($0.path, $0.strategies.first ?? "") < ($1.path, $1.strategies.first ?? "") }
    }
}

/// As `config explain --json` prints it.
extension ConfigKey: Codable {
    private enum CodingKeys: String, CodingKey {
        case path, meaning, type, standard = "default", isRequired = "required", strategies, keys, example
    }
}

/// A key as `config explain` shows it.
extension ConfigKey {
    /// The key and what is known about it, one fact a line, with an example that can be copied.
    package var text: String {
        var text = "\(path)\n"
        text += "  \(meaning ?? "Not explained.")\n"
        text += "\n"
        for (name, value) in facts { text += "  \(name.padded(to: 10))\(value)\n" }
        if let example {
            let lines = example.split(separator: "\n", omittingEmptySubsequences: false)
            text += "\n  Example:\n\n" + lines.map { "    \($0)\n" }.joined()
        }
        return text
    }

    private var facts: [(String, String)] {
        var facts = [("type:", type)]
        if let standard { facts.append(("default:", standard)) }
        if isRequired { facts.append(("required:", "yes")) }
        if !strategies.isEmpty { facts.append(("strategy:", strategies.joined(separator: ", "))) }
        if !keys.isEmpty { facts.append(("keys:", keys.joined(separator: ", "))) }
        facts.append(("page:", page))
        return facts
    }

    /// Where the reference lists the key, for its neighbours: acceptance/harness/reference_page.py writes these pages.
    private var page: String {
        let first = String(path.prefix { $0 != "." })
        let holdsKeys = path != first || !keys.isEmpty || ["credentials", "routes"].contains(first)
        let name = strategies.first.map { "strategies/\($0)" } ?? (holdsKeys ? first : "README")
        return "docs/reference/\(name).md#\(path.replacing("[]", with: ""))"
    }
}

extension String {
    fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(1, width - count)) }
}

/// Finds the keys that somebody may mean.
package struct ConfigKeySearch {
    /// Every key, in the order of their paths.
    package let keys: [ConfigKey]
    private let kinds: [String]

    /// - Parameters:
    ///   - keys: Every key, in the order of their paths.
    ///   - kinds: The names of the strategies.
    package init(_ keys: [ConfigKey], kinds: [String]) {
        self.keys = keys
        self.kinds = kinds
    }

    package enum Result: Hashable, Sendable {
        /// All that have this name, in the order of their paths.
        case found([ConfigKey])
        /// The key that was probably meant.
        case unknown(suggestion: String?)
    }

    /// The keys of the document itself, and of each strategy by its name.
    package var top: [ConfigKey] { keys.filter { $0.segments.count == 1 } }

    /// - Parameter query: A path such as `routes.box.upstream` or `listeners.proxy[0].tls`; the last part of one; or the
    ///   name of a strategy, alone or before a key.
    package func find(_ query: String) -> Result {
        let parts = query.split(separator: ".").map { Self.plain(String($0)) }
        guard let first = parts.first else { return .unknown(suggestion: nil) }
        if kinds.contains(first) { return strategy(first, parts.dropFirst()) }
        let exact = keys.filter { $0.isAt(parts) }
        if !exact.isEmpty { return .found(exact) }
        let ending = keys.filter { $0.endsWith(parts) }
        return ending.isEmpty ? .unknown(suggestion: nearest(to: parts)) : .found(ending)
    }

    private func strategy(_ kind: String, _ parts: ArraySlice<String>) -> Result {
        let own = keys.filter { $0.strategies.contains(kind) }
        // Without a key: those of its block, but not what is below them.
        let found = parts.isEmpty ? own.filter { $0.segments.count == 3 } : own.filter { $0.endsWith(Array(parts)) }
        guard found.isEmpty else { return .found(found) }
        let names = own.compactMap(\.segments.last)
        let meant = parts.last.flatMap { Suggestion.nearest(to: $0, in: names) }
        return .unknown(suggestion: meant.map { "\(kind).\($0)" })
    }

    private func nearest(to parts: [String]) -> String? {
        let query = parts.joined(separator: ".")
        if let path = Suggestion.nearest(to: query, in: keys.map(\.path)) { return path }
        guard let last = parts.last else { return nil }
        // The names of the last part are many more than a suggestion looks at.
        let names = Set(keys.compactMap(\.segments.last)).union(kinds).subtracting([KeyMeaning.anyName]).sorted()
        guard let name = Suggestion.nearest(to: last, in: names) else { return nil }
        let siblings = keys.filter { $0.segments.last == name && $0.isBeside(parts) }
        return siblings.first?.path ?? name
    }

    /// `proxy[0]` is the list `proxy`.
    private static func plain(_ part: String) -> String { String(part.prefix { $0 != "[" }) }
}

/// How a key is found by a part of its path.
extension ConfigKey {
    private var names: [String] { segments.map { $0.hasSuffix("[]") ? String($0.dropLast(2)) : $0 } }

    fileprivate func isAt(_ parts: [String]) -> Bool { parts.count == segments.count && endsWith(parts) }

    /// Whether the last segments are these; a name that people choose may be any.
    fileprivate func endsWith(_ parts: [String]) -> Bool {
        guard !parts.isEmpty, parts.count <= segments.count else { return false }
        // One word is a key, never a name that people chose.
        if parts.count == 1 { return names.last == parts[0] && parts[0] != KeyMeaning.anyName }
        return zip(names.suffix(parts.count), parts).allSatisfy { $0 == $1 || $0 == KeyMeaning.anyName }
    }

    /// Whether everything but the last segment fits.
    fileprivate func isBeside(_ parts: [String]) -> Bool {
        parts.count == segments.count
            && zip(names.dropLast(), parts).allSatisfy { $0 == $1 || $0 == KeyMeaning.anyName }
    }
}

/// The kind of a value in words, from what the decoders asked for.
enum KeyType {
    static func text(_ node: KeyRecorder.Node) -> String {
        for case .secrets(let maximum) in node.kinds { return "a secret, or a list of at most \(maximum)" }
        if node.kinds.contains(.secret) {
            return "a secret: {env: NAME}, {file: PATH}, {exec: [PROGRAM]}, {systemd_credential: NAME} or a string"
        }
        if node.isReadText {
            return "\(node.kinds.contains(.url) ? "an https URL" : "a string"), or a reference such as {env: NAME}"
        }
        if let values = node.values {
            return node.keys.isEmpty ? "a mapping of names to \(plural(values))" : "a mapping"
        }
        if node.isMapping { return mapping(node) }
        return scalar(node) ?? "a value"
    }

    /// A mapping, and what may stand in its place.
    private static func mapping(_ node: KeyRecorder.Node) -> String {
        var forms = ["a mapping"]
        if node.kinds.contains(.sequence) || node.items?.isMapping == true { forms.append("a list of mappings") }
        if let other = scalar(node, withoutLists: true) { forms.append(other) }
        return forms.joined(separator: ", or ")
    }

    private static func scalar(_ node: KeyRecorder.Node, withoutLists: Bool = false) -> String? {
        let others: [KeyRecorder.Kind] = [.scalar, .mapping, .sequence, .readText]
        let specific = node.kinds.filter { !others.contains($0) }
        let choice = specific.first { if case .choice = $0 { true } else { false } }
        if let kind = choice ?? specific.first(where: { $0 != .string }) ?? specific.first { return text(kind) }
        if !withoutLists, node.kinds.contains(.sequence) {
            return node.items.map { "a list of \(plural($0))" } ?? "a list of strings"
        }
        return node.kinds.contains(.scalar) ? "a string" : nil
    }

    private static func plural(_ node: KeyRecorder.Node) -> String {
        if node.kinds.contains(.secret) { return "secrets or strings" }
        return node.isMapping || node.values != nil ? "mappings" : "strings"
    }

    private static func text(_ kind: KeyRecorder.Kind) -> String {
        switch kind {
        case .scalar, .string: "a string"
        case .bool: "true or false"
        case .integer(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .choice(let words): words.count == 1 ? words[0] : "one of \(words.joined(separator: ", "))"
        case .duration(let range):
            range.map { "a duration from \(ConfigUnits.text($0.lowerBound)) to \(ConfigUnits.text($0.upperBound))" }
                ?? "a duration such as 30s, 10m or 1h"
        case .size(let range):
            "a size from \(ConfigUnits.text(bytes: range.lowerBound)) to \(ConfigUnits.text(bytes: range.upperBound))"
        case .percent(let range): "a share from \(range.lowerBound)% to \(range.upperBound)%"
        case .url: "an https URL"
        case .secret: "a secret"
        case .secrets(let maximum): "a secret, or a list of at most \(maximum)"
        case .readText: "a string"
        case .strings: "a list of strings"
        case .scalarOrStrings: "a string, or a list of strings"
        case .mapping: "a mapping"
        case .sequence: "a list"
        }
    }
}
