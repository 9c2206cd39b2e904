import GatewayHTTP

/// A record as this gateway last saw it in the store, the lease that the gateway holds, and the meaning of the store's answers.
///
/// It performs nothing. `holding` is the token that the gateway uses. It is newer than the record if it could not be stored.
struct StoredRecord: Sendable {
    private(set) var seen = TokenEntry.nothing
    private(set) var lease: TokenLease?
    /// The store was read. Before the first read, a difference is not a change.
    private var hasRead = false
    /// See ``ignoreOwnWrite(_:)``.
    private var ownWrite: TokenSet?

    var revision: TokenRevision { seen.revision }

    // MARK: What others have written

    /// The meaning of a difference between the store and the entry that was seen last.
    enum Change: Hashable, Sendable {
        /// The token is unchanged. The journal of an attempt may be new.
        case none
        /// Somebody has stored another token, which is adopted.
        case newer(StoredToken)
        /// The token was withdrawn: cleared, revoked, or refused for good.
        case withdrawn
        /// The store has an older record, for example after a backup was restored. This gateway's token is newer.
        case wentBack
    }

    func change(to entry: TokenEntry, holding held: StoredToken?) -> Change {
        if entry.revision < seen.revision { return .wentBack }
        guard let token = entry.token, !token.isRevoked else {
            guard let held, !held.isRevoked else { return .none }
            return entry.revision == seen.revision ? .none : .withdrawn
        }
        if token.token == held?.token || token.token == seen.token?.token || token.token == ownWrite { return .none }
        if let seen = seen.token?.token, let held, held.token != seen, token.token.isRemainder(of: seen) {
            return .none
        }
        return .newer(token)
    }

    /// The record was read.
    mutating func load(_ entry: TokenEntry) { see(entry) }

    /// The gateway has discarded this token. The store may hold it although the write seemed to fail, but it is not adopted from there.
    /// This ends with the next write.
    mutating func ignoreOwnWrite(_ token: TokenSet) { ownWrite = token }

    /// An operator's write, which the store never refuses.
    mutating func replace(with token: StoredToken?, as revision: TokenRevision) {
        ownWrite = nil
        see(TokenEntry(token: token, revision: revision))
    }

    /// Gives up the lease, so that others may have it.
    mutating func giveUpLease() -> TokenLease? { lease.take() }

    private mutating func see(_ entry: TokenEntry) {
        if lease?.revision != entry.revision { lease = nil }
        (seen, hasRead) = (entry, true)
        checkInvariants()
    }

    private func checkInvariants() {
        assert(lease.map { $0.revision == seen.revision } ?? true, "The lease of a record is held that was replaced.")
        assert(hasRead || lease == nil && seen == .nothing, "A record is known before the first read.")
    }

    // MARK: A renewal

    /// What follows after the lease was requested.
    enum Renewal: Hashable, Sendable {
        /// Go on: this gateway has the lease.
        case begin
        /// Somebody has a newer token, so nothing is sent.
        case adopt(StoredToken)
        /// Read the record again, then ask again. Its journal was written by a gateway that did not complete its attempt.
        case again
        /// The token was withdrawn, so nothing is sent.
        case withdrawn
        /// Another gateway is renewing.
        case wait(Duration)
    }

    /// - Parameter token: The record that was to be written with the lease; nil if only the lease was requested.
    mutating func leased(
        _ answer: TokenLeaseAnswer,
        writing token: StoredToken?,
        holding held: StoredToken?
    ) -> Renewal {
        switch answer {
        case .granted(let lease):
            grant(lease, writing: token)
            return .begin
        case .held(let time): return .wait(time)
        case .changed(let entry):
            let change = change(to: entry, holding: held)
            see(entry)
            switch change {
            case .newer(let token): return .adopt(token)
            case .withdrawn: return .withdrawn
            case .none, .wentBack: return .again
            }
        }
    }

    // MARK: A write

    /// What follows after a write.
    enum Write: Hashable, Sendable {
        case done
        /// Write again: there is no newer token.
        case again
        /// Write later: another gateway is renewing.
        case later(Duration)
        /// Somebody else wrote first: the write is dropped, and this entry is applied.
        case overtaken(TokenEntry)
    }

    /// Takes the answer to a write without a lease, or to one that ends the lease.
    mutating func saved(
        _ answer: TokenSaveAnswer,
        writing token: StoredToken?,
        holding held: StoredToken?
    ) -> Write {
        switch answer {
        case .saved(let revision):
            ownWrite = nil
            see(TokenEntry(token: token, revision: revision))
            return .done
        case .held(let time): return .later(time)
        case .changed(let entry): return refused(by: entry, writing: token, holding: held)
        }
    }

    /// Takes the answer to a write that keeps the lease.
    mutating func saved(
        _ answer: TokenLeaseAnswer,
        writing token: StoredToken,
        holding held: StoredToken?
    ) -> Write {
        switch answer {
        case .granted(let lease):
            ownWrite = nil
            grant(lease, writing: token)
            return .done
        case .held(let time): return .later(time)
        case .changed(let entry): return refused(by: entry, writing: token, holding: held)
        }
    }

    /// Takes the answer to the lease that is taken to remove the record.
    mutating func leasedForRemoval(_ answer: TokenLeaseAnswer, holding held: StoredToken?) -> Write {
        switch answer {
        case .granted(let lease):
            grant(lease, writing: nil)
            return .again
        case .held(let time): return .later(time)
        case .changed(let entry): return refused(by: entry, writing: nil, holding: held)
        }
    }

    private mutating func refused(
        by entry: TokenEntry,
        writing token: StoredToken?,
        holding held: StoredToken?
    ) -> Write {
        defer { checkInvariants() }
        lease = nil
        switch change(to: entry, holding: held) {
        case .newer where hasRead, .withdrawn: return .overtaken(entry)
        case .none, .newer, .wentBack:
            see(entry)
            // An earlier attempt was carried out although it seemed to fail.
            return entry.token == token ? .done : .again
        }
    }

    private mutating func grant(_ granted: TokenLease, writing token: StoredToken?) {
        assert(lease.map { $0.key == granted.key } ?? true, "The leases of two records are held.")
        lease = granted
        see(TokenEntry(token: token ?? seen.token, revision: granted.revision))
    }
}

extension TokenSet {
    /// Whether another gateway has dropped the refresh token of `other` because the server refused it. A gateway that holds a successor of
    /// `other` is not affected.
    fileprivate func isRemainder(of other: TokenSet) -> Bool {
        refreshToken == nil && !access.isEmpty && access == other.access
    }
}

/// How long a gateway may renew before another one may, and how the others wait.
enum RenewalLease {
    /// How long a lease lasts: longer than a call to the authorization server may take.
    static let duration: Duration = .seconds(20)
    /// How often the holder prolongs it during a call.
    static let prolongedEvery: Duration = duration / 3
    /// How often others check whether the renewal has ended, if the store does not notify them.
    static let longestPause: Duration = .seconds(1)

    /// How long to wait before requesting the lease again.
    ///
    /// - Parameter jitter: 0...1, since many gateways may wait for one lease.
    static func pause(held time: Duration, jitter: Double) -> Duration {
        let wait = min(max(time, .milliseconds(10)), longestPause)
        return wait + wait / 4 * min(max(jitter, 0), 1)
    }
}

/// A record that is not stored yet.
enum PendingWrite: Hashable, Sendable {
    /// The store holds the record.
    case none
    /// The gateway's own write. The store refuses it if somebody else has changed the record.
    case own(due: MonotonicTime)
    /// A token that an operator has brought or withdrawn. It is written whatever the store holds.
    case operators(due: MonotonicTime)

    /// A failed write that is to be repeated.
    init(isOperators: Bool, due: MonotonicTime) {
        self = isOperators ? .operators(due: due) : .own(due: due)
    }

    /// When to try again; nil if there is nothing to write.
    var due: MonotonicTime? {
        switch self {
        case .none: nil
        case .own(let due), .operators(let due): due
        }
    }

    var isOperators: Bool {
        switch self {
        case .operators: true
        case .none, .own: false
        }
    }
}
