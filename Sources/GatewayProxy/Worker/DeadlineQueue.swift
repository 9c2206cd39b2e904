import GatewayHTTP
import NIOCore

/// An object whose deadlines a ``DeadlineTimer`` watches.
protocol DeadlineKeeper: AnyObject {
    func deadlinePassed()
}

/// The deadlines of one event loop's connections, the earliest first.
///
/// The loop's own queue looks through everything that waits when a task is cancelled, and every connection that closes would
/// cancel one. Here a timer knows its place, and the loop has one task for all of them.
final class DeadlineQueue {
    private let loop: any EventLoop
    /// A binary heap by ``DeadlineTimer/due``.
    private var heap: [DeadlineTimer] = []
    private var wakeUp: Scheduled<Void>?
    private var wakesAt = NIODeadline.distantFuture

    init(loop: any EventLoop) { self.loop = loop }

    var count: Int { heap.count }

    fileprivate func add(_ timer: DeadlineTimer) {
        assert(timer.place == DeadlineTimer.nowhere, "A deadline is in the queue twice.")
        heap.append(timer)
        timer.place = heap.count - 1
        moveUp(timer, from: heap.count - 1)
        checkInvariants(of: timer)
        schedule()
    }

    /// Its time has come earlier than it was to.
    fileprivate func advance(_ timer: DeadlineTimer) {
        moveUp(timer, from: timer.place)
        checkInvariants(of: timer)
        schedule()
    }

    /// The loop's task stays: it finds nothing to do, or the next one.
    fileprivate func remove(_ timer: DeadlineTimer) {
        let place = timer.place
        assert(heap.indices.contains(place) && heap[place] === timer, "A deadline does not know its place.")
        timer.place = DeadlineTimer.nowhere
        guard let last = heap.popLast(), last !== timer else { return }
        moveUp(last, from: place)
        moveDown(last, from: last.place)
        checkInvariants(of: last)
    }

    private func schedule() {
        defer { assert(heap.first.map { wakesAt <= $0.due } ?? true, "A deadline passes before the queue looks.") }
        guard let due = heap.first?.due, due < wakesAt else { return }
        wakeUp?.cancel()
        wakesAt = due
        wakeUp = loop.assumeIsolated().scheduleTask(deadline: due) { [self] in
            wakesAt = .distantFuture
            let now = NIODeadline.now()
            while let first = heap.first, first.due <= now {
                remove(first)
                first.wake(at: now)
            }
            schedule()
        }
    }

    // MARK: Heap

    private func moveUp(_ timer: DeadlineTimer, from start: Int) {
        var place = start
        while place > 0 {
            let parent = (place - 1) / 2
            guard timer.due < heap[parent].due else { break }
            put(heap[parent], at: place)
            place = parent
        }
        put(timer, at: place)
    }

    private func moveDown(_ timer: DeadlineTimer, from start: Int) {
        var place = start
        while true {
            var child = 2 * place + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1].due < heap[child].due { child += 1 }
            guard heap[child].due < timer.due else { break }
            put(heap[child], at: place)
            place = child
        }
        put(timer, at: place)
    }

    private func put(_ timer: DeadlineTimer, at place: Int) {
        heap[place] = timer
        timer.place = place
    }

    /// - Parameter timer: The one that was moved.
    private func checkInvariants(of timer: DeadlineTimer) {
        assert(heap.indices.contains(timer.place) && heap[timer.place] === timer, "A deadline does not know its place.")
        assert(
            timer.place == 0 || heap[(timer.place - 1) / 2].due <= timer.due,
            "A deadline is behind one that is later."
        )
        assert(
            [2 * timer.place + 1, 2 * timer.place + 2].allSatisfy { $0 >= heap.count || timer.due <= heap[$0].due },
            "A deadline is before one that is earlier."
        )
    }
}

/// One deadline of one connection. Moving it costs a store: the queue looks again when what it was told has passed.
final class DeadlineTimer {
    private(set) var deadline = NIODeadline.distantFuture
    /// The deadline that passed last.
    private(set) var passed = NIODeadline.distantFuture
    /// When the queue looks.
    fileprivate private(set) var due = NIODeadline.distantFuture
    /// Where it is in the queue's heap.
    fileprivate var place = nowhere
    private let queue: DeadlineQueue
    /// Kept alive while it is waited for.
    private var keeper: (any DeadlineKeeper)?

    fileprivate static let nowhere = -1

    init(queue: DeadlineQueue) { self.queue = queue }

    @inline(__always)
    func set(_ deadline: NIODeadline, for keeper: any DeadlineKeeper) {
        self.deadline = deadline
        if deadline < due { enqueue(keeper) } else { wait(for: keeper) }
    }

    /// In the queue it has a keeper, unless it was released.
    @inline(__always)
    private func wait(for keeper: any DeadlineKeeper) {
        if self.keeper == nil, place != Self.nowhere { self.keeper = keeper }
    }

    func clear() { deadline = .distantFuture }

    /// Nobody waits for it any more, and another keeper may set it. It keeps its place in the queue, which finds nothing to do when it looks:
    /// a timer that serves one short request after the other is not taken out and put in each time.
    func release() {
        deadline = .distantFuture
        keeper = nil
    }

    func cancel() {
        deadline = .distantFuture
        guard place != Self.nowhere else { return }
        queue.remove(self)
        due = .distantFuture
        keeper = nil
    }

    private func enqueue(_ keeper: any DeadlineKeeper) {
        due = deadline
        guard place == Self.nowhere else {
            wait(for: keeper)
            return queue.advance(self)
        }
        self.keeper = keeper
        queue.add(self)
    }

    /// It is out of the queue; puts itself in again when the deadline was moved meanwhile.
    fileprivate func wake(at now: NIODeadline) {
        due = .distantFuture
        guard let keeper else { return }
        self.keeper = nil
        guard deadline < .distantFuture else { return }
        guard deadline <= now else { return enqueue(keeper) }
        passed = deadline
        deadline = .distantFuture
        keeper.deadlinePassed()
    }
}

extension TimeAmount {
    init(_ duration: Duration) { self = .nanoseconds(duration.wholeNanoseconds) }
}

/// The time as the handlers of one event loop see it. The clock is read once for the bytes of one read.
final class LoopClock {
    /// The gateway's clock.
    private let gateway: any GatewayClock
    private var reading: NIODeadline?
    /// The gateway's clock at the same read, once somebody has asked for it.
    private var gatewayReading: MonotonicTime?
    /// nil if the loop's turns are not counted.
    private let turns: LoopTurns.Count?
    private var watch = TurnWatch()

    init(_ gateway: any GatewayClock, _ turns: LoopTurns.Count? = nil) {
        self.gateway = gateway
        self.turns = turns
    }

    @inline(__always)
    var now: NIODeadline { reading ?? .now() }

    /// The time of the gateway's clock, which is read once for the bytes of one read, too.
    func monotonic() -> MonotonicTime {
        if let gatewayReading { return gatewayReading }
        let now = gateway.monotonic()
        if reading != nil { gatewayReading = now }
        return now
    }

    /// When the turn before this one began, where the loop has not rested since.
    var busySince: NIODeadline? { turns.flatMap { watch.busySince(in: $0.turn) } }

    /// Bytes have come; whatever is done with them happens now.
    func begin() {
        let now = NIODeadline.now()
        reading = now
        gatewayReading = nil
        if let turns { watch.read(at: now, in: turns.turn, behind: turns.lastEnd) }
    }

    /// Must follow ``begin()`` before the loop does anything else: a reading that is kept makes deadlines too early.
    func end() {
        reading = nil
        gatewayReading = nil
    }
}

/// Finds out whether a loop goes from one turn to the next without a rest.
struct TurnWatch {
    /// The turn that was read in last, and its first read.
    private var last: (turn: UInt64, began: NIODeadline)?
    private var busySince: NIODeadline?

    /// A loop that waited for so long between two turns has rested: until then nothing came.
    static let rest = TimeAmount.milliseconds(1)

    /// Bytes have come.
    ///
    /// - Parameter end: When the turn before this one ended.
    mutating func read(at now: NIODeadline, in turn: UInt64, behind end: NIODeadline) {
        guard let last, last.turn &+ 1 == turn, now - end < Self.rest else {
            if last?.turn != turn { (busySince, last) = (nil, (turn, now)) }
            return
        }
        (busySince, self.last) = (last.began, (turn, now))
    }

    /// When the turn before this one began, if the loop has not rested since and has read bytes in both.
    func busySince(in turn: UInt64) -> NIODeadline? { last?.turn == turn ? busySince : nil }
}

extension MonotonicTime {
    init(_ time: NIODeadline) { self.init(nanoseconds: Int64(clamping: time.uptimeNanoseconds)) }
}

extension NIODeadline {
    init(_ time: MonotonicTime) { self = .uptimeNanoseconds(UInt64(max(0, time.nanoseconds))) }
}
