import Synchronization

/// A value that one task waits for; what comes first counts.
package final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case open
        case awaited(CheckedContinuation<Value, Never>)
        case kept(Value)
    }

    private let state = Mutex(State.open)

    package init() {}

    package var isKept: Bool {
        state.withLock { if case .kept = $0 { true } else { false } }
    }

    package func keep(_ value: Value) {
        let waiter: CheckedContinuation<Value, Never>? = state.withLock { state in
            switch state {
            case .kept: return nil
            case .open:
                state = .kept(value)
                return nil
            case .awaited(let waiter):
                state = .kept(value)
                return waiter
            }
        }
        waiter?.resume(returning: value)
    }

    /// Called once.
    package func value() async -> Value {
        await withCheckedContinuation { continuation in
            let kept: Value? = state.withLock { state in
                if case .kept(let value) = state { return value }
                if case .awaited = state {
                    assertionFailure("A second task awaits the promise; the first would never be resumed.")
                }
                state = .awaited(continuation)
                return nil
            }
            if let kept { continuation.resume(returning: kept) }
        }
    }
}
