import GatewayCore
import GatewayProxy
import GatewayTokenKeeper
import Logging
import ServiceLifecycle

/// Follows, once a second, what operators of other gateways lock and unlock.
struct LockService: Service {
    static let interval: Duration = .seconds(1)

    let locks: CredentialLocks
    let live: LivePlan
    let clock: any GatewayClock
    let logger: Logger
    /// See ``TokenOperations/withdraw``.
    let withdraw: @Sendable ([any CredentialSource]) async -> [Int]

    func run() async throws {
        guard locks.isShared else {
            try? await gracefulShutdown()
            return
        }
        await cancelWhenGracefulShutdown {
            var isAway = false
            while (try? await clock.sleep(for: Self.interval)) != nil { isAway = await !follow(saysFailure: !isAway) }
        }
    }

    /// - Returns: Whether the store answered.
    func follow(saysFailure: Bool) async -> Bool {
        let changed: Set<String>
        do throws(StateError) {
            changed = try await locks.synchronize()
        } catch {
            if saysFailure { logger.warning("\(error.description)") }
            return false
        }
        guard !changed.isEmpty else { return true }
        let state = live.state
        let locked = state.sources.follow(locks, as: state.plan.credentials, changed: changed)
        let names = LogText.clean(changed.sorted().joined(separator: " "))
        logger.notice(
            "Another gateway has locked or unlocked credentials",
            metadata: ["gateway.credentials": "\(names)"]
        )
        let silent = await withdraw(locked)
        if let warning = ProxyServer.warning(of: silent, that: "it has ended all use of the token") {
            logger.warning("\(warning)")
        }
        return true
    }
}
