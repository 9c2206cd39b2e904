/// A reading of a clock that only moves forward while the machine is up, suspended time included.
///
/// Comparable within one process; never stored. Lifetimes are measured with it, so that a jump of the wall clock
/// neither kills a token nor revives one.
@usableFromInline
package struct MonotonicTime: Hashable, Comparable, Sendable {
    @usableFromInline package var nanoseconds: Int64

    @inlinable @inline(__always)
    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    @inlinable @inline(__always)
    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.nanoseconds < rhs.nanoseconds }
    // The ones of `Comparable` are calls through a table into another module.
    @inlinable @inline(__always)
    package static func > (lhs: Self, rhs: Self) -> Bool { lhs.nanoseconds > rhs.nanoseconds }
    @inlinable @inline(__always)
    package static func <= (lhs: Self, rhs: Self) -> Bool { lhs.nanoseconds <= rhs.nanoseconds }
    @inlinable @inline(__always)
    package static func >= (lhs: Self, rhs: Self) -> Bool { lhs.nanoseconds >= rhs.nanoseconds }

    package static func + (time: Self, duration: Duration) -> Self {
        let (sum, overflow) = time.nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
        return Self(nanoseconds: overflow ? (duration < .zero ? .min : .max) : sum)
    }

    package static func - (time: Self, duration: Duration) -> Self { time + (.zero - duration) }

    package static func - (lhs: Self, rhs: Self) -> Duration {
        let (difference, overflow) = lhs.nanoseconds.subtractingReportingOverflow(rhs.nanoseconds)
        return .nanoseconds(overflow ? (lhs > rhs ? .max : .min) : difference)
    }
}

extension Duration {
    /// The length in nanoseconds, held at the ends of `Int64` (about 292 years).
    package var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        let (sum, overflowed) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
        return overflowed ? (seconds < 0 ? .min : .max) : sum
    }

    package var wholeMilliseconds: Int64 { wholeNanoseconds / 1_000_000 }

    /// The length in seconds, rounded up: what `Retry-After` can carry.
    package var secondsRoundedUp: Int64 {
        let nanoseconds = wholeNanoseconds
        return nanoseconds / 1_000_000_000 + (nanoseconds % 1_000_000_000 > 0 ? 1 : 0)
    }

    /// How long something takes that ends after this time, for people: 0 only when it has ended.
    package var secondsLeft: Int { Int(max(secondsRoundedUp, 0)) }
}

/// Both clocks, read together.
package struct Moment: Hashable, Sendable {
    package var monotonic: MonotonicTime
    package var wall: UnixTime

    package init(monotonic: MonotonicTime, wall: UnixTime) {
        self.monotonic = monotonic
        self.wall = wall
    }

    package static func + (moment: Self, duration: Duration) -> Self {
        Self(monotonic: moment.monotonic + duration, wall: moment.wall + duration)
    }
}

/// Where shells read the time. The core never does: it is told.
///
/// A class, so that a request does not copy a box to read it.
package protocol GatewayClock: AnyObject, Sendable {
    func now() -> Moment

    /// The monotonic half of ``now()``; the request path needs no more.
    func monotonic() -> MonotonicTime

    /// Returns when `duration` has passed on the monotonic clock.
    ///
    /// - Throws: `CancellationError` when the task is cancelled first.
    func sleep(for duration: Duration) async throws
}

extension GatewayClock {
    package func monotonic() -> MonotonicTime { now().monotonic }
}

/// Exponential back-off with full jitter between 1 s and 60 s.
package enum BackOff {
    package static let shortest: Duration = .seconds(1)
    package static let longest: Duration = .seconds(60)
    /// An authority that asks for more patience than this is asked again all the same.
    package static let longestRetryAfter: Duration = .seconds(3600)

    /// - Parameters:
    ///   - failures: How many calls in a row have failed, this one included.
    ///   - jitter: 0...1, evenly distributed.
    package static func delay(afterFailures failures: Int, retryAfter: Duration?, jitter: Double) -> Duration {
        let ceiling = failures >= 6 ? longest : min(longest, shortest * (1 << max(failures, 1)))
        let spread = (ceiling - shortest) * min(max(jitter, 0), 1)
        return max(shortest + spread, min(retryAfter ?? .zero, longestRetryAfter))
    }
}
