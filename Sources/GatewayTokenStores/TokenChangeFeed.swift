import GatewayFiles
import GatewayHTTP
import GatewayTokens
import Synchronization

/// Tells watchers of records that others have changed.
final class TokenChangeFeed: Sendable {
    private struct State {
        var listens = false
        var isClosed = false
        var polling: Task<Void, Never>?
        var mark: TokenStoreMark?
        /// What polling has told, since an answer may name a change again.
        var told: [CredentialKey: TokenRevision] = [:]
    }

    private let state = Mutex(State())
    private let watchers = Broadcast<TokenChange>(keeping: 1024)
    /// See ``SharedFleet/calls()``.
    let calls = Broadcast<Void>(keeping: 1)
    private static let interval: Duration = .milliseconds(400)

    /// What this store calls itself in notifications.
    let sender = TokenNotification.makeSender()

    /// Notifications arrive.
    var listens: Bool { state.withLock { $0.listens } }
    var isClosed: Bool { state.withLock { $0.isClosed } }

    var mark: TokenStoreMark? {
        get { state.withLock { $0.mark } }
        set {
            state.withLock { state in
                state.mark = newValue
                if newValue == nil { state.told = [:] }
            }
        }
    }

    func note(listens: Bool) { state.withLock { $0.listens = listens } }

    /// Ignores notifications of this store's own writes.
    func take(_ payload: String) {
        guard payload != FleetStatement.call else { return calls.send(()) }
        guard let notification = TokenNotification(payload: payload), notification.sender != sender else { return }
        watchers.send(notification.change)
    }

    func tell(_ key: CredentialKey, _ revision: TokenRevision) {
        guard state.withLock({ $0.told.updateValue(revision, forKey: key) != revision }) else { return }
        watchers.send(TokenChange(key, revision))
    }

    /// - Parameter poll: Asks for changes; false ends it.
    func watch(_ poll: @escaping @Sendable () async -> Bool) -> AsyncStream<TokenChange> {
        state.withLock { state in
            guard state.polling == nil else { return }
            state.polling = Task {
                while !Task.isCancelled, await poll() {
                    // Gateways do not ask in step.
                    guard (try? await Task.sleep(for: Self.interval * Double.random(in: 0.8...1.2))) != nil else {
                        return
                    }
                }
            }
        }
        return watchers.stream()
    }

    func close() {
        let polling = state.withLock { state in
            state.isClosed = true
            return state.polling.take()
        }
        polling?.cancel()
        watchers.finish()
        calls.finish()
    }
}
