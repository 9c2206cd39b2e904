import GatewayAudit
import GatewayCore
import GatewayProxy
import GatewayTokens
import Logging
import ServiceLifecycle

extension Assembly {
    /// What follows other gateways that share the token store, and tells them of this one.
    static func fleet(
        _ storage: Storage,
        _ live: LivePlan,
        _ proxy: ProxyServer,
        _ readiness: ReadinessState,
        startedAt: UnixTime,
        _ clock: any GatewayClock,
        _ logger: Logger
    ) -> [any Service] {
        let withdraw: @Sendable ([any CredentialSource]) async -> [Int] = { await proxy.withdraw($0) }
        let watcher = TokenStoreWatcher(
            of: storage.tokens,
            keepers: { live.sources.allKeepers },
            ended: { keepers in
                let silent = await withdraw(keepers)
                guard let warning = ProxyServer.warning(of: silent, that: "it has ended all use of the token") else {
                    return true
                }
                logger.warning("\(warning)")
                return false
            },
            logger: logger
        )
        let locks = LockFollower(
            storage.locks,
            live: live,
            audit: storage.recorder,
            clock: clock,
            logger: logger,
            withdraw: withdraw
        )
        let host = HostName.current
        let parts = FleetService.Parts(
            store: storage.tokens,
            followLocks: { await locks.follow() },
            followTokens: { await watcher.follow() },
            heartbeat: {
                FleetHeartbeat(
                    id: storage.audit.chainName,
                    host: host,
                    version: GatewayVersion.current,
                    startedAt: startedAt.rfc3339,
                    configurationDigest: live.state.digest,
                    unshipped: storage.audit.unshippedEvents
                )
            },
            reloads: live.replacements,
            unlisted: { readiness.note(unlisted: $0) },
            clock: clock,
            logger: logger
        )
        return [watcher, FleetService(parts)]
    }
}
