import GatewayCore
import GatewayProxy
import GatewayTokenKeeper
import Logging
import ServiceLifecycle

extension Assembly {
    /// What follows other gateways that share the token store.
    static func fleet(
        _ storage: Storage,
        _ live: LivePlan,
        _ proxy: ProxyServer,
        _ clock: any GatewayClock,
        _ logger: Logger
    ) -> [any Service] {
        let withdraw: @Sendable ([any CredentialSource]) async -> [Int] = { await proxy.withdraw($0) }
        return [
            TokenStoreWatcher(
                of: storage.tokens,
                keepers: { live.sources.allKeepers },
                ended: { keepers in
                    let silent = await withdraw(keepers)
                    guard let warning = ProxyServer.warning(of: silent, that: "it has ended all use of the token")
                    else {
                        return
                    }
                    logger.warning("\(warning)")
                },
                clock: clock,
                logger: logger
            ),
            LockService(locks: storage.locks, live: live, clock: clock, logger: logger, withdraw: withdraw),
        ]
    }
}
