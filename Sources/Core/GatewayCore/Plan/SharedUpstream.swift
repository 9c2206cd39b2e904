/// The routes that lead to one place of a server, and how a request that names the server finds one of them.
package struct SharedUpstream: Hashable, Sendable {
    package struct Member: Hashable, Sendable {
        /// The index into the routes of the configuration.
        package let route: Int
        let clients: [String]?
        let isDefault: Bool
    }

    package private(set) var members: [Member] = []

    package init() {}

    package mutating func add(_ route: Int, _ plan: RoutePlan) {
        members.append(Member(route: route, clients: plan.clients, isDefault: plan.isDefault))
    }

    /// The only one.
    package var single: Int? { members.count == 1 ? members[0].route : nil }

    /// A route that names the client comes before one for every client. Of several, the default is meant.
    ///
    /// - Parameter client: nil where none is known.
    /// - Returns: nil where none is meant more than another.
    package func route(for client: String?) -> Int? {
        if let single { return single }
        let named = members.filter { $0.clients.map { $0.contains { $0 == client } } ?? false }
        if !named.isEmpty { return Self.one(of: named) }
        let open = members.filter { $0.clients == nil }
        return Self.one(of: open.isEmpty ? members : open, isDefaultOnly: open.isEmpty)
    }

    /// - Parameter isDefaultOnly: None of them takes the client. The default says so.
    private static func one(of members: [Member], isDefaultOnly: Bool = false) -> Int? {
        if members.count == 1, !isDefaultOnly { return members[0].route }
        let defaults = members.filter(\.isDefault)
        return defaults.count == 1 ? defaults[0].route : nil
    }

    /// Whether some request finds that route.
    package func finds(_ route: Int) -> Bool {
        let clients = Set(members.flatMap { $0.clients ?? [] })
        return self.route(for: nil) == route || clients.contains { self.route(for: $0) == route }
    }

    /// By scheme, host, port and path.
    package static func all(of routes: [RoutePlan]) -> [String: SharedUpstream] {
        var all: [String: SharedUpstream] = [:]
        for (index, route) in routes.enumerated() where route.matchesUpstreamHost {
            all[route.upstreamPlace, default: SharedUpstream()].add(index, route)
        }
        return all
    }
}

extension RoutePlan {
    /// What requests that name the upstream begin with.
    package var upstreamPlace: String { "\(upstream)\(upstreamMatchPath)" }
}
