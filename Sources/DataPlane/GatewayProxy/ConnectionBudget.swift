import NIOCore
import Synchronization

/// How many connections there may be to one target, over all event loops.
///
/// Whoever wants one more than there may be waits for a place. One that becomes free goes to the loop that has waited longest, and
/// a connection that rests on another loop is closed for it; so is one that does not rest where a loop has more than its share.
/// Asked when connections are opened and closed, not by every request.
final class ConnectionBudget: Sendable {
    /// A pool as other loops know it, while it has connections or requests that wait for one.
    final class Seat: Sendable {
        private let pool: NIOLoopBound<UpstreamPool>

        init(_ pool: UpstreamPool, on loop: any EventLoop) { self.pool = NIOLoopBound(pool, eventLoop: loop) }

        fileprivate func tell(_ body: @escaping @Sendable (UpstreamPool) -> Void) {
            pool.eventLoop.execute { [pool] in body(pool.value) }
        }
    }

    private struct State {
        /// None while somebody waits.
        var free: Int
        var seats: [Seat] = []
        /// Each once, who has waited longest first.
        var waiting: [Seat] = []
        /// Those for whom a connection is being closed.
        var promised: [Seat] = []
    }

    /// What a loop keeps while others wait; one at least.
    let share: Int
    private let state: Mutex<State>
    /// For those who would otherwise take the lock with every request.
    private let isWaitedFor = Atomic<Bool>(false)

    init(most: Int, lanes: Int) {
        share = max(1, most / lanes)
        state = Mutex(State(free: most))
    }

    func join(_ seat: Seat) { state.withLock { $0.seats.append(seat) } }

    func leave(_ seat: Seat) { state.withLock { $0.seats.removeAll { $0 === seat } } }

    /// - Returns: Whether there is a place. If not, ``UpstreamPool/placeGranted()`` follows when there is.
    func take(for seat: Seat) -> Bool {
        let others: [Seat]? = change { state in
            guard state.free == 0 else {
                state.free -= 1
                return nil
            }
            guard !state.waiting.contains(where: { $0 === seat }) else { return [] }
            state.waiting.append(seat)
            return state.seats.filter { $0 !== seat }
        }
        guard let others else { return true }
        for other in others { other.tell { $0.spareIdle() } }
        return false
    }

    /// It waits no longer.
    func withdraw(_ seat: Seat) { change { $0.waiting.removeAll { $0 === seat } } }

    /// A connection has ended, or a place is not needed after all.
    func giveBack() {
        let next: Seat? = change { state in
            if !state.promised.isEmpty { return state.promised.removeFirst() }
            if !state.waiting.isEmpty { return state.waiting.removeFirst() }
            state.free += 1
            return nil
        }
        next?.tell { $0.placeGranted() }
    }

    /// - Returns: Whether the caller is to close a connection that nobody uses, for another loop that waits.
    func promise(by seat: Seat?) -> Bool {
        guard isWaitedFor.load(ordering: .relaxed) else { return false }
        return change { state in
            guard let next = state.waiting.firstIndex(where: { $0 !== seat }) else { return false }
            state.promised.append(state.waiting.remove(at: next))
            return true
        }
    }

    private func change<Result>(_ body: (inout State) -> sending Result) -> sending Result {
        state.withLock { state in
            let result = body(&state)
            isWaitedFor.store(!state.waiting.isEmpty, ordering: .relaxed)
            return result
        }
    }
}
