import GatewayCore
import NIOCore

extension HTTP1ClientConnection {
    /// A reload has come.
    ///
    /// - Parameter withdrawal: What the reload takes from requests of a configuration.
    func followReload(_ withdrawal: (ProxyShared) -> ReloadWithdrawal) {
        guard let exchange else {
            if phase == .head, !reader.isWithinHead { takeConfiguration() }
            return
        }
        guard exchange.followReload(withdrawal(exchange.shared), isAdmitted: isStillAdmitted(exchange)) else { return }
        self.exchange = nil
        takeConfiguration()
        phase = .head
        authorize()
        process()
    }

    private func isStillAdmitted(_ exchange: ExchangeDriver) -> Bool {
        guard let shared = configuration.worker.current?.shared else { return false }
        var cache = ClientAuthenticationCache()
        var trace: AuthorizationTrace?
        let bytes = request.bytes
        let decision = shared.authorizer.decide(
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            on: identity,
            cache: &cache,
            trace: &trace
        )
        switch consume decision {
        case .refused: return false
        case .preflight: return false
        case .admitted(let admitted):
            return exchange.goes(by: shared.routes[admitted.match.route], as: admitted.client)
        }
    }
}
