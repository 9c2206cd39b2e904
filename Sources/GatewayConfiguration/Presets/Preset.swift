/// A service that is known by name: its hosts, how it authenticates, and what secret to bring.
///
/// `preset: NAME` in a credential or a route stands for the keys that are here (``PresetExpansion``).
package struct Preset: Hashable, Sendable {
    /// A word in the texts of the preset that the configuration fills in, written `${NAME}` there.
    package struct Parameter: Hashable, Encodable, Sendable {
        package let name: String
        /// What it is, for people.
        package let what: String
        package let example: String
        /// nil: the configuration has to say it.
        package let defaultValue: String?

        private enum CodingKeys: String, CodingKey { case name, what, example, defaultValue = "default" }
    }

    /// An environment variable that the preset reads a secret from, unless the configuration names another source.
    package struct RequiredSecret: Hashable, Encodable, Sendable {
        package let variable: String
        /// What kind of secret, for people.
        package let what: String
        /// The page where a person gets it.
        package let `where`: String?
    }

    /// A route of the service. The first one is what `preset: NAME` means in a route.
    package struct Route: Hashable, Sendable {
        package let name: String
        package let node: ConfigNode
    }

    package let name: String
    package let title: String
    /// Other words that people look for it with.
    package let words: [String]
    /// The page that the preset was made from.
    package let docs: String
    /// When that page was read, as `2026-11-26`; nil when it was not.
    package let read: String?
    package let parameters: [Parameter]
    package let secrets: [RequiredSecret]
    /// What a person should know before using it.
    package let note: String?
    package let credential: ConfigNode
    package let routes: [Route]

    /// The strategy of the credential.
    package var strategy: String? {
        guard case .mapping(let entries) = credential.content,
            case .scalar(let name)? = entries.first(where: { $0.key == "strategy" })?.value.content
        else { return nil }
        return name.text
    }

    /// The path that shows whose credential it is, where the preset knows one that is asked with GET.
    package var whoami: String? {
        guard case .mapping(let entries)? = routes.first?.node.content else { return nil }
        switch entries.first(where: { $0.key == "whoami" })?.value.content {
        case .scalar(let path)?: return path.text
        case .mapping(let keys)?:
            guard !keys.contains(where: { $0.key == "method" }),
                case .scalar(let path)? = keys.first(where: { $0.key == "path" })?.value.content
            else { return nil }
            return path.text
        case .sequence?, nil: return nil
        }
    }

    /// - Parameter name: nil for the first route.
    package func route(_ name: String?) -> Route? {
        guard let name else { return routes.first }
        return routes.first { $0.name == name }
    }
}

/// The presets that a configuration can name.
package struct PresetLibrary: Sendable {
    private let readNames: @Sendable () -> [String]
    private let readPreset: @Sendable (String) -> Preset?

    package init(_ presets: [Preset] = []) {
        let named = Dictionary(presets.map { ($0.name, $0) }) { first, _ in first }
        self.init(names: { Array(named.keys) }) { named[$0] }
    }

    /// Presets that are read when they are asked for.
    ///
    /// - Parameters:
    ///   - names: Of all of them, each once.
    ///   - preset: The preset of a name; nil where there is none.
    package init(names: @escaping @Sendable () -> [String], preset: @escaping @Sendable (String) -> Preset?) {
        readNames = names
        readPreset = preset
    }

    package var names: [String] { readNames().sorted() }
    /// All, in the order of their names.
    package var presets: [Preset] { names.compactMap(readPreset) }

    package subscript(name: String) -> Preset? { readPreset(name) }

    /// Those of `other` replace presets of the same name.
    package func overridden(by other: Self) -> Self {
        Self(names: { Array(Set(readNames()).union(other.readNames())) }) { other[$0] ?? self[$0] }
    }

    /// The presets that have every word of `search` in their name, title or other words.
    package func matches(_ search: String) -> [Preset] {
        let words = search.lowercased().split(separator: " ")
        return presets.filter { preset in
            let text = ([preset.name, preset.title] + preset.words).joined(separator: " ").lowercased()
            return words.allSatisfy { text.contains($0) }
        }
    }
}
