import NIOCore
import Synchronization

/// How many connections there may be to one target, over all event loops (docs/internals/adr/0024).
///
/// A pool that needs a connection when there are that many waits for a place. A place that becomes free goes to the pool that has
/// waited longest. The other pools close idle connections for it. A pool that has more connections closes one whose request is over,
/// too, and so does every pool once it has waited for long.
///
/// Pools ask when connections are opened and closed. They ask with a request only while a pool waits.
final class ConnectionBudget: Sendable {
    /// A pool as other event loops know it, while it has places or waits for one.
    final class PoolHandle: Sendable {
        private let pool: NIOLoopBound<UpstreamPool>

        init(_ pool: UpstreamPool, on loop: any EventLoop) { self.pool = NIOLoopBound(pool, eventLoop: loop) }

        fileprivate func tell(_ body: @escaping @Sendable (UpstreamPool) -> Void) {
            pool.eventLoop.execute { [pool] in body(pool.value) }
        }
    }

    private struct State {
        /// 0 while a pool waits.
        var free: Int
        /// Places of each pool.
        var places: [ObjectIdentifier: Int] = [:]
        var pools: [PoolHandle] = []
        /// Each pool once, the one that has waited longest first.
        var waiting: [(pool: PoolHandle, since: NIODeadline)] = []
        /// Pools for which a connection is being closed.
        var promised: [PoolHandle] = []

        func count(_ pool: PoolHandle) -> Int { places[ObjectIdentifier(pool), default: 0] }
        mutating func add(_ number: Int, to pool: PoolHandle) { places[ObjectIdentifier(pool), default: 0] += number }
    }

    /// A pool that has waited for this long gets a connection of a pool that has no more than it has.
    private static let longWait = TimeAmount.milliseconds(250)

    private let state: Mutex<State>
    /// So that a request does not take the lock to learn that no pool waits.
    private let hasWaiting = Atomic<Bool>(false)
    /// The clients that use the connections.
    let leases: ClientLeases

    /// - Parameter clients: Names among which the connections are shared.
    init(maximum: Int, clients: ClientNames) {
        state = Mutex(State(free: maximum))
        leases = ClientLeases(maximum: maximum, clients: clients)
    }

    /// Whether a pool waits for a place.
    var isWaitedFor: Bool { hasWaiting.load(ordering: .relaxed) }

    func join(_ pool: PoolHandle) { state.withLock { $0.pools.append(pool) } }

    /// The pool has no places and waits for none.
    func leave(_ pool: PoolHandle) {
        state.withLock { state in
            assert(state.count(pool) == 0, "A pool leaves the budget while it has connections.")
            assert(
                !state.waiting.contains { $0.pool === pool } && !state.promised.contains { $0 === pool },
                "A pool leaves the budget while it waits for a place."
            )
            state.pools.removeAll { $0 === pool }
            state.places[ObjectIdentifier(pool)] = nil
        }
    }

    /// - Returns: Whether there is a place. If not, ``UpstreamPool/placeGranted()`` follows when there is; ask only once for that.
    func take(for pool: PoolHandle) -> Bool {
        let others: [PoolHandle]? = change { state in
            guard state.free == 0 else {
                state.free -= 1
                state.add(1, to: pool)
                return nil
            }
            state.waiting.append((pool, .now()))
            // While another pool waits, all have been told.
            return state.waiting.count == 1 ? state.pools.filter { $0 !== pool } : []
        }
        guard let others else { return true }
        for other in others { other.tell { $0.othersBeganToWait() } }
        return false
    }

    /// The pool waits no longer.
    ///
    /// - Returns: false when a place is on its way already.
    func withdraw(_ pool: PoolHandle) -> Bool {
        change { state in
            guard let index = state.waiting.firstIndex(where: { $0.pool === pool }) else { return false }
            state.waiting.remove(at: index)
            return true
        }
    }

    /// A connection has ended, or a place is not needed after all.
    func giveBack(by pool: PoolHandle) {
        let next: PoolHandle? = change { state in
            state.add(-1, to: pool)
            guard !state.promised.isEmpty || !state.waiting.isEmpty else {
                state.free += 1
                return nil
            }
            let next = state.promised.isEmpty ? state.waiting.removeFirst().pool : state.promised.removeFirst()
            state.add(1, to: next)
            return next
        }
        next?.tell { $0.placeGranted() }
    }

    /// - Parameter isIdle: The connection has been idle for a while. Otherwise a request of its own loop soon needs it. It is then
    ///   given only to a pool that has fewer by two, or has waited for long: else each request would cost a handshake.
    /// - Returns: Whether the caller is to close the connection, for a pool that waits.
    func yieldConnection(by pool: PoolHandle, isIdle: Bool) -> Bool {
        let longAgo = NIODeadline.now() - Self.longWait
        return change { state in
            let own = state.count(pool)
            let next = state.waiting.firstIndex { other, since in
                other !== pool && (isIdle || since < longAgo || state.count(other) + 1 < own)
            }
            guard let next else { return false }
            state.promised.append(state.waiting.remove(at: next).pool)
            return true
        }
    }

    /// - Returns: Whether the caller is to close a connection of its own, and gets its place.
    func yieldConnectionToItself(_ pool: PoolHandle) -> Bool {
        change { state in
            guard let own = state.waiting.firstIndex(where: { $0.pool === pool }) else { return false }
            state.promised.insert(state.waiting.remove(at: own).pool, at: 0)
            return true
        }
    }

    private func change<Result>(_ body: (inout State) -> sending Result) -> sending Result {
        state.withLock { state in
            let result = body(&state)
            hasWaiting.store(!state.waiting.isEmpty, ordering: .relaxed)
            checkInvariants(of: state)
            return result
        }
    }

    private func checkInvariants(of state: State) {
        assert(state.free >= 0 && state.places.values.allSatisfy { $0 >= 0 }, "A number of places is below zero.")
        assert(
            state.places.values.reduce(state.free, +) == leases.maximum,
            "The places of all pools and the free ones do not add up."
        )
        assert(
            state.free == 0 || state.waiting.isEmpty && state.promised.isEmpty,
            "A pool waits although a place is free."
        )
        assert(state.waiting.count + state.promised.count <= state.pools.count, "A pool waits twice.")
    }
}
