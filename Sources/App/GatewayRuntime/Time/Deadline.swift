import Synchronization

/// Waits for something that cannot be cancelled, but not for ever.
enum Deadline {
    /// - Parameter body: Goes on when the time is over; what it returns then is dropped.
    /// - Returns: nil when the time is over.
    static func value<Value: Sendable>(
        within limit: Duration,
        of body: @escaping @Sendable () async -> Value
    ) async -> Value? {
        let waiter = Waiter<Value>()
        return await withCheckedContinuation { continuation in
            waiter.begin(continuation)
            Task { waiter.end(with: await body()) }
            Task {
                try? await Task.sleep(for: limit)
                waiter.end(with: nil)
            }
        }
    }

    private final class Waiter<Value: Sendable>: Sendable {
        private let continuation = Mutex<CheckedContinuation<Value?, Never>?>(nil)

        func begin(_ new: CheckedContinuation<Value?, Never>) { continuation.withLock { $0 = new } }

        func end(with value: Value?) {
            continuation.withLock { $0.take() }?.resume(returning: value)
        }
    }
}
