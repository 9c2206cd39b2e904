/// The routes that lead to one place of a server, and how a request that names the server finds one of them.
package struct SharedUpstream: Hashable, Sendable {
    /// Routes that a request may mean alike.
    private struct Candidates: Hashable, Sendable {
        private(set) var count = 0
        private(set) var first: Int?
        private var defaults = 0
        private var firstDefault: Int?

        mutating func add(_ route: Int, isDefault: Bool) {
            count += 1
            first = first ?? route
            guard isDefault else { return }
            defaults += 1
            firstDefault = firstDefault ?? route
        }

        /// - Parameter isDefaultOnly: None of them takes the client. The default says so.
        func one(isDefaultOnly: Bool = false) -> Int? {
            if count == 1, !isDefaultOnly { return first }
            return defaults == 1 ? firstDefault : nil
        }
    }

    package private(set) var routes: [Int] = []
    private var all = Candidates()
    /// The routes that are open to every client.
    private var open = Candidates()
    private var byClient: [String: Candidates] = [:]

    package init() {}

    package mutating func add(_ route: Int, _ plan: RoutePlan) {
        routes.append(route)
        all.add(route, isDefault: plan.isDefault)
        guard let clients = plan.clients else { return open.add(route, isDefault: plan.isDefault) }
        for client in Set(clients) { byClient[client, default: Candidates()].add(route, isDefault: plan.isDefault) }
    }

    /// The only one.
    var single: Int? { all.count == 1 ? all.first : nil }

    /// A route that names the client comes before one for every client. Of several, the default is meant.
    ///
    /// - Parameter client: nil where none is known.
    /// - Returns: nil where none is meant more than another.
    package func route(for client: String?) -> Int? {
        if let single { return single }
        if let client, let named = byClient[client] { return named.one() }
        return open.count == 0 ? all.one(isDefaultOnly: true) : open.one()
    }

    /// Whether some request finds that route, which is one of them.
    package func finds(_ route: Int, _ plan: RoutePlan) -> Bool {
        self.route(for: nil) == route || plan.clients?.contains { self.route(for: $0) == route } ?? false
    }

    /// The shared upstreams, by scheme, host, port and path.
    package static func all(of routes: [RoutePlan]) -> [String: SharedUpstream] {
        var all: [String: SharedUpstream] = [:]
        for (index, route) in routes.enumerated() where route.matchesUpstreamHost {
            all[route.upstreamPlace, default: SharedUpstream()].add(index, route)
        }
        return all
    }
}
