import GatewayEvents
import Logging

/// Performs calls: reads and writes the store, speaks to the authority, commits events. Owned by the keeper's loop.
///
/// The order within a call is the promise: lease (stores that gateways share) -> event `acquiring` or `renewing` -> journal
/// (grants that rotate) -> authority -> store -> event `acquired` or `renewed` -> the token is used.
///
/// When the new token cannot be stored it is used all the same and saved again later: for a grant that rotates it is the
/// only one there is, and for any other the store merely saves a call after a restart. The journal is still in the
/// store then, so that a crash before the second attempt shows.
struct TokenRenewer {
    enum End {
        case obtained(FreshToken)
        case nothing
        case failed(TokenFailure)
        /// Another gateway is renewing, for as long as this.
        case held(Duration)
        /// The token was taken away meanwhile, at another gateway.
        case withdrawn
    }

    /// A token that is stored but whose event the audit log would not take. Not asked for again: the event is retried.
    ///
    /// A class, because few renewers have one: the others keep room for a reference only.
    final class Uncommitted: Sendable {
        let fresh: FreshToken
        let event: TokenEvent

        init(fresh: FreshToken, event: TokenEvent) {
            self.fresh = fresh
            self.event = event
        }
    }

    static let saveInterval: Duration = .seconds(5)

    /// How far the renewer has got with the store.
    enum Phase {
        /// It was never read. A change that others have made is no news yet.
        case unread
        /// The next call reads it.
        case closed
        /// The record was forgotten here, but the store would not remove it: it is not to be read again.
        case forgotten
        /// ``TokenRenewer/record`` is what there is.
        case open
    }

    let context: KeeperContext
    private(set) var record: StoredToken?
    /// What the store held when it was last asked.
    var stored = StoredRecord() {
        didSet { context.known.revision = stored.revision }
    }
    /// What somebody else has written in the place of what was to be saved; applied in the next turn.
    var overtakenBy: TokenEntry?
    var phase = Phase.unread
    private(set) var uncommitted: Uncommitted?
    /// Of ``record``.
    var pendingWrite = PendingWrite.none
    /// A refresh token was sent and no answer came that says what became of it.
    var isUncertain = false
    /// Why what an operator has just taken away is not in the audit log yet.
    var unrecorded: AuditError?

    init(context: KeeperContext) { self.context = context }

    /// - Parameters:
    ///   - generation: The highest there has been.
    ///   - waiters: How many requests wait by now.
    mutating func perform(_ call: TokenCall, after generation: Int, waiters: () -> Int) async -> End {
        if let uncommitted { return await commit(uncommitted) }
        if phase != .open, let end = await open(call, after: generation) { return end }
        let end = await renew(call, after: max(generation, record?.generation ?? 0), waiters: waiters)
        // In a store of its own a gateway keeps the lease for its next attempt, which costs no write.
        if context.store.isShared, pendingWrite == .none { await endLease() }
        return end
    }

    /// The number of the next token.
    ///
    /// - Parameter highest: The highest generation there has been.
    func nextGeneration(after highest: Int) -> Int { max(highest, record?.generation ?? 0) + 1 }

    mutating func commit(_ uncommitted: Uncommitted) async -> End {
        self.uncommitted = uncommitted
        if let failure = await context.commit(uncommitted.event) { return .failed(failure) }
        self.uncommitted = nil
        return .obtained(uncommitted.fresh)
    }

    func fresh(_ record: StoredToken) -> FreshToken {
        var fresh = FreshToken(
            generation: record.generation,
            token: record.token,
            injection: context.grant.injection(of: record.token),
            isRejected: record.isRejected
        )
        fresh.lacksRefreshToken = context.lacksRefreshToken(record.token)
        return fresh
    }

    mutating func storeRejection(of generation: Int) async {
        guard record?.generation == generation else { return }
        amendRecord { $0.isRejected = true }
        await save()
    }

    // MARK: The record

    /// Puts another record in the place of the present one. What goes with the present one is dropped: a write that the
    /// store did not take, and an event that the audit log did not take.
    ///
    /// - Returns: The token whose event was dropped.
    @discardableResult
    mutating func replaceRecord(with token: StoredToken?) -> Uncommitted? {
        record = token
        pendingWrite = .none
        isUncertain = context.isUncertain(token)
        return uncommitted.take()
    }

    /// Changes what is known of the present record.
    mutating func amendRecord(_ change: (inout StoredToken) -> Void) {
        guard var amended = record else { return }
        change(&amended)
        record = amended
    }
}
