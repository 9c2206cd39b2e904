import GatewayCore
import Synchronization

/// Those who are told of changes of a store.
final class TokenChangeWatchers: Sendable {
    private struct State {
        var continuations: [Int: AsyncStream<TokenChange>.Continuation] = [:]
        var last = 0
    }

    private let state = Mutex(State())

    func watch() -> AsyncStream<TokenChange> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: TokenChange.self,
            bufferingPolicy: .bufferingNewest(1024)
        )
        let id = state.withLock { state in
            state.last += 1
            state.continuations[state.last] = continuation
            return state.last
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.continuations.removeValue(forKey: id) }
        }
        return stream
    }

    func tell(_ change: TokenChange) {
        for watcher in state.withLock({ Array($0.continuations.values) }) { watcher.yield(change) }
    }

    func finish() {
        for watcher in state.withLock({ Array($0.continuations.values) }) { watcher.finish() }
    }
}
