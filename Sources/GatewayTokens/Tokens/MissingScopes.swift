package import GatewayHTTP

/// The scopes that upstreams have missed in a token since the last login for it. Bounded, because upstreams choose the names.
package struct MissingScopes: Hashable, Sendable {
    /// How many scopes are remembered.
    package static let limit = 16
    /// How long, after the last response that named one. Somebody who does not want to grant it need not do anything.
    package static let memory: Duration = .seconds(86_400)

    private var names: [String] = []
    private var namedAt: MonotonicTime?

    package init() {}

    /// - Parameters:
    ///   - scopes: What a response has named.
    ///   - known: What logins ask for anyway. A scope of it is only remembered where the response names nothing else: it was not granted.
    /// - Returns: Those that are new.
    package mutating func note(_ scopes: [String], known: [String], at now: MonotonicTime) -> [String] {
        let unknown = scopes.filter { !known.contains($0) }
        let earlier = self.names(at: now)
        names = Array(earlier.addingNew(unknown.isEmpty ? scopes : unknown).prefix(Self.limit))
        namedAt = now
        return Array(names.dropFirst(earlier.count))
    }

    package func names(at now: MonotonicTime) -> [String] {
        guard let namedAt, now - namedAt < Self.memory else { return [] }
        return names
    }
}
