import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Retry policy", .timeLimit(.minutes(5)))
struct RetryPolicyTests {
    private func attempt(
        idempotent: Bool = true,
        held: Bool = true,
        responded: Bool = false,
        replayed: Bool = false,
        reconnected: Bool = false,
        reused: Bool = true
    ) -> RetryPolicy.Attempt {
        var attempt = RetryPolicy.Attempt(isIdempotent: idempotent, isHeld: held)
        attempt.responseHasBegun = responded
        attempt.wasReplayed = replayed
        attempt.wasReconnected = reconnected
        attempt.isOnReusedConnection = reused
        return attempt
    }

    /// All 128 combinations beside the sentence of RFC 9110 section 9.2.2.
    @Test func aLossIsRepeatedOnlyWhereTheRequestCannotHaveBeenActedUponOrMayBeRepeated() {
        var repeated = 0
        for bits in 0..<128 {
            let has = { (bit: Int) in bits & 1 << bit != 0 }
            let attempt = attempt(
                idempotent: has(0),
                held: has(1),
                responded: has(2),
                reconnected: has(3),
                reused: has(4)
            )
            let loss = ConnectionLoss(hasAnswered: has(5), isUnprocessed: has(6))
            let isHarmless = !has(2) && (has(6) || has(0) && has(1))
            let isOnlyStale = has(4) && !has(3) && !has(5)
            #expect(RetryPolicy.sendsAgain(attempt, after: loss) == (isHarmless && isOnlyStale), "\(attempt) \(loss)")
            repeated += isHarmless && isOnlyStale ? 1 : 0
        }
        #expect(repeated == 5)
    }

    /// The upstream says that nothing was done (RFC 9113 section 8.7), so the method does not matter.
    @Test(arguments: [0, 1, 2, 3, 4], [true, false])
    func whatWasRefusedIsRepeatedThreeTimes(times: Int, isHeld: Bool) {
        var attempt = attempt(idempotent: false, held: isHeld, reconnected: true, reused: false)
        attempt.timesRefused = times
        let loss = ConnectionLoss(hasAnswered: false, isUnprocessed: false, isRefused: true)
        #expect(RetryPolicy.sendsAgain(attempt, after: loss) == (isHeld && times < 3))
        attempt.isLast = true
        #expect(!RetryPolicy.sendsAgain(attempt, after: loss))
    }

    private typealias Rejected = (ResponseFacts.Rejection, held: Bool, replayed: Bool, RetryPolicy.RetryDecision)

    private static let rejections: [Rejected] = [
        (.none, true, false, .pass(.none)),
        (.none, false, true, .pass(.none)),
        (.token(isRenewable: true), true, false, .sendAgain),
        (.token(isRenewable: true), false, false, .pass(.rejectedNotHeld)),
        (.token(isRenewable: true), true, true, .pass(.rejectedAgain)),
        (.token(isRenewable: true), false, true, .pass(.rejectedAgain)),
        (.token(isRenewable: false), true, false, .pass(.rejected)),
        (.token(isRenewable: false), false, false, .pass(.rejected)),
        (.token(isRenewable: false), true, true, .pass(.rejectedAgain)),
        (.token(isRenewable: false), false, true, .pass(.rejectedAgain)),
        (.tokenNotSentAgain, true, false, .pass(.rejectedNotSafe)),
        (.tokenNotSentAgain, false, false, .pass(.rejectedNotSafe)),
        (.tokenNotSentAgain, true, true, .pass(.rejectedAgain)),
        (.tokenWithoutRenewal, true, false, .pass(.notRenewed)),
        (.tokenWithoutRenewal, false, false, .pass(.notRenewed)),
        // The request was sent again: `retried=0` would not be true.
        (.tokenWithoutRenewal, true, true, .pass(.rejectedAgain)),
        (.tokenWithoutRenewal, false, true, .pass(.rejectedAgain)),
        (.tokenOverBudget(fillsAfter: .seconds(9)), true, false, .pass(.overBudget(fillsAfter: .seconds(9)))),
        (.tokenOverBudget(fillsAfter: .seconds(9)), true, true, .pass(.rejectedAgain)),
        (.challenge(isAnswered: true), true, false, .sendAgain),
        (.challenge(isAnswered: true), false, false, .pass(.challengedNotHeld)),
        (.challenge(isAnswered: true), true, true, .pass(.none)),
        (.challenge(isAnswered: true), false, true, .pass(.none)),
        (.challenge(isAnswered: false), true, false, .pass(.none)),
        (.challenge(isAnswered: false), false, true, .pass(.none)),
        (.wrongDate(seconds: 3600), true, false, .pass(.wrongDate(seconds: 3600))),
        (.otherSignature, true, false, .sendAgain),
        (.otherSignature, true, true, .sendAgain),
        (.otherSignature, false, false, .pass(.challengedNotHeld)),
    ]

    @Test(arguments: rejections)
    func aRejectionIsFollowedByOneMoreTry(
        _ rejection: ResponseFacts.Rejection,
        held: Bool,
        replayed: Bool,
        _ expected: RetryPolicy.RetryDecision
    ) {
        #expect(RetryPolicy.decision(for: attempt(held: held, replayed: replayed), after: rejection) == expected)
    }

    @Test func behindAResponseThatHasBegunNothingIsSentAgain() {
        let begun = attempt(responded: true)
        #expect(RetryPolicy.decision(for: begun, after: .token(isRenewable: true)) == .pass(.rejectedNotHeld))
        #expect(RetryPolicy.decision(for: begun, after: .challenge(isAnswered: true)) == .pass(.challengedNotHeld))
    }

    @Test(arguments: 0...4)
    func aRequestIsSignedAnewThreeTimes(times: Int) {
        var attempt = attempt(replayed: times > 0)
        attempt.timesSignedAnew = times
        #expect(RetryPolicy.decision(for: attempt, after: .otherSignature) == (times < 3 ? .sendAgain : .pass(.none)))
        attempt.isLast = true
        #expect(RetryPolicy.decision(for: attempt, after: .otherSignature) == .pass(.none))
    }

    private static let outcomes: [(RejectionOutcome, tellsSource: Bool, String?)] = [
        (.none, false, nil),
        (.rejected, true, nil),
        (.rejectedNotHeld, true, "generation=7; retried=0; reason=\"request body not held\""),
        (.rejectedNotSafe, true, "generation=7; retried=0; reason=\"only GET and HEAD are sent again\""),
        (.wrongDate(seconds: 3600), false, nil),
        (.challengedNotHeld, false, "retried=0; reason=\"request body not held\""),
        (.notRenewed, false, "generation=7; retried=0; reason=\"rejection does not count\""),
        (
            .overBudget(fillsAfter: .milliseconds(239_001)), false,
            "generation=7; retried=0; reason=\"renewal budget is empty for 240 s\""
        ),
        (.rejectedAgain, false, "generation=7; fresh; retried=1"),
        (.notReplaced(.loginRequired), false, "rejected; not retried: login-required"),
    ]

    @Test(arguments: outcomes)
    func theOutcomeSaysWhatBecameOfTheToken(_ outcome: RejectionOutcome, tellsSource: Bool, _ value: String?) {
        #expect(outcome.fieldValue(generation: 7) == value)
        #expect(outcome.tellsSource == tellsSource)
    }

    @Test(arguments: [(true, true, true), (true, false, true), (false, true, true), (false, false, false)])
    func contentIsHeldWhereASecondTryMayCome(_ isIdempotent: Bool, _ isRenewable: Bool, _ holds: Bool) {
        #expect(HoldPolicy.holds(isIdempotent: isIdempotent, isRenewable: isRenewable) == holds)
    }

    @Test(arguments: [(0, 0, 0, true), (10, 0, 10, true), (10, 1, 10, false), (5, 5, 10, true), (1, 10, 10, false)])
    func whatIsHeldHasALimit(_ count: Int, _ held: Int, _ limit: Int, _ fits: Bool) {
        #expect(HoldPolicy.fits(count, behind: held, limit: limit) == fits)
    }
}
