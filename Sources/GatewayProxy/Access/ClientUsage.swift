import GatewayHTTP
import Synchronization

/// Counts the requests of one client against its limits. Shared by all workers, without a lock.
final class ClientUsage: Sendable {
    enum Admission: Hashable, Sendable {
        /// ``ClientUsage/end()`` follows when the request is over.
        case admitted
        case tooManyConcurrent
        case tooFast(retryAfter: Duration)
    }

    let limits: ClientLimitsPlan
    /// The nanoseconds between two requests; 0 if there is no limit.
    private let interval: Int64
    /// How many nanoseconds a client may be ahead of its steady rate: it may send one second's requests at once.
    private let burst: Int64
    private let running = Atomic<Int>(0)
    /// When a client that keeps its rate would send its next request (the generic cell rate algorithm, ITU-T I.371).
    private let expected = Atomic<Int64>(.min)

    init(_ limits: ClientLimitsPlan) {
        self.limits = limits
        let rate = Int64(clamping: min(max(limits.perSecond ?? 1, 1), 1_000_000_000))
        interval = limits.perSecond == nil ? 0 : 1_000_000_000 / rate
        burst = interval * (rate - 1)
    }

    /// Requests of the client that are running, if their number has a limit.
    var runningCount: Int { running.load(ordering: .relaxed) }

    /// A request that is not admitted counts neither as running nor for the rate.
    func begin(at now: MonotonicTime) -> Admission {
        guard enter() else { return .tooManyConcurrent }
        guard let wait = spend(at: now.nanoseconds) else { return .admitted }
        end()
        return .tooFast(retryAfter: .nanoseconds(wait))
    }

    /// A request that was admitted is over.
    func end() {
        // The one that ends is among them, whatever other threads do meanwhile.
        assert(limits.concurrent == nil || runningCount > 0, "A request of the client ends that has not begun.")
        if limits.concurrent != nil { running.subtract(1, ordering: .relaxed) }
    }

    /// A request that was admitted is decided about anew: it counts neither as running nor for the rate.
    func undo() {
        end()
        expected.subtract(interval, ordering: .relaxed)
    }

    private func enter() -> Bool {
        guard let maximum = limits.concurrent else { return true }
        var count = running.load(ordering: .relaxed)
        while count < maximum {
            let (isDone, found) = running.weakCompareExchange(
                expected: count,
                desired: count + 1,
                ordering: .relaxed
            )
            if isDone { return true }
            count = found
        }
        return false
    }

    /// - Returns: nil if there was something left; otherwise how long to wait.
    private func spend(at now: Int64) -> Int64? {
        guard interval > 0 else { return nil }
        var next = expected.load(ordering: .relaxed)
        while true {
            if let wait = wait(at: now, expected: next) { return wait }
            // Clocks of workers are read one after the other, so that `now` may be a little behind.
            let (isDone, found) = expected.weakCompareExchange(
                expected: next,
                desired: max(next, now) &+ interval,
                ordering: .relaxed
            )
            if isDone { return nil }
            next = found
        }
    }

    private func wait(at now: Int64, expected: Int64) -> Int64? {
        let ahead = max(expected, now) &- now
        return ahead > burst ? ahead - burst : nil
    }

    /// - Returns: What the client is told; nil where its request is admitted.
    func refusal(at now: MonotonicTime) -> GatewayProblem? { Self.problem(of: begin(at: now)) }

    /// What a request that came now would be told. Counts none.
    func outlook(at now: MonotonicTime) -> GatewayProblem? {
        if let maximum = limits.concurrent, runningCount >= maximum { return Self.problem(of: .tooManyConcurrent) }
        guard let wait = wait(at: now.nanoseconds, expected: expected.load(ordering: .relaxed)) else { return nil }
        return Self.problem(of: .tooFast(retryAfter: .nanoseconds(wait)))
    }

    private static func problem(of admission: Admission) -> GatewayProblem? {
        switch admission {
        case .admitted: nil
        case .tooManyConcurrent:
            GatewayProblem(
                .clientLimitReached,
                "This client has as many requests under way as its limits.concurrent allows.",
                retryAfter: .seconds(1)
            )
        case .tooFast(let retryAfter):
            GatewayProblem(
                .clientLimitReached,
                "This client sends more requests than its limits.per_second allows.",
                retryAfter: retryAfter
            )
        }
    }
}
