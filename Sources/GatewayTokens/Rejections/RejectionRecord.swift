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

    /// What follows from a response that rejects a token.
    package enum Verdict: Hashable, Sendable {
        /// Tell the source that its token was rejected.
        case counts
        /// The path may reject every token, so the source is not told.
        case withoutRenewal
        /// The client has caused as many renewals as it may. It may cause the next one then.
        case overBudget(until: MonotonicTime)
    }

    /// Decides whether a rejection counts. A path that rejects every token must not cause a renewal with each request.
    ///
    /// For a token that can be renewed, a rejection that counts may be charged to the client.
    package func verdict(
        on key: RejectionLedger.Key,
        generation: Int,
        isRenewable: Bool,
        client: String?,
        at now: MonotonicTime
    ) -> Verdict {
        guard isRenewable else { return endsToken(key, generation: generation) ? .counts : .withoutRenewal }
        return switch decision(for: key, generation: generation, client: client, at: now) {
        case .counts: .counts
        case .suppressed: .withoutRenewal
        case .overBudget(let time): .overBudget(until: time)
        }
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
    /// - Parameter isOwn: The authorization server was asked for it here. Otherwise, no rejection here has caused it.
    package func replaced(by generation: Int, isOwn: Bool, at now: MonotonicTime) {
        ledger.withLock {
            $0.replaced(by: generation, at: now)
            if isOwn { $0.wasAsked() } else { $0.giveBack(upTo: generation - 1) }
        }
    }

    /// A call brought no token. The authorization server may have been asked, so what was paid stays paid.
    package func failed() { ledger.withLock { $0.wasAsked() } }

    /// No call was begun because of the rejection of this generation: one was under way already, or calls have a pause.
    func causedNothing(_ generation: Int) {
        ledger.withLock { $0.giveBack(upTo: generation) }
    }

    package func rejectedAgain(_ key: RejectionLedger.Key, generation: Int, at now: MonotonicTime) {
        ledger.withLock { $0.rejectedAgain(key, generation: generation, at: now) }
    }

    package func accepted(_ key: RejectionLedger.Key, generation: Int, at now: MonotonicTime) {
        ledger.withLock { $0.accepted(key, generation: generation, at: now) }
    }

    /// The clients that may cause no renewal now, and when they may again: at most so many.
    func emptyBudgets(at now: MonotonicTime, limit: Int) -> [(client: String?, fillsAt: MonotonicTime)] {
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

/// Which path templates of a route have had a 2xx under a token generation.
final class ConfirmedTemplates: Sendable {
    private let table = TemplateTable()

    /// The newest generation under which any template has had a 2xx.
    private let newest = Atomic(Int.min)

    /// A response to this template was a 2xx. Mostly one read: to write would take the slot from the cache of other processors.
    func confirm(_ template: PathTemplate, generation: Int) {
        let entry = Self.entry(template, generation)
        if newest.load(ordering: .relaxed) < generation { newest.max(generation, ordering: .relaxed) }
        guard table[template] != entry else { return }
        table.store(entry, for: template)
    }

    func isConfirmed(_ template: PathTemplate, generation: Int) -> Bool {
        table[template] == Self.entry(template, generation)
    }

    /// Whether the token of this generation has worked anywhere.
    func hasWorked(generation: Int) -> Bool { newest.load(ordering: .relaxed) >= generation }

    private static func entry(_ template: PathTemplate, _ generation: Int) -> UInt64 {
        TemplateTable.hash(template, generation) | 1
    }
}

/// When engines were first handed a token generation for a path template, without a report of its rejection since.
///
/// The table has a fixed size, like every ``TemplateTable``: an entry that is lost to another template is an acceptance that
/// is not seen.
final class HandedOutTemplates: Sendable {
    static let capacity = TemplateTable.capacity
    /// The time has the low bits of an entry, in seconds; it wraps after half a year.
    private static let timeMask: UInt64 = 0xFF_FFFF

    private let table = TemplateTable()

    func note(_ template: PathTemplate, generation: Int, at now: MonotonicTime) {
        let tag = Self.tag(template, generation)
        guard table[template] & ~Self.timeMask != tag else { return }
        table.store(tag | Self.seconds(now), for: template)
    }

    /// - Returns: How long ago it was handed out first; nil when it was not, or when a rejection has been reported since.
    func take(_ template: PathTemplate, generation: Int, at now: MonotonicTime) -> Duration? {
        let entry = table[template]
        guard entry & ~Self.timeMask == Self.tag(template, generation) else { return nil }
        table.store(0, for: template)
        return .seconds((Self.seconds(now) &- entry) & Self.timeMask)
    }

    private static func tag(_ template: PathTemplate, _ generation: Int) -> UInt64 {
        (TemplateTable.hash(template, generation) | 1 &<< 24) & ~timeMask
    }

    private static func seconds(_ time: MonotonicTime) -> UInt64 {
        UInt64(max((time - MonotonicTime(nanoseconds: 0)).components.seconds, 0)) & timeMask
    }
}

/// One entry of 64 bits for each path template of a route, 0 where there is none. Shared by all workers, without a lock.
///
/// The table has a fixed size: a template has one slot, and the template that comes last has it. One that is in use comes back with its
/// next response. If the first one kept the slot, a client could fill the table before others come.
private struct TemplateTable: ~Copyable, Sendable {
    static let capacity = 512

    private final class Slots: Sendable {
        let values = InlineArray<512, Atomic<UInt64>> { _ in Atomic(0) }
    }

    /// Made with the first entry: of many credentials, few are in use at a time.
    private let slots = AtomicLazyReference<Slots>()

    subscript(template: PathTemplate) -> UInt64 {
        slots.load()?.values[Self.slot(of: template)].load(ordering: .relaxed) ?? 0
    }

    func store(_ entry: UInt64, for template: PathTemplate) {
        let slots = self.slots.load() ?? self.slots.storeIfNil(Slots())
        slots.values[Self.slot(of: template)].store(entry, ordering: .relaxed)
    }

    private static func slot(of template: PathTemplate) -> Int { Int(truncatingIfNeeded: template.hash &>> 55) }

    /// Differs between the generations of one template.
    static func hash(_ template: PathTemplate, _ generation: Int) -> UInt64 {
        template.hash &+ UInt64(truncatingIfNeeded: generation) &* 0x9E37_79B9_7F4A_7C15
    }
}
