import GatewayEvents
import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("Token lifecycle: what", .timeLimit(.minutes(5)))
struct TokenLifecycleTests {
    // MARK: Single flight

    @Test func theFirstRequestCausesTheCallAndAllOthersWaitForIt() {
        var script = LifecycleScript.started()
        let needs = [script.need(1), script.need(2), script.need(3)]
        #expect(needs == ["wait and call", "wait", "wait"])
        let steps = [script.next(), script.next()]
        #expect(steps == ["call demand", "sleep"])
        let (late, obtained, used) = (script.need(4), script.obtain(1), script.need(5))
        #expect(late == "wait")
        #expect(obtained == "use 1 for [1, 2, 3, 4]")
        #expect(used == "use 1")
    }

    @Test func requestsThatCameBeforeTheStoreWasReadAreServedFromIt() {
        var script = LifecycleScript()
        let (need, call) = (script.need(1), script.next())
        #expect(need == "wait")
        #expect(call == "call startup")
        let loaded = script.obtain(41)
        #expect(loaded == "use 41 for [1]")
    }

    @Test func requestsThatCameBeforeAnEmptyStoreWasReadCauseACall() {
        var script = LifecycleScript()
        _ = (script.need(1), script.next())
        script.findNothing()
        let call = script.next()
        #expect(call == "call demand")
    }

    @Test func aDeadStoredTokenIsNotUsedAndTheWaitersCauseACall() {
        var script = LifecycleScript()
        _ = (script.need(1), script.next())
        let loaded = script.obtain(41, isRejected: true)
        #expect(loaded == "dead")
        let call = script.next()
        #expect(call == "call demand")
        let obtained = script.obtain(42)
        #expect(obtained == "use 42 for [1]")
    }

    @Test func aRenewalThatWasCutOffIsTakenUpAtOnceWhileTheTokenIsUsed() {
        var script = LifecycleScript()
        _ = script.next()
        let loaded = script.obtain(41, isRenewalDue: true)
        let (call, used) = (script.next(), script.answer())
        #expect(loaded == "use 41 for []")
        #expect(call == "call startup")
        #expect(used == "use 41")
    }

    @Test func aWaiterThatLeavesIsForgottenAndTheCallGoesOn() {
        var script = LifecycleScript.started()
        _ = (script.need(10), script.need(20), script.next())
        let (left, again) = (script.withdraw(1), script.withdraw(1))
        #expect(left == 10)
        #expect(again == nil)
        let obtained = script.obtain(1)
        #expect(obtained == "use 1 for [20]")
        let late = script.withdraw(2)
        #expect(late == nil)
    }

    @Test func theNumberOfWaitersIsBounded() {
        var script = LifecycleScript.started(maximumWaiters: 2)
        let needs = [script.need(1), script.need(2), script.need(3)]
        #expect(needs == ["wait and call", "wait", "refuse overloaded"])
    }

    // MARK: Generations

    @Test func aThousandLateRejectionsCauseOneRenewal() {
        var script = LifecycleScript.ready()
        let first = script.reject(1)
        #expect(first == "dead, call")
        let call = script.next()
        #expect(call == "call rejected")
        for _ in 0..<500 {
            let verdict = script.reject(1)
            #expect(verdict == "known")
        }
        _ = script.obtain(2)
        for _ in 0..<500 {
            let verdict = script.reject(1)
            #expect(verdict == "late")
        }
        let (used, quiet) = (script.answer(), script.next())
        #expect(used == "use 2")
        #expect(quiet == "sleep \(Duration.seconds(3240))")
    }

    @Test func aRejectedTokenIsNotUsedWhileItIsReplaced() {
        var script = LifecycleScript.ready()
        _ = (script.reject(1), script.next())
        let (answer, need, state) = (script.answer(), script.need(1), script.state())
        #expect(answer == "wait")
        #expect(need == "wait")
        #expect(state == .rejected)
        #expect(script.machine.servable == nil)
    }

    @Test func aRejectionDuringARenewalCausesNoSecondCall() {
        var script = LifecycleScript.ready()
        script.pass(.seconds(3240))
        _ = script.next()
        let (verdict, next) = (script.reject(1), script.next())
        #expect(verdict == "dead")
        #expect(next == "sleep")
    }

    @Test func aRejectionWithoutAnyTokenIsLate() {
        var script = LifecycleScript.started()
        let verdict = script.reject(1)
        #expect(verdict == "late")
    }

    @Test func tokensThatAreRejectedAgainAndAgainAreAStorm() {
        var script = LifecycleScript.ready()
        for generation in 2...61 {
            _ = script.reject(generation - 1)
            let call = script.next()
            #expect(call == "call rejected")
            _ = script.obtain(generation)
        }
        _ = script.reject(61)
        _ = script.need(1)
        let (storm, quiet, answer) = (script.next(), script.next(), script.answer())
        #expect(storm == "storm [1] token-temporarily-unavailable")
        #expect(quiet == "sleep")
        #expect(answer == "refuse token-temporarily-unavailable")
        #expect(script.retryAfter() == .seconds(60))
        script.pass(.seconds(60))
        let (need, call) = (script.need(2), script.next())
        #expect(need == "wait and call")
        #expect(call == "call demand", "one a minute")
    }

    @Test func aRefreshByHandThatFailedIsNotRepeatedWhereOnlyAPersonRenews() {
        var script = LifecycleScript.ready(isRenewable: false)
        _ = script.refresh()
        _ = script.fail()
        script.pass(.seconds(60))
        let (sleep, answer, state) = (script.next(), script.answer(), script.state())
        #expect(sleep == "sleep \(Duration.seconds(2940))")
        #expect((answer, state) == ("use 1", .valid))
    }

    @Test func theFirstCallIsFreeAndEveryOtherOfItsTriggerIsNot() {
        var script = LifecycleScript.started(callsPerHour: 1, begunBy: .demand)
        _ = script.need(1)
        let first = script.next()
        #expect(first == "call demand")
        _ = script.fail()
        script.pass(.seconds(60))
        _ = script.need(2)
        let second = script.next()
        #expect(second == "storm [2] token-temporarily-unavailable")
    }

    @Test func shortLivedTokensThatAreRenewedOnScheduleAreNoStorm() {
        var script = LifecycleScript.ready(lifetime: .seconds(5))
        for generation in 2...2000 {
            script.pass(.milliseconds(2500))
            let call = script.next()
            #expect(call == "call ahead_of_expiry")
            _ = script.obtain(generation, lifetime: .seconds(5))
        }
    }

    // MARK: Failure classes

    @Test func aPassingFailureRefusesTheWaitersAndPausesWithRetryAfter() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next())
        let failed = script.fail(.transient(retryAfter: .seconds(7)))
        #expect(failed == "refuse [1] token-temporarily-unavailable")
        #expect(script.retryAfter() == .seconds(7))
        script.pass(.seconds(6))
        let early = script.need(2)
        #expect(early == "refuse token-temporarily-unavailable")
        script.pass(.seconds(1))
        let (answer, need, call) = (script.answer(), script.need(3), script.next())
        #expect(answer == "wait")
        #expect(need == "wait and call")
        #expect(call == "call demand")
    }

    @Test func aFailureWithoutATokenIsNotRepeatedUntilSomebodyAsks() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next(), script.fail())
        script.pass(.seconds(3600))
        let step = script.next()
        #expect(step == "sleep")
    }

    @Test func aLiveTokenIsServedWhileTheAuthorityFailsAndTheCallIsRepeated() {
        var script = LifecycleScript.ready()
        script.pass(.seconds(3240))
        _ = script.next()
        let failed = script.fail(jitter: 1)
        #expect(failed == "refuse [] token-temporarily-unavailable")
        let (used, state, sleep) = (script.answer(), script.state(), script.next())
        #expect(used == "use 1")
        #expect(state == .valid)
        #expect(sleep == "sleep \(Duration.seconds(2))")
        script.pass(.seconds(2))
        let again = script.next()
        #expect(again == "call ahead_of_expiry")
        _ = script.fail(jitter: 1)
        let longer = script.next()
        #expect(longer == "sleep \(Duration.seconds(4))", "the pause doubles")
    }

    @Test func withFailOnAuthorityFailureALiveTokenIsHeldBackUntilARenewalSucceeds() {
        var script = LifecycleScript.ready(policy: RenewalPolicy(onAuthorityFailure: .fail))
        script.pass(.seconds(3240))
        _ = (script.next(), script.fail())
        let held = script.answer()
        #expect(held == "refuse token-temporarily-unavailable")
        script.pass(.seconds(1))
        _ = script.next()
        let still = script.answer()
        #expect(still == "wait")
        _ = script.obtain(2)
        let used = script.answer()
        #expect(used == "use 2")
    }

    @Test func aTokenReceivedResetsThePause() {
        var script = LifecycleScript.ready()
        script.pass(.seconds(3240))
        for _ in 0..<4 {
            _ = script.next()
            _ = script.fail(jitter: 0)
            script.pass(.seconds(1))
        }
        _ = (script.next(), script.obtain(2))
        script.pass(.seconds(3240))
        _ = (script.next(), script.fail(jitter: 1))
        let sleep = script.next()
        #expect(sleep == "sleep \(Duration.seconds(2))")
    }

    @Test(arguments: [TokenFailure.Class.terminal, .loginRequired])
    func afterAFinalFailureNoFurtherCallIsMade(_ class: TokenFailure.Class) {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next(), script.fail(`class`, isRetried: false))
        script.pass(.seconds(86_400))
        let (need, step) = (script.need(2), script.next())
        #expect(need.hasPrefix("refuse"))
        #expect(step == "sleep")
        #expect(script.state() == (`class` == .terminal ? .failed : .loginRequired))
        let isCalled = script.refresh()
        #expect(isCalled, "an operator may try")
        let obtained = script.obtain(1)
        #expect(obtained == "use 1 for []")
    }

    @Test func afterAFinalFailureALiveTokenIsServedToItsEnd() {
        var script = LifecycleScript.ready()
        script.pass(.seconds(3240))
        _ = (script.next(), script.fail(.terminal, isRetried: false))
        let (used, sleep) = (script.answer(), script.next())
        #expect(used == "use 1")
        #expect(sleep == "sleep \(Duration.seconds(360))")
        script.pass(.seconds(360))
        let (expired, answer, quiet) = (script.next(), script.answer(), script.next())
        #expect(expired == "expired 1")
        #expect(answer == "refuse credential-misconfigured")
        #expect(quiet == "sleep")
    }

    @Test func aFailureThatClearsTheTokenEndsItsUse() {
        var script = LifecycleScript.ready()
        script.pass(.seconds(3240))
        _ = (script.next(), script.fail(.loginRequired, clearsToken: true))
        let answer = script.answer()
        #expect(answer == "refuse login-required")
    }

    // MARK: Operators

    @Test func refreshCallsAtOnceWhateverThePhase() {
        var script = LifecycleScript.ready()
        let isCalled = script.refresh()
        #expect(isCalled)
        let (used, twice, next) = (script.answer(), script.refresh(), script.next())
        #expect(used == "use 1")
        #expect(!twice, "one call at a time")
        #expect(next == "sleep")
        let obtained = script.obtain(2)
        #expect(obtained == "use 2 for []")
    }

    @Test func clearForgetsTheTokenAndIgnoresTheCallUnderWay() {
        var script = LifecycleScript.ready()
        script.pass(.seconds(3240))
        _ = script.next()
        script.machine.clear()
        let (late, answer, state) = (script.obtain(2), script.answer(), script.state())
        #expect(late == "ignored")
        #expect(answer == "wait")
        #expect(state == .empty)
        #expect(script.machine.generation == 1, "numbers are not given twice")
    }

    @Test func requestsWaitForTheTurnOfAClear() {
        var script = LifecycleScript.ready()
        script.machine.beginClear()
        let (need, before) = (script.need(1), script.next())
        #expect(need == "wait")
        #expect(before == "sleep")
        #expect(script.machine.servable == nil)
        script.machine.clear()
        let (call, obtained) = (script.next(), script.obtain(2))
        #expect(call == "call demand")
        #expect(obtained == "use 2 for [1]")
        #expect(script.machine.withdrawals == 2)
    }

    @Test func lockStopsInjectingAndCallingUntilUnlock() {
        var script = LifecycleScript.ready()
        let locked = script.lock()
        #expect(locked == "refuse [] locked")
        script.pass(.seconds(3240))
        let (answer, need, next) = (script.answer(), script.need(1), script.next())
        #expect(answer == "refuse locked")
        #expect(need == "refuse locked")
        #expect(next == "sleep")
        #expect(script.machine.servable == nil)
        script.machine.unlock()
        let (used, call) = (script.answer(), script.next())
        #expect(used == "use 1")
        #expect(call == "call ahead_of_expiry")
    }

    @Test func lockRefusesWhoWaits() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next())
        let locked = script.lock()
        #expect(locked == "refuse [1] locked")
        let late = script.obtain(1)
        #expect(late == "use 1 for []", "the token is kept")
        let answer = script.answer()
        #expect(answer == "refuse locked", "and not used")
    }

    @Test func anImportedTokenTakesThePlaceOfAnyOther() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next(), script.fail(.loginRequired))
        let imported = script.bring(1)
        #expect(imported == "use 1 for []")
        let used = script.answer()
        #expect(used == "use 1")
    }

    @Test func whoAsksBehindTheStopIsNotToldToTryAgain() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next(), script.fail())
        let paused = script.answer()
        #expect(paused == "refuse token-temporarily-unavailable")
        _ = script.machine.stop()
        let (answer, late) = (script.answer(), script.need(2))
        #expect(answer == "refuse draining" && late == "refuse draining")
    }

    @Test func whoWaitsWhenTheGatewayStopsIsTold() {
        var script = LifecycleScript.started()
        _ = script.need(1)
        let (waiters, problem) = script.machine.stop()
        #expect(waiters == [1])
        #expect(problem.kind == .draining)
        let late = script.need(2)
        #expect(late == "refuse draining")
    }
}
