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
