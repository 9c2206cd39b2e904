package import GatewayHTTP

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
    /// The mark to ask with the next time.
    package var mark: TokenStoreMark
    /// What these changes reach up to; nil where the store does not tell.
    package var upTo: FleetMark?

    package init(revisions: [CredentialKey: TokenRevision] = [:], mark: TokenStoreMark, upTo: FleetMark? = nil) {
        self.revisions = revisions
        self.mark = mark
        self.upTo = upTo
    }
}

/// Why a token store did not answer. An unavailable one is asked again; a damaged record needs a person.
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

/// Counts the changes of one record. A writer names the last change that it knows.
///
/// It never falls: a record that was removed keeps its revision.
package struct TokenRevision: Hashable, Comparable, Sendable {
    package let value: Int64

    package init(_ value: Int64) { self.value = value }

    /// The revision of a record that was never written.
    package static let none = TokenRevision(0)

    package var next: TokenRevision { TokenRevision(value == .max ? .max : value + 1) }

    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.value < rhs.value }
}

/// What a store holds under a key.
package struct TokenEntry: Hashable, Sendable {
    /// nil when nothing was ever written, or when it was removed.
    package var token: StoredToken?
    package var revision: TokenRevision

    package init(token: StoredToken?, revision: TokenRevision) {
        self.token = token
        self.revision = revision
    }

    package static let nothing = TokenEntry(token: nil, revision: .none)
}

/// The right of one gateway to renew a token, until it ends.
///
/// It is known by the revision that it gave the record. Taking the record over raises that.
/// A lease that was released or has ended raises nothing: its holder may write until somebody else does.
package struct TokenLease: Hashable, Sendable {
    package let key: CredentialKey
    package let revision: TokenRevision

    package init(key: CredentialKey, revision: TokenRevision) {
        self.key = key
        self.revision = revision
    }
}

package enum TokenSaveAnswer: Hashable, Sendable {
    /// It is written, and has this revision.
    case saved(TokenRevision)
    /// Nothing is written: somebody has changed the record, and this is what it holds.
    case changed(TokenEntry)
    /// Nothing is written: the record is leased, for as long as this.
    case held(for: Duration)
}

package enum TokenLeaseAnswer: Hashable, Sendable {
    /// The lease is yours, and goes by this revision from now on.
    case granted(TokenLease)
    /// The lease is not, or no longer, yours: somebody has changed the record, and this is what it holds.
    case changed(TokenEntry)
    /// The record is leased to somebody else, for as long as this.
    case held(for: Duration)
}

extension TokenSaveAnswer {
    /// - Parameter entry: Reads what the record holds.
    package init<Failure: Error>(
        _ decision: RecordDecision,
        entry: () throws(Failure) -> TokenEntry
    ) throws(Failure) {
        self =
            switch decision {
            case .allowed(let revision): .saved(revision)
            case .changed: .changed(try entry())
            case .held(let time): .held(for: time)
            }
    }
}

extension TokenLeaseAnswer {
    /// - Parameter entry: Reads what the record holds.
    package init<Failure: Error>(
        _ decision: RecordDecision,
        of key: CredentialKey,
        entry: () throws(Failure) -> TokenEntry
    ) throws(Failure) {
        self =
            switch decision {
            case .allowed(let revision): .granted(TokenLease(key: key, revision: revision))
            case .changed: .changed(try entry())
            case .held(let time): .held(for: time)
            }
    }
}

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

/// The names of locked credentials, kept beside the tokens of a store that gateways share.
///
/// Each gateway keeps a copy, so that a lock holds without the store.
package protocol SharedLocks: Sendable {
    /// Adds and removes names in one step. With neither it reads them.
    func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> SharedLockNames
}

package struct SharedLockNames: Hashable, Sendable {
    /// All names that are locked from now on.
    package var names: Set<String>
    /// What these names reach up to; nil where the store does not tell.
    package var upTo: FleetMark?
    /// Names that the store did not take, since somebody else holds their records. They are told again.
    package var held: Set<String> = []
    /// Why the store did not take them.
    package var reason: String?

    package init(_ names: Set<String>, upTo: FleetMark? = nil) {
        self.names = names
        self.upTo = upTo
    }
}

/// Where gateways of one token store know each other.
package protocol SharedFleet: Sendable {
    /// Writes what a gateway reports about itself. Gateways that were not seen for a day are removed.
    ///
    /// - Returns: The time of the store's clock.
    func beat(_ heartbeat: FleetHeartbeat) async throws(TokenStoreError) -> UnixTime

    /// Removes a gateway that stops.
    func leave(_ id: String) async throws(TokenStoreError)

    /// The gateways that were seen within a day, most recently seen first.
    func members() async throws(TokenStoreError) -> [FleetMember]

    /// Tells all gateways to follow at once.
    ///
    /// - Returns: A mark for all that was committed until now.
    func call() async throws(TokenStoreError) -> FleetMark

    /// An element after each ``call()`` of any gateway; several may be one. It is a hint: some may be missing.
    func calls() -> AsyncStream<Void>
}
