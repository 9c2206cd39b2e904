import GatewayCore

extension ProxyOffer {
    /// What a gateway that serves this plan offers. Unix sockets are no proxies for clients.
    init(_ plan: Plan, bound: [BoundListener]) {
        let endpoints = bound.compactMap { listener -> ProxyEndpoint? in
            guard case .tcp(let host, let port) = listener.address else { return nil }
            let reach: ConnectionContext.Reach =
                Origin(scheme: .http, host: host, port: port).isLoopback ? .loopback : .network
            return ProxyEndpoint(
                host: host,
                port: listener.port ?? port,
                isTLS: listener.isTLS,
                intercepts: listener.intercepts,
                tunnelsUnrouted: plan.connect[listener.address]?.unrouted == .tunnel,
                requiresClientToken: plan.access.requiresClient(on: reach)
            )
        }
        self.init(endpoints: endpoints, origins: Set(plan.routes.map(\.upstream.description)).sorted())
    }
}
