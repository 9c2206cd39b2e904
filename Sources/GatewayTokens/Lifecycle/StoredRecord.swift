import GatewayHTTP

/// A record as this gateway last saw it in the store, with the lease that it holds, and what the store's answers mean.
///
/// Performs nothing. `holding` is the token that the gateway uses; it is later than the record when it could not be stored.
struct StoredRecord: Sendable {
    private(set) var seen = TokenEntry.nothing
    private(set) var lease: TokenLease?
    /// The store has said what it holds. Before the first read, a difference is not a change.
    private var hasRead = false
    /// See ``ignoreOwnWrite(_:)``.
    private var ownWrite: TokenSet?

    var revision: TokenRevision { seen.revision }

    // MARK: What others have written

    /// What it means that the store holds another entry than the one that was seen.
    enum Change: Hashable, Sendable {
        /// The token is unchanged. The journal of an attempt may be new.
        case none
        /// Somebody has another token: it is adopted.
        case newer(StoredToken)
        /// The token was taken away: cleared, revoked, or dead for good.
        case withdrawn
        /// The store has lost what it held: a backup was restored, say. What this gateway holds is later.
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

    /// The gateway brought this token and takes it back. The store may hold it although the write seemed to fail: it is not
    /// adopted from there. Ends with the next write.
    mutating func ignoreOwnWrite(_ token: TokenSet) { ownWrite = token }

    /// An operator's write, which nothing can refuse.
    mutating func replace(with token: StoredToken?, as revision: TokenRevision) {
        ownWrite = nil
        see(TokenEntry(token: token, revision: revision))
    }

    /// Others may lease the record from now on.
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

    /// What follows when the lease was asked for.
    enum Renewal: Hashable, Sendable {
        /// Go on: the lease is ours.
        case begin
        /// Somebody has a newer token: nothing is sent.
        case adopt(StoredToken)
        /// Look at the record again, then ask again. The journal in it is that of a gateway that did not end its attempt.
        case again
        /// The token was taken away: nothing is sent.
        case withdrawn
        /// Another gateway is renewing.
        case wait(Duration)
    }

    /// - Parameter token: What was to be written with the lease; nil for a lease alone.
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

    /// What follows from a write.
    enum Write: Hashable, Sendable {
        case done
        /// Write once more: there is no newer token.
        case again
        /// Write later: another gateway is renewing.
        case later(Duration)
        /// Somebody was before: what was to be written is dropped, and this is applied.
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
            // An earlier try was carried out although it seemed to fail.
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
    /// The authority refused the refresh token of `other` to another gateway, which has dropped it. A gateway that holds a
    /// successor of `other` is not affected.
    fileprivate func isRemainder(of other: TokenSet) -> Bool {
        refreshToken == nil && !access.isEmpty && access == other.access
    }
}

/// How long a gateway may renew before another one may, and how the others wait.
enum RenewalLease {
    /// How long a lease lasts: longer than a call to the authority may take.
    static let duration: Duration = .seconds(20)
    /// When the holder prolongs it, again and again while a call lasts.
    static let prolongedEvery: Duration = duration / 3
    /// How often others look whether the renewal has ended, if the store does not tell.
    static let longestPause: Duration = .seconds(1)

    /// How long to wait before the lease is asked for again.
    ///
    /// - Parameter jitter: 0...1; many gateways wait for one lease.
    static func pause(held time: Duration, jitter: Double) -> Duration {
        let wait = min(max(time, .milliseconds(10)), longestPause)
        return wait + wait / 4 * min(max(jitter, 0), 1)
    }
}

/// A record that the store has yet to take.
enum PendingWrite: Hashable, Sendable {
    /// The store holds the record.
    case none
    /// The gateway's own write: it is refused when somebody else has changed the record.
    case own(due: MonotonicTime)
    /// What an operator brought or took away. It is written whatever the store holds.
    case operators(due: MonotonicTime)

    /// A write that failed, to be tried again.
    init(isOperators: Bool, due: MonotonicTime) {
        self = isOperators ? .operators(due: due) : .own(due: due)
    }

    /// When to try again; nil when there is nothing to write.
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
