import GatewayCore

extension HTTP1ClientConnection {
    /// A reload has come.
    ///
    /// - Parameter withdrawal: What the reload takes from requests of a configuration.
    func followReload(_ withdrawal: (ProxyShared) -> ReloadWithdrawal) {
        guard let exchange else {
            if phase == .head, !reader.isWithinHead { takeConfiguration() }
            return
        }
        if exchange.followReload(withdrawal(exchange.shared)) { beginAgain() }
    }

    private func beginAgain() {
        exchange = nil
        takeConfiguration()
        phase = .head
        authorize()
        process()
    }
}
