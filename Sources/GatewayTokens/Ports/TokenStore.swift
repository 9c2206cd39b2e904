/// Where tokens outlive the process, and where gateways that share them agree who renews one.
///
/// There is one whole record for each key, with a ``TokenRevision``. Each change raises the revision, also one that takes a
/// lease. A writer names the revision that it knows, and is refused when the record has changed since. A record that was
/// removed keeps its revision, so a late write does not bring it back. What a call answers would survive a crash.
///
/// Every store compares what this process writes. A store with ``isShared`` also compares what other gateways write.
///
/// A renewal is: ``lease(_:expecting:for:writing:)``, then a call to the authority, then ``commit(_:under:)``. Before a refresh
/// token is sent, ``save(_:under:)`` writes the journal, unless the lease has written it.
package protocol TokenStore: Sendable {
    /// Whether other gateways may use the same records at the same time.
    ///
    /// Where it is false, only one gateway may use them, and a lease is that of the process.
    var isShared: Bool { get }

    /// - Returns: An entry without a token only when none was ever saved, or when it was removed. Damage is an error.
    func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry

    /// Writes without a lease.
    func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer

    /// Writes for an operator, whatever the record holds. A lease of it ends.
    ///
    /// - Parameter token: nil removes the record.
    @discardableResult
    func replace(_ token: StoredToken?, for key: CredentialKey) async throws(TokenStoreError) -> TokenRevision

    // MARK: Leases

    /// Takes the lease of a record, if no lease lasts and the record has not changed. The store's clock counts.
    ///
    /// - Parameter token: The record with the journal of the attempt, written in the same step; nil leaves it as it is.
    func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer

    /// Makes a lease last for `time` from now. Its revision stays.
    func prolong(_ lease: TokenLease, for time: Duration) async throws(TokenStoreError) -> TokenLeaseAnswer

    /// Writes the journal, or what an attempt has brought so far. The lease goes on, with another revision.
    func save(_ token: StoredToken, under lease: TokenLease) async throws(TokenStoreError) -> TokenLeaseAnswer

    /// Writes the end of an attempt, and ends the lease in the same step.
    ///
    /// - Parameter token: nil removes the record.
    func commit(_ token: StoredToken?, under lease: TokenLease) async throws(TokenStoreError) -> TokenSaveAnswer

    /// Ends a lease, and leaves the record as it is. Nothing happens when the lease is over already.
    func release(_ lease: TokenLease) async throws(TokenStoreError)

    // MARK: Changes

    /// Records that somebody has changed, as soon as the store learns of it; nil when it cannot tell.
    ///
    /// This is a hint: some may be missing, and own changes may be among them. What is written while a lease goes on need not be
    /// told of.
    /// ``changes(since:)`` misses none.
    func changes() -> AsyncStream<TokenChange>?

    /// Every record that was written since `mark`, apart from what is written while a lease goes on. The answer may also name
    /// records that were not, with the revision that they have. What a removed record leaves must be there for as long as a gateway may be cut off from the store.
    ///
    /// - Parameter mark: nil asks for the present mark alone.
    func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges

    /// The locks that gateways share; nil where each gateway has its own.
    var sharedLocks: (any SharedLocks)? { get }

    /// Where gateways that share the store know each other; nil where they do not.
    var sharedFleet: (any SharedFleet)? { get }

    // MARK: Health

    /// Why tokens cannot be saved at the moment, as far as is known without asking the store; nil when they can.
    var failure: TokenStoreError? { get }

    /// Finds out whether the store works, for ``failure``.
    func look() async

    /// Finishes what has begun. Later calls fail with ``TokenStoreError/unavailable(_:)``.
    func close() async
}

extension TokenStore {
    package func changes() -> AsyncStream<TokenChange>? { nil }
    package var sharedLocks: (any SharedLocks)? { nil }
    package var sharedFleet: (any SharedFleet)? { nil }
    package var failure: TokenStoreError? { nil }
    package func look() async {}
    package func close() async {}
}

/// A moment in the history of a store. What it means is the store's affair.
package struct TokenStoreMark: Hashable, Sendable {
    package let value: Int64

    package init(_ value: Int64) { self.value = value }
}

/// A record that somebody has changed.
package struct TokenChange: Hashable, Sendable {
    package let key: CredentialKey
    /// What it has by now; nil when the store does not say.
    package let revision: TokenRevision?

    package init(_ key: CredentialKey, _ revision: TokenRevision? = nil) {
        self.key = key
        self.revision = revision
    }

    /// The one to follow of two changes of a record. They may come in another order than they were made.
    package func joined(with other: TokenChange?) -> TokenChange {
        guard let other else { return self }
        guard let revision, let another = other.revision else { return TokenChange(key) }
        return revision > another ? self : other
    }
}

package struct TokenChanges: Hashable, Sendable {
    package var revisions: [CredentialKey: TokenRevision]
    /// To ask with the next time.
    package var mark: TokenStoreMark
    /// What these changes reach up to; nil where the store does not tell.
    package var upTo: FleetMark?

    package init(revisions: [CredentialKey: TokenRevision] = [:], mark: TokenStoreMark, upTo: FleetMark? = nil) {
        self.revisions = revisions
        self.mark = mark
        self.upTo = upTo
    }
}

package enum TokenStoreError: Error, Hashable, Sendable {
    /// The store cannot be reached or written now: full disk, lock, I/O error.
    case unavailable(String)
    /// The record is there and cannot be read: wrong key, or changed behind our back. The text says what to do.
    case damaged(String)

    package var reason: String {
        switch self {
        case .unavailable(let reason), .damaged(let reason): reason
        }
    }
}
