package import GatewayHTTP

/// The records of a ``TokenStore`` in memory, as a value: what the store does, without its locks.
package struct TokenRecords: Sendable {
    private struct Record: Sendable {
        var state = TokenRecordState()
        var token: StoredToken?
        /// The mark of its last change.
        var mark: Int64 = 0
    }

    private var records: [CredentialKey: Record] = [:]
    private var lastMark: Int64 = 0

    package init() {}

    package var tokens: [StoredToken] { records.values.compactMap(\.token) }

    package func load(_ key: CredentialKey) -> TokenEntry {
        guard let record = records[key] else { return .nothing }
        return TokenEntry(token: record.token, revision: record.state.revision)
    }

    package mutating func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision,
        at now: UnixTime
    ) -> TokenSaveAnswer {
        saved(key) {
            $0.write(expecting: revision, at: now)
        } writing: {
            $0 = token
        }
    }

    package mutating func replace(_ token: StoredToken?, for key: CredentialKey) -> TokenRevision {
        lastMark += 1
        var record = records[key] ?? Record()
        let revision = record.state.replace()
        record.token = token
        record.mark = lastMark
        records[key] = record
        return revision
    }

    package mutating func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?,
        at now: UnixTime
    ) -> TokenLeaseAnswer {
        leased(key) {
            $0.lease(expecting: revision, for: time, at: now)
        } writing: {
            if let token { $0 = token }
        }
    }

    package mutating func prolong(_ lease: TokenLease, for time: Duration, at now: UnixTime) -> TokenLeaseAnswer {
        leased(lease.key) { $0.prolong(lease, for: time, at: now) }
    }

    package mutating func save(_ token: StoredToken, under lease: TokenLease) -> TokenLeaseAnswer {
        leased(lease.key) {
            $0.write(under: lease)
        } writing: {
            $0 = token
        }
    }

    package mutating func commit(_ token: StoredToken?, under lease: TokenLease) -> TokenSaveAnswer {
        saved(lease.key) {
            $0.commit(under: lease)
        } writing: {
            $0 = token
        }
    }

    package mutating func release(_ lease: TokenLease) { records[lease.key]?.state.release(lease) }

    /// - Parameter mark: nil asks for the present mark alone.
    package func changes(since mark: TokenStoreMark?) -> TokenChanges {
        let now = TokenStoreMark(lastMark)
        guard let mark else { return TokenChanges(mark: now, upTo: FleetMark(lastMark)) }
        let changed = records.filter { $0.value.mark > mark.value }
        return TokenChanges(revisions: changed.mapValues(\.state.revision), mark: now, upTo: FleetMark(lastMark))
    }

    private mutating func saved(
        _ key: CredentialKey,
        _ decide: (inout TokenRecordState) -> RecordDecision,
        writing write: (inout StoredToken?) -> Void
    ) -> TokenSaveAnswer {
        TokenSaveAnswer(change(key, decide, write)) { load(key) }
    }

    private mutating func leased(
        _ key: CredentialKey,
        _ decide: (inout TokenRecordState) -> RecordDecision,
        writing write: (inout StoredToken?) -> Void = { _ in }
    ) -> TokenLeaseAnswer {
        TokenLeaseAnswer(change(key, decide, write), of: key) { load(key) }
    }

    private mutating func change(
        _ key: CredentialKey,
        _ decide: (inout TokenRecordState) -> RecordDecision,
        _ write: (inout StoredToken?) -> Void
    ) -> RecordDecision {
        var record = records[key] ?? Record()
        let decision = decide(&record.state)
        guard case .allowed = decision else { return decision }
        write(&record.token)
        lastMark += 1
        record.mark = lastMark
        records[key] = record
        return decision
    }
}

/// Who may change a record: the rules for a store that looks at the record and changes it in one step.
///
/// Times are those of the store's clock.
package struct TokenRecordState: Hashable, Sendable {
    package private(set) var revision: TokenRevision
    /// When the lease ends; nil without one.
    package private(set) var leaseUntil: UnixTime?

    package init(revision: TokenRevision = .none, leaseUntil: UnixTime? = nil) {
        self.revision = revision
        self.leaseUntil = leaseUntil
    }

    /// - Returns: How long the lease lasts; nil when there is none.
    func timeLeft(at now: UnixTime) -> Duration? {
        guard let leaseUntil, leaseUntil > now else { return nil }
        return leaseUntil - now
    }

    /// A lease is taken, or taken over after its end.
    package mutating func lease(expecting known: TokenRevision, for time: Duration, at now: UnixTime) -> RecordDecision
    {
        let decision = write(expecting: known, at: now)
        if case .allowed = decision { leaseUntil = now + time }
        return decision
    }

    /// The record is written without a lease.
    package mutating func write(expecting known: TokenRevision, at now: UnixTime) -> RecordDecision {
        if let left = timeLeft(at: now) { return .held(for: left) }
        guard revision == known else { return .changed }
        return .allowed(raise())
    }

    /// The holder writes the record, and keeps the lease.
    ///
    /// After the end of its lease, too, if the record has not changed since.
    package mutating func write(under lease: TokenLease) -> RecordDecision {
        guard revision == lease.revision else { return .changed }
        revision = revision.next
        return .allowed(revision)
    }

    /// The holder writes the record, and the lease ends.
    package mutating func commit(under lease: TokenLease) -> RecordDecision {
        guard revision == lease.revision else { return .changed }
        return .allowed(raise())
    }

    /// The lease lasts for `time` from now.
    package mutating func prolong(_ lease: TokenLease, for time: Duration, at now: UnixTime) -> RecordDecision {
        guard revision == lease.revision else { return .changed }
        leaseUntil = now + time
        return .allowed(revision)
    }

    package mutating func release(_ lease: TokenLease) {
        if revision == lease.revision { leaseUntil = nil }
    }

    /// An operator changes the record, whichever gateway holds the lease.
    package mutating func replace() -> TokenRevision { raise() }

    private mutating func raise() -> TokenRevision {
        leaseUntil = nil
        revision = revision.next
        return revision
    }
}

/// Whether a record may be changed.
package enum RecordDecision: Hashable, Sendable {
    /// The record has this revision from now on.
    case allowed(TokenRevision)
    /// The record has changed since.
    case changed
    /// Another gateway holds the lease, for this long.
    case held(for: Duration)
}
