import NIOCore
import Synchronization

/// How many connections there may be to one target, over all event loops.
///
/// Whoever wants one more than there may be waits for a place. One that becomes free goes to the loop that has waited longest;
/// what rests on another loop is closed for it, and what does not rest where a loop has more, or when it has waited for long. Asked
/// when connections are opened and closed, and with requests only while some wait.
final class ConnectionBudget: Sendable {
    /// A pool as other loops know it, while it has places or waits for one.
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
        /// How many places each has.
        var places: [ObjectIdentifier: Int] = [:]
        var seats: [Seat] = []
        /// Each once, who has waited longest first.
        var waiting: [(seat: Seat, since: NIODeadline)] = []
        /// Those for whom a connection is being closed.
        var promised: [Seat] = []

        func count(_ seat: Seat) -> Int { places[ObjectIdentifier(seat), default: 0] }
        mutating func add(_ number: Int, to seat: Seat) { places[ObjectIdentifier(seat), default: 0] += number }
    }

    /// What may be taken from a loop that has no more: one connection in so much time.
    private static let patience = TimeAmount.milliseconds(250)

    private let state: Mutex<State>
    /// For those who would otherwise take the lock with every request.
    private let waits = Atomic<Bool>(false)

    init(most: Int) { state = Mutex(State(free: most)) }

    /// Whether a loop waits for a place.
    var isWaitedFor: Bool { waits.load(ordering: .relaxed) }

    func join(_ seat: Seat) { state.withLock { $0.seats.append(seat) } }

    /// It has no places and waits for none.
    func leave(_ seat: Seat) {
        state.withLock { state in
            state.seats.removeAll { $0 === seat }
            state.places[ObjectIdentifier(seat)] = nil
        }
    }

    /// - Returns: Whether there is a place. If not, ``UpstreamPool/placeGranted()`` follows when there is; ask only once for that.
    func take(for seat: Seat) -> Bool {
        let others: [Seat]? = change { state in
            guard state.free == 0 else {
                state.free -= 1
                state.add(1, to: seat)
                return nil
            }
            state.waiting.append((seat, .now()))
            // While others wait everybody knows already.
            return state.waiting.count == 1 ? state.seats.filter { $0 !== seat } : []
        }
        guard let others else { return true }
        for other in others { other.tell { $0.spareIdle() } }
        return false
    }

    /// It waits no longer.
    ///
    /// - Returns: false when a place is on its way already.
    func withdraw(_ seat: Seat) -> Bool {
        change { state in
            guard let index = state.waiting.firstIndex(where: { $0.seat === seat }) else { return false }
            state.waiting.remove(at: index)
            return true
        }
    }

    /// A connection has ended, or a place is not needed after all.
    func giveBack(by seat: Seat) {
        let next: Seat? = change { state in
            state.add(-1, to: seat)
            guard !state.promised.isEmpty || !state.waiting.isEmpty else {
                state.free += 1
                return nil
            }
            let next = state.promised.isEmpty ? state.waiting.removeFirst().seat : state.promised.removeFirst()
            state.add(1, to: next)
            return next
        }
        next?.tell { $0.placeGranted() }
    }

    /// - Parameter rests: Nobody has needed the connection for a while. Otherwise somebody here soon will, and it is given away only
    ///   to a loop that has less by two, or has waited for long: to hand it round would be a handshake for each request.
    /// - Returns: Whether the caller is to close the connection, for another loop that waits.
    func promise(by seat: Seat, rests: Bool) -> Bool {
        let longAgo = NIODeadline.now() - Self.patience
        return change { state in
            let own = state.count(seat)
            let next = state.waiting.firstIndex { other, since in
                other !== seat && (rests || since < longAgo || state.count(other) + 1 < own)
            }
            guard let next else { return false }
            state.promised.append(state.waiting.remove(at: next).seat)
            return true
        }
    }

    /// - Returns: Whether the caller is to close a connection of its own, and will have its place.
    func promiseToItself(_ seat: Seat) -> Bool {
        change { state in
            guard let own = state.waiting.firstIndex(where: { $0.seat === seat }) else { return false }
            state.promised.insert(state.waiting.remove(at: own).seat, at: 0)
            return true
        }
    }

    private func change<Result>(_ body: (inout State) -> sending Result) -> sending Result {
        state.withLock { state in
            let result = body(&state)
            waits.store(!state.waiting.isEmpty, ordering: .relaxed)
            return result
        }
    }
}
