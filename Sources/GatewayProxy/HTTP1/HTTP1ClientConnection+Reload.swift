import GatewayCore
import NIOCore

extension HTTP1ClientConnection {
    /// A reload has come.
    ///
    /// - Parameter withdrawal: What the reload takes from requests of a configuration.
    func followReload(_ withdrawal: (ProxyShared) -> ReloadWithdrawal) {
        guard let exchange else {
            if engineFollowsReload() { return }
            if phase == .head, !reader.isWithinHead { takeConfiguration() }
            return
        }
        let verdict = configuration.worker.verdict(on: exchange, request, from: identity)
        guard exchange.followReload(withdrawal(exchange.shared), verdict) else { return }
        self.exchange = nil
        takeConfiguration()
        phase = .head
        authorize()
        process()
    }
}
