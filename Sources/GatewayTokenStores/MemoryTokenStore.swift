package import GatewayHTTP
package import GatewayTokens
import Synchronization

/// Keeps tokens for the life of the process. A restart asks the authorization servers again.
package final class MemoryTokenStore: TokenStore {
    private struct State: Sendable {
        var records = TokenRecords()
        var locks: Set<String> = []
    }

    private let state = Mutex(State())
    private let watchers = Broadcast<TokenChange>(keeping: 1024)
    private let now: @Sendable () -> UnixTime
    package let isShared: Bool

    /// - Parameters:
    ///   - isShared: Several keepers use it, as gateways use one database.
    ///   - now: The store's clock.
    package init(isShared: Bool = false, now: @escaping @Sendable () -> UnixTime = MemoryTokenStore.uptime()) {
        self.isShared = isShared
        self.now = now
    }

    /// A clock that begins with 0 and is never set.
    package static func uptime() -> @Sendable () -> UnixTime {
        let start = ContinuousClock().now
        return { UnixTime(milliseconds: 0) + (ContinuousClock().now - start) }
    }

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry {
        state.withLock { $0.records.load(key) }
    }

    package func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        let now = now()
        return change(key) { $0.save(token, for: key, expecting: revision, at: now) }
    }

    @discardableResult
    package func replace(
        _ token: StoredToken?,
        for key: CredentialKey
    ) async throws(TokenStoreError) -> TokenRevision {
        change(key) { $0.replace(token, for: key) }
    }

    package func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        let now = now()
        return change(key) { $0.lease(key, expecting: revision, for: time, writing: token, at: now) }
    }

    package func prolong(
        _ lease: TokenLease,
        for time: Duration
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        let now = now()
        return state.withLock { $0.records.prolong(lease, for: time, at: now) }
    }

    package func save(
        _ token: StoredToken,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        change(lease.key) { $0.save(token, under: lease) }
    }

    package func commit(
        _ token: StoredToken?,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        change(lease.key) { $0.commit(token, under: lease) }
    }

    package func release(_ lease: TokenLease) async throws(TokenStoreError) {
        change(lease.key) { $0.release(lease) }
    }

    // MARK: Changes

    package func changes() -> AsyncStream<TokenChange>? { watchers.stream() }

    package func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        state.withLock { $0.records.changes(since: mark) }
    }

    package var sharedLocks: (any SharedLocks)? { isShared ? self : nil }

    private func change<Answer: Sendable>(_ key: CredentialKey, _ body: (inout TokenRecords) -> Answer) -> Answer {
        let (answer, revision) = state.withLock { state in
            let answer = body(&state.records)
            return (answer, state.records.load(key).revision)
        }
        watchers.send(TokenChange(key, revision))
        return answer
    }
}

extension MemoryTokenStore: SharedLocks {
    package func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> SharedLockNames {
        state.withLock { state in
            state.locks = state.locks.union(added).subtracting(removed)
            return SharedLockNames(state.locks)
        }
    }
}
