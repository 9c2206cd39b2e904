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
