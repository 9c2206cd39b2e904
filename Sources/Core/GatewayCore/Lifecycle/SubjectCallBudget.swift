/// How many calls the subjects of one credential may cause together: as many as so many credentials may make by themselves.
///
/// Renewals ahead of an end have a budget of their own: whoever invents subjects keeps nobody's token from being renewed.
package struct SubjectCallBudget: Sendable {
    package enum SpendResult: Hashable, Sendable {
        case granted
        /// `isNews`: nobody was told since there were calls to spare.
        case spent(isNews: Bool)
    }

    private struct Purse {
        var calls: CallBudget
        var isSaid = false

        mutating func spend(at now: MonotonicTime) -> SpendResult {
            guard calls.spend(at: now) else {
                defer { isSaid = true }
                return .spent(isNews: !isSaid)
            }
            if calls.isHalfFree { isSaid = false }
            return .granted
        }
    }

    private var newTokens: Purse
    private var renewals: Purse

    package init(members: Int) {
        newTokens = Purse(calls: CallBudget(perHour: CallBudget.usual, members: members))
        renewals = newTokens
    }

    package mutating func spend(for trigger: TokenEvent.Trigger, at now: MonotonicTime) -> SpendResult {
        trigger == .aheadOfExpiry ? renewals.spend(at: now) : newTokens.spend(at: now)
    }

    /// What the calls are for lives so long.
    package mutating func expect(_ token: TokenSet, renewedBy policy: RenewalPolicy) {
        newTokens.calls.expect(token, renewedBy: policy)
        renewals.calls.expect(token, renewedBy: policy)
    }
}
