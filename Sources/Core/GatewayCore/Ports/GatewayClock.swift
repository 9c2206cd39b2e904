/// Where shells read the time. The core never does: it is told.
package protocol GatewayClock: Sendable {
    func now() -> Moment

    /// Returns when `duration` has passed on the monotonic clock.
    ///
    /// - Throws: `CancellationError` when the task is cancelled first.
    func sleep(for duration: Duration) async throws
}
