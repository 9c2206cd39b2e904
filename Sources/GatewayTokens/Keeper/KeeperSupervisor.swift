package import GatewayHTTP
import ServiceLifecycle
import Synchronization

/// Runs the keepers: from the start, from reloads, and for subjects that requests name.
///
/// A keeper has a task only while it works. Most of ten thousand keepers wait for their next renewal.
package final class KeeperSupervisor: Service {
    /// How many keepers of one authorization server work at a time. Each uses a connection to it during a call.
    private static let limitPerAuthority = 256
    /// How many keepers work at a time. Each has at most one statement at the token store, which carries out a thousand or more per
    /// second and has 5 s for each. Beyond the limit, each authorization server still has a few, so that servers that do not answer
    /// do not stop the others.
    private static let limits = WorkLimits(group: limitPerAuthority, all: 2048, reserved: 8)

    /// Whether the buffered events of a keeper are being written.
    private enum Writing {
        case none
        /// A task writes them.
        case written
        /// There are more now, so the task goes on.
        case writtenAgain
    }

    private struct Run {
        let keeper: TokenKeeper
        /// Keepers of the same token. They run one after the other once this one has ended.
        var successors: [TokenKeeper] = []
        var writing = Writing.none
    }

    private struct State {
        var schedule = WorkSchedule<CredentialKey, Origin?>(KeeperSupervisor.limits)
        var runs: [CredentialKey: Run] = [:]
        /// No more runs begin.
        var isStopping = false
        /// When the timer fires.
        var timerDue: MonotonicTime?
        /// The keepers that have events to write.
        var writers: [TokenKeeper] = []
    }

    private let clock: any GatewayClock
    private let state = Mutex(State())
    private let wakeUps = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    package init(clock: any GatewayClock) { self.clock = clock }

    /// Two keepers must not keep one token at the same time, so this one begins when an earlier one of the token has ended.
    package func start(_ keeper: TokenKeeper) {
        let isRefused = state.withLock { state in
            guard !state.isStopping else { return true }
            guard state.runs[keeper.key] == nil else {
                state.runs[keeper.key]?.successors.append(keeper)
                return false
            }
            begin(keeper, &state)
            return false
        }
        // The gateway is stopping. The keeper will not run, so its waiting requests are refused.
        if isRefused { return keeper.close() }
        listen(to: keeper)
    }

    private func begin(_ keeper: TokenKeeper, _ state: inout State) {
        state.runs[keeper.key] = Run(keeper: keeper)
        state.schedule.add(keeper.key, of: keeper.authority)
    }

    private func listen(to keeper: TokenKeeper) {
        keeper.onSignal { [weak self, weak keeper] work in
            guard let self, let keeper else { return }
            self.take(work, of: keeper)
        }
        wakeUps.continuation.yield()
    }

    private func take(_ work: KeeperWork, of keeper: TokenKeeper) {
        state.withLock { state in
            // A successor works when its turn comes.
            guard let run = state.runs[keeper.key], run.keeper === keeper else { return }
            switch work {
            case .turn(let urgency): state.schedule.wake(keeper.key, urgency)
            case .auditEvents:
                if run.writing == .none { state.writers.append(keeper) }
                state.runs[keeper.key]?.writing = run.writing == .none ? .written : .writtenAgain
            }
        }
        wakeUps.continuation.yield()
    }

    package func run() async throws {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { tasks in
                var timer: Task<Void, Never>?
                for await _ in wakeUps.stream {
                    let round = nextRound()
                    for keeper in round.turns { tasks.addTask { await self.work(keeper) } }
                    for keeper in round.writers { tasks.addTask { await self.writeBufferedEvents(of: keeper) } }
                    if round.isLast { break }
                    guard let due = round.due else { continue }
                    timer?.cancel()
                    timer = Task { await self.wake(at: due) }
                }
                timer?.cancel()
            }
            await endAll()
        } onGracefulShutdown: {
            self.stop()
        }
    }

    private struct Round {
        var turns: [TokenKeeper] = []
        var writers: [TokenKeeper] = []
        /// When the timer has to fire; nil if it does not change.
        var due: MonotonicTime?
        var isLast = false
    }

    private func nextRound() -> Round {
        let now = clock.now().monotonic
        return state.withLock { state in
            var round = Round(writers: state.writers, isLast: state.isStopping && state.runs.isEmpty)
            state.writers = []
            round.turns = state.schedule.begin(at: now).compactMap { state.runs[$0]?.keeper }
            if let due = state.schedule.nextDue, due != state.timerDue {
                (round.due, state.timerDue) = (due, due)
            }
            return round
        }
    }

    private func wake(at due: MonotonicTime) async {
        guard (try? await clock.sleep(for: due - clock.now().monotonic)) != nil else { return }
        state.withLock { if $0.timerDue == due { $0.timerDue = nil } }
        wakeUps.continuation.yield()
    }

    private func work(_ keeper: TokenKeeper) async {
        let due = await keeper.work()
        guard keeper.isEnding else {
            state.withLock { $0.schedule.finished(keeper.key, until: due) }
            wakeUps.continuation.yield()
            return
        }
        await keeper.finish()
        end(keeper)
    }

    private func writeBufferedEvents(of keeper: TokenKeeper) async {
        repeat { await keeper.writeBufferedEvents() } while hasMoreEvents(keeper)
    }

    private func hasMoreEvents(_ keeper: TokenKeeper) -> Bool {
        state.withLock { state in
            guard let run = state.runs[keeper.key], run.keeper === keeper else { return false }
            let hasMore = run.writing == .writtenAgain
            state.runs[keeper.key]?.writing = hasMore ? .written : .none
            return hasMore
        }
    }

    /// The keeper's run is over. The next keeper of the token begins, unless the gateway is stopping.
    private func end(_ keeper: TokenKeeper) {
        keeper.onSignal(nil)
        let refused = state.withLock { state -> [TokenKeeper] in
            state.schedule.remove(keeper.key)
            let successors = state.runs.removeValue(forKey: keeper.key)?.successors ?? []
            guard !state.isStopping, let next = successors.first else { return successors }
            begin(next, &state)
            state.runs[next.key]?.successors = Array(successors.dropFirst())
            // It may have been told of work while it waited.
            state.schedule.wake(next.key, .command)
            state.writers.append(next)
            state.runs[next.key]?.writing = .written
            return []
        }
        for keeper in refused { keeper.close() }
        wakeUps.continuation.yield()
    }

    private func stop() {
        let running = state.withLock { state in
            state.isStopping = true
            return state.runs.values.map(\.keeper)
        }
        for keeper in running { keeper.stop() }
        wakeUps.continuation.yield()
    }

    /// After a cancellation: ends the keepers that are left.
    private func endAll() async {
        let left = state.withLock { state in
            state.isStopping = true
            return state.runs.values.map(\.keeper)
        }
        for keeper in left {
            await keeper.finish()
            end(keeper)
        }
    }
}
