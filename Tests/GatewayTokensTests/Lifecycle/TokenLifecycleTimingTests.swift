import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("Token lifecycle: when", .timeLimit(.minutes(5)))
struct TokenLifecycleTimingTests {
    @Test(
        "renewal begins at a tenth of the lifetime, at least a minute and at most half of it before the end",
        arguments: [
            (lifetime: Duration.seconds(3600), ahead: Duration.seconds(360)),
            (.seconds(86_400), .seconds(8640)),
            (.seconds(600), .seconds(60)),
            (.seconds(300), .seconds(60)),
            (.seconds(120), .seconds(60)),
            (.seconds(100), .seconds(50)),
            (.seconds(5), .milliseconds(2500)),
            (.zero, .zero),
        ]
    )
    func aheadOfTheEnd(lifetime: Duration, ahead: Duration) {
        #expect(RenewalPolicy().ahead(of: lifetime) == ahead)
    }

    @Test func theShareAndTheLeastAreTheConfigurations() {
        let policy = RenewalPolicy(aheadPercent: 25, atLeast: .seconds(10))
        #expect(policy.ahead(of: .seconds(3600)) == .seconds(900))
        #expect(policy.ahead(of: .seconds(36)) == .seconds(10))
    }

    @Test(
        "the pause doubles up to a minute, with full jitter, and honours Retry-After",
        arguments: [
            (failures: 1, retryAfter: Int?.none, jitter: 0.0, seconds: 1),
            (1, nil, 1, 2), (2, nil, 1, 4), (3, nil, 1, 8), (5, nil, 1, 32), (6, nil, 1, 60), (500, nil, 1, 60),
            (500, nil, 0, 1), (1, 30, 0, 30), (6, 30, 1, 60), (1, 7200, 0, 3600), (1, -5, 0, 1), (0, nil, 0, 1),
            (1, nil, 17, 2), (1, nil, -3, 1),
        ]
    )
    func pause(failures: Int, retryAfter: Int?, jitter: Double, seconds: Int) {
        let delay = BackOff.delay(
            afterFailures: failures,
            retryAfter: retryAfter.map { .seconds($0) },
            jitter: jitter
        )
        #expect(delay == .seconds(seconds))
    }

    @Test func jitterOnlyBringsTheRenewalForward() {
        var script = LifecycleScript()
        _ = script.next()
        _ = script.obtain(1, jitter: 1)
        let sleep = script.next()
        #expect(sleep == "sleep \(Duration.seconds(3600 - 360 - 36))")
    }

    @Test func aTokenIsRenewedWhenItsTimeHasComeAndUsedMeanwhile() {
        var script = LifecycleScript.ready()
        let before = script.next()
        #expect(before == "sleep \(Duration.seconds(3240))")
        script.pass(.seconds(3240))
        let due = script.next()
        #expect(due == "call ahead_of_expiry")
        let (used, state) = (script.need(1), script.state())
        #expect(used == "use 1")
        #expect(state == .renewing)
        let obtained = script.obtain(2)
        #expect(obtained == "use 2 for []")
    }

    @Test func aTokenThatEndsDuringItsRenewalMakesRequestsWaitForThatVeryCall() {
        var script = LifecycleScript.ready()
        script.pass(.seconds(3240))
        _ = script.next()
        script.pass(.seconds(360))
        let (need, expired, next) = (script.need(1), script.next(), script.next())
        #expect(need == "wait")
        #expect(expired == "expired 1")
        #expect(next == "sleep", "the call that is under way is the one")
        let obtained = script.obtain(2)
        #expect(obtained == "use 2 for [1]")
    }

    @Test func aShortLivedTokenIsUsedAndCausesNoHotLoop() {
        var script = LifecycleScript.ready(lifetime: .seconds(2))
        let (used, sleep) = (script.answer(), script.next())
        #expect(used == "use 1")
        #expect(sleep == "sleep \(Duration.seconds(1))")
    }

    @Test(
        "an end beyond what the clock can count is no reason to renew",
        arguments: [(10, "5138-11-16T09:46:39Z"), (50, "3000-01-01T00:00:00Z")]
    )
    func aFarEnd(aheadPercent: Int, end: String) throws {
        var script = LifecycleScript(policy: RenewalPolicy(aheadPercent: aheadPercent))
        _ = script.next()
        let obtained = script.obtain(1, until: try #require(UnixTime(rfc3339: end)))
        #expect(obtained == "use 1 for []")
        let (sleep, used) = (script.next(), script.answer())
        #expect(sleep.hasPrefix("sleep "))
        #expect(used == "use 1")
    }

    @Test func aTokenWithoutAStatedEndIsUsedUntilItIsRejected() {
        var script = LifecycleScript.ready(lifetime: nil)
        script.pass(.seconds(1 << 30))
        let (used, sleep) = (script.answer(), script.next())
        #expect(used == "use 1")
        #expect(sleep == "sleep")
        let rejected = script.reject(1)
        #expect(rejected == "dead, call")
    }

    @Test(arguments: [Duration.seconds(3600), .seconds(-3600)])
    func aJumpOfTheWallClockChangesNothing(by jump: Duration) {
        var script = LifecycleScript.ready()
        script.now.wall = script.now.wall + jump
        let (used, sleep) = (script.answer(), script.next())
        #expect(used == "use 1")
        #expect(sleep == "sleep \(Duration.seconds(3240))")
    }

    @Test func aClockThatWasSetBackDoesNotProlongAStoredToken() {
        var script = LifecycleScript()
        _ = script.next()
        _ = script.obtain(7, age: .seconds(-86_400))
        let used = script.answer()
        #expect(used == "use 7")
        script.pass(.seconds(3600))
        let after = script.answer()
        #expect(after == "wait")
    }

    @Test func aStoredTokenLivesOnForWhatIsLeftOfItsLife() {
        var script = LifecycleScript()
        _ = script.next()
        let loaded = script.obtain(7, age: .seconds(600))
        #expect(loaded == "use 7 for []")
        let sleep = script.next()
        #expect(sleep == "sleep \(Duration.seconds(2640))")
    }

    @Test func aMachineThatWasAsleepRenewsOnceOnWake() {
        var script = LifecycleScript.ready()
        script.pass(.seconds(8 * 3600))
        let (first, second, third) = (script.next(), script.next(), script.next())
        #expect([first, second, third] == ["expired 1", "call ahead_of_expiry", "sleep"])
        let obtained = script.obtain(2)
        #expect(obtained == "use 2 for []")
        let after = script.next()
        #expect(after == "sleep \(Duration.seconds(3240))")
    }

    @Test func aTokenThatNobodyCanRenewIsAnnouncedAndThenEnds() {
        var script = LifecycleScript.ready(isRenewable: false)
        let sleep = script.next()
        #expect(sleep == "sleep \(Duration.seconds(3000))")
        script.pass(.seconds(3000))
        let (soon, quiet) = (script.next(), script.next())
        #expect(soon == "expiring soon 1")
        #expect(quiet == "sleep \(Duration.seconds(600))")
        script.pass(.seconds(600))
        let (expired, call) = (script.next(), script.next())
        #expect(expired == "expired 1")
        #expect(call == "call ahead_of_expiry", "the grant is asked what a person has to do")
        _ = script.fail(.loginRequired)
        let (answer, state, after) = (script.answer(), script.state(), script.next())
        #expect(answer == "refuse login-required")
        #expect(state == .expired)
        #expect(after == "sleep")
    }
}
