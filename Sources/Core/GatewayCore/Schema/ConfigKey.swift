/// One key of the configuration, with all that `config explain` says about it.
package struct ConfigKey: Hashable, Sendable {
    /// `*` stands for a name that people choose; a segment that ends with `[]` is a list.
    package let segments: [String]
    /// The strategies that read it; empty for a key that does not depend on one.
    package internal(set) var strategies: [String]
    package let type: String
    package let isRequired: Bool
    /// nil for some keys deep within a strategy, which its example shows.
    package let meaning: KeyMeaning?
    /// The keys below it.
    package let keys: [String]

    /// As people write it: `routes.NAME.upstream`.
    package var path: String { segments.map { $0 == KeyMeaning.anyName ? "NAME" : $0 }.joined(separator: ".") }

    /// Every key there is, once; a key of several strategies is one where it is the same in all of them.
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
        let meaning = PlanDecoder.meanings["include"]
        return ConfigKey(
            segments: ["include"],
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
                    segments: path + [name],
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
