package import GatewayHTTP
import Synchronization

/// What is known of the rejections of one credential. Shared by all workers and all routes that use it.
package final class RejectionRecord: Sendable {
    private let ledger: Mutex<RejectionLedger>
    private let confirmed = ConfirmedTemplates()
    /// What engines were handed.
    private let handedOut = HandedOutTemplates()
    /// So that no client can compute two paths with one template.
    private let seed = UInt64.random(in: 0...UInt64.max)

    package init(_ rules: RejectionLedger.Rules = RejectionLedger.Rules()) { ledger = Mutex(RejectionLedger(rules)) }

    /// - Parameters:
    ///   - route: Its number. Templates of different routes are different ones.
    ///   - bytes: The head of the request.
    package func key(
        _ route: Int,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> RejectionLedger.Key {
        RejectionLedger.Key(route, head, bytes, seed: seed)
    }

    /// The upstream has accepted the token of this generation there.
    package func confirm(_ key: RejectionLedger.Key, generation: Int) {
        confirmed.confirm(key.template, generation: generation)
    }

    package func decision(
        for key: RejectionLedger.Key,
        generation: Int,
        client: String?,
        at now: MonotonicTime
    ) -> RejectionLedger.RejectionDecision {
        let isConfirmed = confirmed.isConfirmed(key.template, generation: generation)
        return ledger.withLock {
            $0.decision(for: key, generation: generation, client: client, isConfirmed: isConfirmed, at: now)
        }
    }

    /// Whether the rejection of a token that only a person can replace is taken for its end. Then no request has it any more.
    ///
    /// Where it has worked, it has ended. Elsewhere, a path that answers 401 to every token would take it from all clients:
    /// there it counts only while the token has not worked anywhere.
    package func endsToken(_ key: RejectionLedger.Key, generation: Int) -> Bool {
        confirmed.isConfirmed(key.template, generation: generation) || !confirmed.hasWorked(generation: generation)
    }

    /// There is a token of this generation now.
    ///
    /// - Parameter isOwn: The authority was asked for it here. Otherwise, no rejection here has caused it.
    package func replaced(by generation: Int, isOwn: Bool, at now: MonotonicTime) {
        ledger.withLock {
            $0.replaced(by: generation, at: now)
            if isOwn { $0.wasAsked() } else { $0.giveBack(upTo: generation - 1) }
        }
    }

    /// A call brought no token. The authority may have been asked, so what was paid stays paid.
    package func failed() { ledger.withLock { $0.wasAsked() } }

    /// No call was begun because of the rejection of this generation: one was under way already, or calls have a pause.
    package func causedNothing(_ generation: Int) {
        ledger.withLock { $0.giveBack(upTo: generation) }
    }

    package func rejectedAgain(_ key: RejectionLedger.Key, generation: Int, at now: MonotonicTime) {
        ledger.withLock { $0.rejectedAgain(key, generation: generation, at: now) }
    }

    package func accepted(_ key: RejectionLedger.Key, generation: Int, at now: MonotonicTime) {
        ledger.withLock { $0.accepted(key, generation: generation, at: now) }
    }

    /// The clients that may cause no renewal now, and when they may again: at most so many.
    package func emptyBudgets(at now: MonotonicTime, limit: Int) -> [(client: String?, fillsAt: MonotonicTime)] {
        ledger.withLock { $0.emptyBudgets(at: now, limit: limit) }
    }

    // MARK: Engines

    /// An engine was handed the token of this generation for such a request, and has not said before that it was rejected.
    package func handedOut(_ key: RejectionLedger.Key, generation: Int, at now: MonotonicTime) {
        handedOut.note(key.template, generation: generation, at: now)
    }

    /// An engine reports a rejection. Engines do not report acceptances: one that has had the token for this path for a while without
    /// a report is taken to have had it accepted.
    package func reported(_ key: RejectionLedger.Key, generation: Int, at now: MonotonicTime) {
        guard let age = handedOut.take(key.template, generation: generation, at: now),
            age >= Self.silenceOfAcceptance
        else { return }
        confirm(key, generation: generation)
    }

    /// After this time without a report a token counts as accepted: longer than an upstream takes to answer 401.
    private static let silenceOfAcceptance: Duration = .seconds(10)
}
