/// Keeps nothing: for tokens that live for minutes and that anybody who needs one asks for again.
package struct NoTokenStore: TokenStore {
    package init() {}

    package var isShared: Bool { false }

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry { .nothing }

    package func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer { .saved(revision.next) }

    package func replace(
        _ token: StoredToken?,
        for key: CredentialKey
    ) async throws(TokenStoreError) -> TokenRevision { .none }

    package func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        .granted(TokenLease(key: key, revision: revision.next))
    }

    package func prolong(
        _ lease: TokenLease,
        for time: Duration
    ) async throws(TokenStoreError) -> TokenLeaseAnswer { .granted(lease) }

    package func save(
        _ token: StoredToken,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenLeaseAnswer { .granted(lease) }

    package func commit(
        _ token: StoredToken?,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenSaveAnswer { .saved(lease.revision.next) }

    package func release(_ lease: TokenLease) async throws(TokenStoreError) {}

    package func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        TokenChanges(mark: TokenStoreMark(0))
    }
}
