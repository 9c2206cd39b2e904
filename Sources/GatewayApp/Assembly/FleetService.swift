import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayProxy
import GatewayTokens
import Logging
import ServiceLifecycle
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Follows, about once a second, what other gateways of the token store do, and tells them of this one.
///
/// A heartbeat comes after each round. So what it acknowledges was known before the round, and is followed.
final class FleetService: Service {
    struct Parts: Sendable {
        let store: any TokenStore
        /// See ``LockFollower/follow()``.
        let followLocks: @Sendable () async -> FleetMark?
        /// See ``TokenStoreWatcher/follow()``.
        let followTokens: @Sendable () async -> FleetMark?
        /// What this gateway reports about itself, without clock and acknowledgement.
        let heartbeat: @Sendable () -> FleetHeartbeat
        let reloads: AsyncStream<Void>
        /// Told after each heartbeat why other gateways do not know this one; nil when they do.
        var unlisted: @Sendable (String?) -> Void = { _ in }
        let clock: any GatewayClock
        let logger: Logger
        var jitter: @Sendable () -> Double = { Double.random(in: 0...1) }
        /// Between two rounds, however often gateways are called.
        var pause: Duration = .milliseconds(50)
    }

    private struct State {
        var acknowledgement = FleetAcknowledgement()
        var clockOffset = Duration.zero
        var lastBeat: MonotonicTime?
        var isUntold = false
    }

    /// How often others are followed; a quarter of it more at the most, so that gateways do not ask at the same time.
    static let interval: Duration = .seconds(1)
    /// A heartbeat does not wait for a round that takes longer.
    static let longestPause: Duration = .milliseconds(1500)
    private static let look: Duration = .milliseconds(500)
    private static let leaveLimit: Duration = .seconds(1)

    private let parts: Parts
    private let state = Mutex(State())
    private let rounds = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private let beats = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    init(_ parts: Parts) { self.parts = parts }

    /// Does nothing for a store that no other gateway uses.
    func run() async throws {
        guard parts.store.isShared else {
            try? await gracefulShutdown()
            return
        }
        await cancelWhenGracefulShutdown { [self] in
            await withDiscardingTaskGroup { tasks in
                tasks.addTask { await self.beginRounds() }
                tasks.addTask { await self.takeRounds() }
                guard let fleet = self.parts.store.sharedFleet else { return }
                tasks.addTask { for await _ in fleet.calls() { self.rounds.continuation.yield() } }
                tasks.addTask { for await _ in self.parts.reloads { self.beats.continuation.yield() } }
                tasks.addTask { await self.requestLateBeats() }
                tasks.addTask { for await _ in self.beats.stream { await self.beat(fleet) } }
            }
        }
        await leave()
    }

    private func beginRounds() async {
        repeat {
            rounds.continuation.yield()
        } while (try? await parts.clock.sleep(for: Self.interval + Self.interval / 4 * parts.jitter())) != nil
    }

    private func takeRounds() async {
        for await _ in rounds.stream {
            await follow()
            guard parts.pause > .zero else { continue }
            try? await parts.clock.sleep(for: parts.pause)
        }
    }

    private func follow() async {
        let (followedLocks, followedTokens) = await SideBySide.results(of: parts.followLocks, and: parts.followTokens)
        state.withLock { state in
            if let mark = followedLocks { state.acknowledgement.follow(.locks, upTo: mark) }
            if let mark = followedTokens { state.acknowledgement.follow(.tokens, upTo: mark) }
        }
        beats.continuation.yield()
    }

    // MARK: Heartbeats

    private func requestLateBeats() async {
        while (try? await parts.clock.sleep(for: Self.look)) != nil {
            let last = state.withLock { $0.lastBeat }
            let isLate = last.map { parts.clock.monotonic() - $0 >= Self.longestPause } ?? true
            if isLate { beats.continuation.yield() }
        }
    }

    private func beat(_ fleet: any SharedFleet) async {
        let clock = parts.clock
        var heartbeat = parts.heartbeat()
        state.withLock { state in
            state.lastBeat = clock.monotonic()
            heartbeat.clockOffset = state.clockOffset
            if let mark = state.acknowledgement.mark { heartbeat.acknowledged = mark }
        }
        let sent = clock.now().wall
        do throws(TokenStoreError) {
            let time = try await fleet.beat(heartbeat)
            let offset = FleetClock.offset(of: time, sent: sent, received: clock.now().wall)
            state.withLock { state in
                state.isUntold = false
                if let offset { state.clockOffset = offset }
            }
            parts.unlisted(nil)
        } catch {
            complain(error)
        }
    }

    /// Where the store cannot be used at all, others have said so.
    private func complain(_ error: TokenStoreError) {
        guard parts.store.failure == nil else { return parts.unlisted(nil) }
        let reason = LogText.clean(error.reason)
        parts.unlisted(reason)
        let isKnown = state.withLock { state in
            defer { state.isUntold = true }
            return state.isUntold
        }
        guard !isKnown else { return }
        parts.logger.warning(
            "Other gateways cannot see this one",
            metadata: ["gateway.reason": "\(reason)"]
        )
    }

    /// Other gateways do not wait for one that has stopped.
    private func leave() async {
        guard let fleet = parts.store.sharedFleet else { return }
        let id = parts.heartbeat().id
        _ = await Deadline.value(within: Self.leaveLimit) { try? await fleet.leave(id) }
    }
}

/// The name of this machine.
enum HostName {
    private static let maximumLength = 255

    /// The name that the system has; no name server is asked.
    static let current: String = {
        var bytes = [CChar](repeating: 0, count: maximumLength + 1)
        guard unsafe gethostname(&bytes, maximumLength) == 0 else { return "unknown" }
        let name = bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return name.isEmpty ? "unknown" : String(decoding: name, as: UTF8.self)
    }()
}

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
        if !locked.isEmpty, let warning = ProxyServer.warning(of: silent, that: "it has stopped using the token") {
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
