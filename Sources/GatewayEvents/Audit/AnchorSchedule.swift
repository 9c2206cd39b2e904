package import GatewayHTTP

/// Says how often the head of the audit log is sent to its anchor: once a second at most, and less often while that fails.
package struct AnchorSchedule: Sendable {
    package static let shortestPause: Duration = .seconds(1)
    package static let longestPause: Duration = .seconds(60)

    package struct Failure: Hashable, Sendable {
        package let since: UnixTime
        package let reason: String

        package init(since: UnixTime, reason: String) {
            self.since = since
            self.reason = reason
        }
    }

    /// nil while it works.
    package private(set) var failure: Failure?
    private var failures = 0
    private var lastEnd: MonotonicTime?

    package init() {}

    /// How long the next attempt has to wait.
    package func pause(at now: MonotonicTime) -> Duration {
        guard let lastEnd else { return .zero }
        // No more than six doublings: the longest pause is reached.
        let pause = failures == 0 ? Self.shortestPause : Self.shortestPause * (1 << min(failures - 1, 6))
        return max(.zero, min(pause, Self.longestPause) - (now - lastEnd))
    }

    /// - Parameter reason: Why the attempt failed; nil when it did not.
    /// - Returns: Whether this is news: the first failure, or the end of one.
    package mutating func ended(_ reason: String?, at now: Moment) -> Bool {
        lastEnd = now.monotonic
        let isNews = (failure == nil) != (reason == nil)
        failures = reason == nil ? 0 : failures + 1
        failure = reason.map { Failure(since: failure?.since ?? now.wall, reason: $0) }
        return isNews
    }
}
