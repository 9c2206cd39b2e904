package import GatewayCore
import GatewayPostgreSQL
import Synchronization

extension PostgreSQLTokenStore {
    package func changes() -> AsyncStream<CredentialKey>? {
        feed.watch { [weak self] in await self?.poll() ?? false }
    }

    package func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        let rows = try await run(TokenStatement.changes(since: mark))
        guard let low = rows.first?.integer(0) else { throw .unavailable("\(name) does not tell its transactions") }
        var changes = TokenChanges(mark: TokenStoreMark(low), upTo: rows.first?.integer(3).map { FleetMark($0) })
        for row in rows {
            guard let key = row.text(1), let revision = row.integer(2) else { continue }
            changes.revisions[CredentialKey(digest: key)] = TokenRevision(revision)
        }
        return changes
    }

    /// Where notifications do not arrive, asking for changes takes their place.
    ///
    /// - Returns: Whether the store is still there.
    private func poll() async -> Bool {
        guard !feed.isClosed else { return false }
        guard !feed.listens else {
            feed.mark = nil
            return true
        }
        let before = feed.mark
        guard let changes = try? await changes(since: before) else { return true }
        feed.mark = changes.mark
        if before != nil { for (key, revision) in changes.revisions { feed.tell(key, revision) } }
        return true
    }
}

/// Tells watchers of records that have changed.
final class TokenChangeFeed: Sendable {
    private struct State {
        var watchers: [Int: AsyncStream<CredentialKey>.Continuation] = [:]
        var called: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastWatcher = 0
        var listens = false
        var isClosed = false
        var polling: Task<Void, Never>?
        var mark: TokenStoreMark?
        /// What polling has told, since an answer may name a change again.
        var told: [CredentialKey: TokenRevision] = [:]
    }

    private let state = Mutex(State())
    private static let interval: Duration = .milliseconds(400)

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

    /// See ``SharedFleet/calls()``.
    func calls() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state in
            state.lastWatcher += 1
            state.called[state.lastWatcher] = continuation
            return state.lastWatcher
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.called.removeValue(forKey: id) }
        }
        return stream
    }

    func call() {
        let called = state.withLock { Array($0.called.values) }
        for continuation in called { continuation.yield() }
    }

    func tell(_ key: CredentialKey) {
        let watchers = state.withLock { Array($0.watchers.values) }
        for watcher in watchers { watcher.yield(key) }
    }

    func tell(_ key: CredentialKey, _ revision: TokenRevision) {
        guard state.withLock({ $0.told.updateValue(revision, forKey: key) != revision }) else { return }
        tell(key)
    }

    /// - Parameter poll: Asks for changes; false ends it.
    func watch(_ poll: @escaping @Sendable () async -> Bool) -> AsyncStream<CredentialKey> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: CredentialKey.self,
            bufferingPolicy: .bufferingNewest(1024)
        )
        let id = state.withLock { state in
            state.lastWatcher += 1
            state.watchers[state.lastWatcher] = continuation
            if state.polling == nil {
                state.polling = Task {
                    while !Task.isCancelled, await poll() {
                        // Gateways do not ask in step.
                        guard (try? await Task.sleep(for: Self.interval * Double.random(in: 0.8...1.2))) != nil else {
                            return
                        }
                    }
                }
            }
            return state.lastWatcher
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.watchers.removeValue(forKey: id) }
        }
        return stream
    }

    func close() {
        let (polling, watchers, called) = state.withLock { state in
            state.isClosed = true
            return (state.polling.take(), Array(state.watchers.values), Array(state.called.values))
        }
        polling?.cancel()
        for watcher in watchers { watcher.finish() }
        for continuation in called { continuation.finish() }
    }
}
