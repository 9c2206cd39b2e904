import GatewayCore

extension HTTP1ClientConnection {
    /// Ends the exchange if the reload has withdrawn its right. A request that has not left begins anew.
    ///
    /// - Parameter withdrawal: What the reload takes from requests of a configuration.
    func followReload(_ withdrawal: (ProxyShared) -> ReloadWithdrawal) {
        guard let exchange else {
            if phase == .head, !reader.isWithinHead { followReload() }
            return
        }
        if !exchange.record.wasSent {
            beginAgain()
        } else if withdrawal(exchange.shared).covers(
            client: exchange.record.client,
            route: exchange.admitted.match.route
        ) {
            exchange.exclude(ReloadWithdrawal.problem)
        }
    }

    private func beginAgain() {
        exchange.take()?.leaveUnsent()
        followReload()
        phase = .head
        authorize()
        process()
    }
}
