/// Where shells read the time. The core never does: it is told.
package protocol GatewayClock: Sendable {
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
