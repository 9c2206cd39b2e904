package import GatewayCore
import Synchronization

/// Revisions and leases, which the program knows nothing of.
extension CommandTokenStore {
    package var isShared: Bool { false }

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry {
        let before = revision(of: key)
        let token = try await read(key)
        // A write meanwhile has made what was read uncertain. A writer that expects the earlier revision is refused.
        return TokenEntry(token: token, revision: before)
    }

    package func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await saved(key, token) { $0.write(expecting: revision, at: $1) }
    }

    @discardableResult
    package func replace(
        _ token: StoredToken?,
        for key: CredentialKey
    ) async throws(TokenStoreError) -> TokenRevision {
        guard case .saved(let revision) = try await saved(key, token, { state, _ in .allowed(state.replace()) }) else {
            return .none
        }
        return revision
    }

    package func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(key, token) { $0.lease(expecting: revision, for: time, at: $1) }
    }

    package func prolong(
        _ lease: TokenLease,
        for time: Duration
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(lease.key, nil) { $0.prolong(lease, for: time, at: $1) }
    }

    package func save(
        _ token: StoredToken,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(lease.key, token) { state, _ in state.write(under: lease) }
    }

    package func commit(
        _ token: StoredToken?,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await saved(lease.key, token) { state, _ in state.commit(under: lease) }
    }

    package func release(_ lease: TokenLease) async throws(TokenStoreError) {
        states.withLock { $0[lease.key]?.release(lease) }
    }

    /// Names what this process has written or leased.
    package func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        guard mark != nil else { return TokenChanges(mark: TokenStoreMark(0)) }
        return TokenChanges(revisions: states.withLock { $0.mapValues(\.revision) }, mark: TokenStoreMark(0))
    }

    private func revision(of key: CredentialKey) -> TokenRevision { states.withLock { $0[key]?.revision ?? .none } }

    private typealias Decide = (inout TokenRecordState, UnixTime) -> RecordDecision

    private func decide(_ key: CredentialKey, _ decide: Decide) -> RecordDecision {
        let now = now()
        return states.withLock { states in
            var state = states[key] ?? TokenRecordState()
            let decision = decide(&state, now)
            if case .allowed = decision { states[key] = state }
            return decision
        }
    }

    /// - Parameter token: nil removes the record.
    private func saved(
        _ key: CredentialKey,
        _ token: StoredToken?,
        _ body: Decide
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        let earlier = states.withLock { $0[key] }
        switch decide(key, body) {
        case .held(let time): return .held(for: time)
        case .changed: return .changed(try await load(key))
        case .allowed(let revision):
            try await undoing(revision, of: key, back: earlier) { () throws(TokenStoreError) in
                if let token { try await write(token, for: key) } else { try await erase(key) }
            }
            return .saved(revision)
        }
    }

    /// - Parameter token: nil leaves the record as it is.
    private func leased(
        _ key: CredentialKey,
        _ token: StoredToken?,
        _ body: Decide
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        let earlier = states.withLock { $0[key] }
        switch decide(key, body) {
        case .held(let time): return .held(for: time)
        case .changed: return .changed(try await load(key))
        case .allowed(let revision):
            if let token {
                try await undoing(revision, of: key, back: earlier) { () throws(TokenStoreError) in
                    try await write(token, for: key)
                }
            }
            return .granted(TokenLease(key: key, revision: revision))
        }
    }

    /// What the program did not write has not happened, so the writer may try again with the revision that it knows.
    private func undoing(
        _ revision: TokenRevision,
        of key: CredentialKey,
        back earlier: TokenRecordState?,
        _ body: () async throws(TokenStoreError) -> Void
    ) async throws(TokenStoreError) {
        do throws(TokenStoreError) {
            try await body()
        } catch {
            states.withLock { states in
                if states[key]?.revision == revision { states[key] = earlier }
            }
            throw error
        }
    }
}
