/// A reading of a clock that only moves forward while the machine is up, suspended time included.
///
/// Comparable within one process; never stored. Lifetimes are measured with it, so that a jump of the wall clock
/// neither kills a token nor revives one.
package struct MonotonicTime: Hashable, Comparable, Sendable {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.nanoseconds < rhs.nanoseconds }

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
}
