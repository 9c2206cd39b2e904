import GatewayCore
import GatewayFiles
import GatewayProxy
import Logging
import Synchronization

/// Follows what is locked and unlocked in the store, by operators of other gateways as a rule.
final class LockFollower: Sendable {
    private struct State {
        var isAway = false
        /// What was locked, and may still be in use.
        var unended: [any CredentialSource] = []
    }

    private let locks: CredentialLocks
    private let live: LivePlan
    private let audit: any AuditLog
    private let clock: any GatewayClock
    private let logger: Logger
    /// See ``TokenOperations/withdraw``.
    private let withdraw: @Sendable ([any CredentialSource]) async -> [Int]
    private let state = Mutex(State())

    init(
        _ locks: CredentialLocks,
        live: LivePlan,
        audit: any AuditLog,
        clock: any GatewayClock,
        logger: Logger,
        withdraw: @escaping @Sendable ([any CredentialSource]) async -> [Int]
    ) {
        self.locks = locks
        self.live = live
        self.audit = audit
        self.clock = clock
        self.logger = logger
        self.withdraw = withdraw
    }

    /// Called by one task.
    ///
    /// - Returns: What was followed; nil when something was not, or when the store does not tell.
    func follow() async -> FleetMark? {
        // Also while the store is away: the start may have followed it before.
        defer { record(unlocked: locks.takeUnlockedByStore()) }
        let found: (changed: Set<String>, upTo: FleetMark?)
        do throws(StateError) {
            found = try await locks.synchronize()
        } catch {
            let wasAway = state.withLock { state in
                defer { state.isAway = true }
                return state.isAway
            }
            if !wasAway { logger.warning("\(error.description)") }
            return nil
        }
        let unended = state.withLock { state in
            state.isAway = false
            return state.unended
        }
        let locked = found.changed.isEmpty ? [] : lock(found.changed)
        let silent = await withdraw(unended + locked)
        state.withLock { $0.unended = silent.isEmpty ? [] : unended + locked }
        if !locked.isEmpty, let warning = ProxyServer.warning(of: silent, that: "it has ended all use of the token") {
            logger.warning("\(warning)")
        }
        return silent.isEmpty ? found.upTo : nil
    }

    private func lock(_ changed: Set<String>) -> [any CredentialSource] {
        let serving = live.state
        let locked = serving.sources.follow(locks, as: serving.plan.credentials, changed: changed)
        let names = LogText.clean(changed.sorted().joined(separator: " "))
        logger.notice(
            "Credentials were locked or unlocked in the token store",
            metadata: ["gateway.credentials": "\(names)"]
        )
        return locked
    }

    /// Does not wait for the disk, so that what others lock meanwhile is followed.
    private func record(unlocked names: Set<String>) {
        guard !names.isEmpty else { return }
        let credentials = live.state.plan.credentials
        let strategies = Dictionary(credentials.map { ($0.name, $0.strategyKind) }) { first, _ in first }
        let events = SharedUnlocks.events(of: names, strategies: strategies, at: clock.now().wall)
        Task { [audit] in
            for event in events { _ = await audit.recordSoon(event) }
        }
    }
}
