import GatewayCore
import NIOCore

/// One deadline of one connection. Moving it costs a store: the scheduled task looks again when it fires.
struct DeadlineTimer {
    private(set) var deadline = NIODeadline.distantFuture
    /// The deadline that passed last.
    private(set) var passed = NIODeadline.distantFuture
    private var scheduledFor = NIODeadline.distantFuture
    private var scheduled: Scheduled<Void>?

    /// - Parameter onFire: Calls ``fired(on:onFire:)`` and, when that says so, acts.
    @inline(__always)
    mutating func set(_ deadline: NIODeadline, on loop: any EventLoop, onFire: @escaping () -> Void) {
        self.deadline = deadline
        guard deadline < scheduledFor else { return }
        schedule(on: loop, onFire)
    }

    mutating func clear() { deadline = .distantFuture }

    mutating func cancel() {
        scheduled?.cancel()
        scheduled = nil
        deadline = .distantFuture
        scheduledFor = .distantFuture
    }

    /// - Returns: Whether the deadline has passed; otherwise the timer is set for what is left of it.
    mutating func fired(on loop: any EventLoop, onFire: @escaping () -> Void) -> Bool {
        scheduled = nil
        scheduledFor = .distantFuture
        guard deadline < .distantFuture else { return false }
        if deadline <= .now() {
            passed = deadline
            deadline = .distantFuture
            return true
        }
        schedule(on: loop, onFire)
        return false
    }

    private mutating func schedule(on loop: any EventLoop, _ onFire: @escaping () -> Void) {
        scheduled?.cancel()
        scheduledFor = deadline
        scheduled = loop.assumeIsolated().scheduleTask(deadline: deadline, onFire)
    }
}

extension TimeAmount {
    init(_ duration: Duration) { self = .nanoseconds(duration.wholeNanoseconds) }
}
