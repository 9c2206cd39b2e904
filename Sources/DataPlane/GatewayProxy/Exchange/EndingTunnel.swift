import GatewayCore

/// The upstream's end of a tunnel whose client has left in good order: what it sent last is on its way.
struct EndingTunnel {
    let upstream: any UpstreamStream
    private let source: (any CredentialSource)?
    private let credential: Credential?
    private let shared: ProxyShared
    private let client: String?
    /// nil for a server that no route leads to.
    private let route: Int?
    private let reach: ListenerIdentity.Reach

    init(_ upstream: any UpstreamStream, of exchange: ExchangeDriver) {
        self.upstream = upstream
        source = exchange.source
        credential = exchange.credential
        shared = exchange.shared
        client = exchange.record.client
        route = exchange.admitted.route
        reach = exchange.admitted.reach
    }

    /// An operator has taken the credential away.
    func isOver(by withdrawn: WithdrawnCredentials) -> Bool {
        guard let source, let credential else { return false }
        return withdrawn.event(credential, of: source, at: shared.clock.monotonic()) != nil
    }

    /// A reload has taken the client, the route or the credential away.
    func isOver(by withdrawal: (ProxyShared) -> ReloadWithdrawal) -> Bool {
        withdrawal(shared).covers(client: client, route: route, on: reach)
    }
}
