package import GatewayHTTP

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
    package func timeLeft(at now: UnixTime) -> Duration? {
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
    /// It has changed since.
    case changed
    /// It is leased to somebody else for as long as this.
    case held(for: Duration)
}
