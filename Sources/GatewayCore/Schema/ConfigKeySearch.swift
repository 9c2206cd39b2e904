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
