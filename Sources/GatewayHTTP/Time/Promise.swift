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

    /// Waits for the value. May be called once.
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

/// Hands each element to several readers. A reader that is late gets the newest ones, up to a limit.
package final class Broadcast<Element: Sendable>: Sendable {
    private struct State {
        var readers: [Int: AsyncStream<Element>.Continuation] = [:]
        var last = 0
        var isFinished = false
    }

    private let state = Mutex(State())
    private let limit: Int

    /// - Parameter limit: How many elements wait for one reader.
    package init(keeping limit: Int) { self.limit = limit }

    /// A stream of its own for each caller. It ends with ``finish()``.
    package func stream() -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Element.self,
            bufferingPolicy: .bufferingNewest(limit)
        )
        let id: Int? = state.withLock { state in
            guard !state.isFinished else { return nil }
            state.last += 1
            state.readers[state.last] = continuation
            return state.last
        }
        guard let id else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.readers.removeValue(forKey: id) }
        }
        return stream
    }

    package func send(_ element: Element) {
        for reader in state.withLock({ Array($0.readers.values) }) { reader.yield(element) }
    }

    package func finish() {
        let readers = state.withLock { state in
            state.isFinished = true
            return Array(state.readers.values)
        }
        for reader in readers { reader.finish() }
    }
}
