/// How many calls the subjects of one credential may cause together: the limit of one credential times `at_most`.
///
/// Renewals ahead of an expiration have their own budget, so that invented subjects do not stop the renewal of real
/// ones.
package struct SubjectCallBudget: Sendable {
    package enum SpendResult: Hashable, Sendable {
        case granted
        /// `isNews`: the limit was not reported since calls were last available.
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
