import GatewayConfiguration
import GatewayHTTP

/// The way of plain requests of one client connection to a server that no route leads to.
///
/// It injects nothing. The upstream connection is a ``PrivateConnection``, because the client may authenticate it.
final class UnroutedRoute {
    let route: CredentialedRoute
    private let server: TunnelDestination

    /// - Throws: ``ListenerError`` as for any target.
    init(to server: TunnelDestination, under configuration: WorkerConfiguration) throws(ListenerError) {
        self.server = server
        let (shared, plan) = (configuration.shared, RoutePlan(to: server))
        var contexts = UpstreamTLSContexts()
        let target = try UpstreamTarget(
            plan,
            key: UpstreamTarget.Key(plan),
            budget: ConnectionBudget(
                maximum: shared.limits.connectionsPerUpstream,
                clients: shared.clientNames
            ),
            contexts: &contexts,
            parent: shared.parent(ofUnrouted: plan.upstream),
            sha256: shared.configuration.sha256
        )
        let compiled = CompiledRoute(
            index: Int.max,
            route: ProxyRoute(plan: plan, source: nil, number: shared.configuration.unroutedNumber ?? 0),
            upstream: UpstreamHeaderTemplate(
                plan.upstream.authority,
                viaName: shared.viaName,
                of: shared.configuration
            ),
            requestIDHeader: shared.configuration.requestIDHeader,
            answersPages: false,
            now: shared.clock.monotonic()
        )
        let pool = UpstreamPool(target: target, server: server, worker: configuration.worker, shared: shared)
        let state = WorkerRoute(route: compiled, pool: pool, http1Pool: pool, limits: shared.limits)
        route = CredentialedRoute(state, credential: nil, of: nil)
    }

    func leads(to server: TunnelDestination) -> Bool {
        self.server.lookupName == server.lookupName && self.server.port == server.port
            && self.server.client == server.client
    }
}

extension RoutePlan {
    /// Passes what the client sends and what the server answers, as far as it is not of one connection.
    fileprivate init(to server: TunnelDestination) {
        self.init(
            name: ConnectPlan.unroutedName,
            upstream: server.plainOrigin,
            upstreamPath: "",
            matchPath: "/",
            matchHosts: [],
            credential: nil,
            headers: Headers(forwarded: .pass),
            cookies: .pass,
            rewritesLinks: false,
            allowsConnectionAuth: true,
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
    }
}
