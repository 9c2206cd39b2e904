package import GatewayHTTP
package import GatewayTokens

/// A token store in memory that remembers every write and can be told to fail.
package final class RecordingTokenStore: TokenStore {
    package enum Operation: Hashable, Sendable {
        case load
        /// With or without a lease, by an operator as well.
        case save(StoredToken)
        case remove
        /// A lease alone; one that writes is a ``save(_:)``.
        case lease
        case release
    }

    private struct State: Sendable {
        var records = TokenRecords()
        var operations: [Operation] = []
        var failing: (@Sendable (Operation) -> TokenStoreError?)?
        var listeners: [AsyncStream<TokenChange>.Continuation] = []
    }

    private let state: Watched<State>
    private let now: @Sendable () -> UnixTime
    package let isShared: Bool

    /// - Parameter now: The store's clock, for leases.
    package init(
        _ records: [CredentialKey: StoredToken] = [:],
        isShared: Bool = false,
        now: @escaping @Sendable () -> UnixTime = { UnixTime(milliseconds: 0) }
    ) {
        var begin = State()
        for (key, token) in records { _ = begin.records.replace(token, for: key) }
        state = Watched(begin)
        self.isShared = isShared
        self.now = now
    }

    /// Everything that was tried, refused operations included, oldest first.
    package var operations: [Operation] { state.value.operations }
    package var saved: [StoredToken] {
        operations.compactMap { if case .save(let token) = $0 { token } else { nil } }
    }

    /// Setting it is what another gateway or an operator does.
    package subscript(key: CredentialKey) -> StoredToken? {
        get { state.value.records.load(key).token }
        set {
            let revision = state.update { $0.records.replace(newValue, for: key) }
            tell(TokenChange(key, revision))
        }
    }

    package func changes() -> AsyncStream<TokenChange>? {
        let (stream, continuation) = AsyncStream.makeStream(of: TokenChange.self)
        state.update { $0.listeners.append(continuation) }
        return stream
    }

    /// Tells watchers of a change, whether there was one or not.
    package func tell(_ change: TokenChange) { for listener in state.value.listeners { listener.yield(change) } }

    /// From now on an operation fails with what `failure` returns for it; nil repairs the store.
    package func fail(_ failure: (@Sendable (Operation) -> TokenStoreError?)?) { state.update { $0.failing = failure } }

    package func untilSaved(_ holds: @escaping @Sendable (StoredToken) -> Bool) async throws {
        try await state.until { $0.records.tokens.contains(where: holds) }
    }

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry {
        try attempt(.load, nil) { $0.load(key) }
    }

    package func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        let now = now()
        return try attempt(.save(token), key) { $0.save(token, for: key, expecting: revision, at: now) }
    }

    @discardableResult
    package func replace(
        _ token: StoredToken?,
        for key: CredentialKey
    ) async throws(TokenStoreError) -> TokenRevision {
        try attempt(token.map { .save($0) } ?? .remove, key) { $0.replace(token, for: key) }
    }

    package func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        let now = now()
        return try attempt(token.map { .save($0) } ?? .lease, key) {
            $0.lease(key, expecting: revision, for: time, writing: token, at: now)
        }
    }

    package func prolong(
        _ lease: TokenLease,
        for time: Duration
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        let now = now()
        return state.update { $0.records.prolong(lease, for: time, at: now) }
    }

    package func save(
        _ token: StoredToken,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try attempt(.save(token), lease.key) { $0.save(token, under: lease) }
    }

    package func commit(
        _ token: StoredToken?,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try attempt(token.map { .save($0) } ?? .remove, lease.key) { $0.commit(token, under: lease) }
    }

    package func release(_ lease: TokenLease) async throws(TokenStoreError) {
        try attempt(.release, lease.key) { $0.release(lease) }
    }

    package func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        let state = state.value
        if let failure = state.failing?(.load) { throw failure }
        return state.records.changes(since: mark)
    }

    private func attempt<Value: Sendable>(
        _ operation: Operation,
        _ changed: CredentialKey?,
        _ body: (inout TokenRecords) -> Value
    ) throws(TokenStoreError) -> Value {
        let result: Result<Value, TokenStoreError> = state.update { state in
            state.operations.append(operation)
            if let failure = state.failing?(operation) { return .failure(failure) }
            return .success(body(&state.records))
        }
        if let changed { tell(TokenChange(changed, state.value.records.load(changed).revision)) }
        return try result.get()
    }
}
