import GatewayCore

/// Gathers the distinct upstreams of a configuration.
struct UpstreamTargets {
    private(set) var all: [UpstreamTarget] = []
    private var known: [UpstreamTarget.Key: Int] = [:]
    /// By the target in HTTP/1.1, whatever the version is.
    private(set) var budgets: [UpstreamTarget.Key: ConnectionBudget] = [:]
    private let kept: [UpstreamTarget.Key: ConnectionBudget]
    private var contexts = UpstreamTLSContexts()
    private let configuration: ProxyConfiguration

    /// - Parameter budgets: Of the configuration before. Those of the same upstreams go on.
    init(of configuration: ProxyConfiguration, keeping budgets: [UpstreamTarget.Key: ConnectionBudget] = [:]) {
        self.configuration = configuration
        kept = budgets
    }

    mutating func index(of route: RoutePlan) throws(ListenerError) -> Int {
        try index(of: route, UpstreamTarget.Key(route))
    }

    mutating func indexInHTTP1(of route: RoutePlan) throws(ListenerError) -> Int {
        try index(of: route, UpstreamTarget.Key(route).inHTTP1)
    }

    private mutating func index(of route: RoutePlan, _ key: UpstreamTarget.Key) throws(ListenerError) -> Int {
        if let index = known[key] { return index }
        known[key] = all.count
        all.append(
            try UpstreamTarget(
                route,
                key: key,
                budget: budget(of: key),
                contexts: &contexts,
                sha256: configuration.sha256
            )
        )
        return all.count - 1
    }

    private mutating func budget(of key: UpstreamTarget.Key) -> ConnectionBudget {
        if let budget = budgets[key.inHTTP1] { return budget }
        let budget =
            kept[key.inHTTP1]
            ?? ConnectionBudget(
                maximum: configuration.limits.connectionsPerUpstream,
                clients: configuration.access.clients.map(\.name)
            )
        budgets[key.inHTTP1] = budget
        return budget
    }
}
