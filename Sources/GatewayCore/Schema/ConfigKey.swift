/// One key of the configuration, with all that `config explain` says about it.
package struct ConfigKey: Hashable, Sendable {
    /// As people write it: `routes.NAME.upstream`.
    package let path: String
    /// The strategies that read it; empty for a key that does not depend on one.
    package internal(set) var strategies: [String]
    package let type: String
    package let isRequired: Bool
    /// nil for some keys deep within a strategy, which its example shows.
    package let meaning: String?
    /// As it would be written; nil when there is no value without the key.
    package let standard: String?
    /// The whole way from the top of the document, as YAML.
    package let example: String?
    /// The keys below it.
    package let keys: [String]

    /// `*` stands for a name that people choose; a segment that ends with `[]` is a list.
    package var segments: [String] {
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

    /// Of the main file, read by what loads it.
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
