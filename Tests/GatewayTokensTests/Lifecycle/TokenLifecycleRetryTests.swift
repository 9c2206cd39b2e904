import Testing

@testable import GatewayTokens

@Suite("Retries after answers that waiting alone may not fix", .timeLimit(.minutes(5)))
struct TokenLifecycleRetryTests {
    private static func sleep(_ seconds: Int) -> String { "sleep \(Duration.seconds(seconds))" }

    /// Near its end, with the renewal under way.
    private static func renewing(canAcquireAnew: Bool = false) -> LifecycleScript {
        var script = LifecycleScript.ready(lifetime: .seconds(36_000), canAcquireAnew: canAcquireAnew)
        script.pass(.seconds(32_400))
        _ = script.next()
        return script
    }

    // MARK: Suspect answers

    @Test func aSuspectAnswerIsFollowedByTwoMoreTriesWithin10Minutes() {
        var script = Self.renewing()
        var steps = [script.fail(.suspect)]
        for pause in [120, 360] {
            steps += [script.next(), script.answer()]
            script.pass(.seconds(pause))
            steps += [script.next(), script.fail(.suspect)]
        }
        #expect(
            steps == [
                "refuse [] token-temporarily-unavailable", Self.sleep(120), "use 1", "call retry",
                "refuse [] token-temporarily-unavailable", Self.sleep(360), "use 1", "call retry",
                "refuse [] reauthorization-required",
            ]
        )
        let (state, answer, sleep) = (script.state(), script.answer(), script.next())
        #expect(state == .loginRequired)
        #expect(answer == "use 1", "a live token is served")
        #expect(sleep == Self.sleep(3120), "to the end of the live token")
    }

    @Test func thenTheRefreshTokenIsTriedHourly() {
        var script = Self.renewing()
        for pause in [120, 360, 3600, 3600] {
            _ = script.fail(.suspect)
            script.pass(.seconds(pause))
            var step = script.next()
            if step.hasPrefix("expired") { step = script.next() }
            #expect(step.hasPrefix("call"))
        }
        let obtained = script.obtain(2)
        #expect(obtained == "use 2 for []")
        #expect(script.state() == .valid)
    }

    @Test func anotherAnswerEndsTheCount() {
        var script = Self.renewing()
        _ = script.fail(.suspect)
        script.pass(.seconds(120))
        _ = (script.next(), script.obtain(2))
        script.pass(.seconds(3300))
        _ = (script.next(), script.fail(.suspect))
        let sleep = script.next()
        #expect(sleep == Self.sleep(120))
    }

    @Test func withoutALiveTokenItIsTriedAgainAlthoughNoRequestWaits() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next())
        let refused = script.fail(.suspect)
        #expect(refused == "refuse [1] token-temporarily-unavailable")
        #expect(script.retryAfter() == .seconds(120))
        let sleep = script.next()
        #expect(sleep == Self.sleep(120))
        script.pass(.seconds(120))
        let call = script.next()
        #expect(call == "call retry")
    }

    @Test func theLastTryMayAcquireAnewAndComesSoon() {
        var script = Self.renewing(canAcquireAnew: true)
        var may = [script.call?.mayAcquireAnew]
        for pause in [5, 25] {
            _ = script.fail(.suspect)
            let sleep = script.next()
            #expect(sleep == Self.sleep(pause))
            script.pass(.seconds(pause))
            _ = script.next()
            may.append(script.call?.mayAcquireAnew)
        }
        #expect(may == [false, false, true])
    }

    @Test func anOperatorIsNotHeldUp() {
        var script = Self.renewing()
        for _ in 0..<3 { _ = (script.fail(.suspect), script.refresh()) }
        let failed = script.fail(.suspect)
        #expect(failed == "refuse [] reauthorization-required")
        let (isCalled, obtained) = (script.refresh(), script.obtain(2))
        #expect(isCalled && obtained == "use 2 for []")
    }

    // MARK: The end of the token

    /// Some authorities refuse to renew a token that is still good for a while.
    @Test(arguments: [TokenFailure.Class.suspect, .terminal, .transient(retryAfter: .seconds(3600))])
    func aPauseEndsWithTheTokenThatWasServed(_ class: TokenFailure.Class) {
        var script = LifecycleScript.ready(lifetime: .seconds(600))
        script.pass(.seconds(540))
        _ = (script.next(), script.fail(`class`))
        let (used, sleep) = (script.answer(), script.next())
        #expect(used == "use 1" && sleep == Self.sleep(60))
        script.pass(.seconds(60))
        let (answer, expired, call) = (script.answer(), script.next(), script.next())
        #expect(answer == "wait" && expired == "expired 1" && call == "call retry")
        let (need, obtained) = (script.need(1), script.obtain(2))
        #expect(need == "wait" && obtained == "use 2 for [1]")
    }

    @Test func theCallAtTheEndSetsAPauseLikeAnyOther() {
        var script = LifecycleScript.ready(lifetime: .seconds(600))
        script.pass(.seconds(540))
        _ = (script.next(), script.fail(.suspect))
        script.pass(.seconds(60))
        _ = (script.next(), script.next(), script.fail(.suspect))
        let (answer, sleep, need) = (script.answer(), script.next(), script.need(1))
        #expect(answer == "refuse token-temporarily-unavailable" && need == answer)
        #expect(sleep == Self.sleep(360))
    }

    @Test func theHourlyTriesAreCutShortByTheEnd() {
        var script = Self.renewing()
        for pause in [120, 360] {
            _ = script.fail(.suspect)
            script.pass(.seconds(pause))
            _ = script.next()
        }
        _ = script.fail(.suspect)
        script.pass(.seconds(3120))
        let (answer, need) = (script.answer(), script.need(1))
        #expect(answer == "wait" && need == "wait and call")
    }

    @Test(arguments: [TokenFailure.Class.suspect, .terminal, .transient(retryAfter: .seconds(300))])
    func aRejectionCutsAPauseShortThatWasSetAheadOfTheEnd(_ class: TokenFailure.Class) {
        var script = Self.renewing()
        _ = script.fail(`class`)
        let (verdict, need, call) = (script.reject(1), script.need(1), script.next())
        #expect(verdict == "dead, call" && need == "wait" && call == "call rejected")
        // The call that the rejection has caused sets a pause that holds.
        let (refused, again, sleeps) = (script.fail(`class`), script.need(2), script.next().hasPrefix("sleep"))
        #expect(refused.hasPrefix("refuse [1]") && again.hasPrefix("refuse") && sleeps)
    }

    @Test func whatNoAttemptCanMendIsNotAskedAgain() {
        var script = Self.renewing()
        _ = script.fail(.loginRequired)
        let (verdict, need, sleep) = (script.reject(1), script.need(1), script.next())
        #expect(verdict == "dead" && need == "refuse login-required" && sleep == Self.sleep(3600))
    }

    /// Those who wait are given the answer of the next call, which is made at once.
    @Test(arguments: [true, false])
    func aTokenThatGoesDuringTheCallIsAskedForAnewAtOnce(_ isRejected: Bool) {
        var script = LifecycleScript.ready(lifetime: .seconds(600))
        script.pass(.seconds(590))
        _ = script.next()
        if isRejected { _ = script.reject(1) } else { script.pass(.seconds(10)) }
        let need = script.need(1)
        if !isRejected { _ = script.next() }
        let failed = script.fail(.suspect)
        let call = script.next()
        #expect(need == "wait" && failed.hasPrefix("refuse [] ") && call == "call demand")
        let refused = script.fail(.suspect)
        #expect(refused.hasPrefix("refuse [1] "))
    }

    @Test func theCallsAtTheEndAreBounded() {
        var script = LifecycleScript.ready(lifetime: .seconds(36_000), callsPerHour: 1)
        script.pass(.seconds(32_400))
        _ = (script.next(), script.fail(.suspect))
        _ = script.reject(1)
        let storm = script.next()
        #expect(storm == "storm [] token-temporarily-unavailable")
    }

    // MARK: Failures of the configuration

    @Test func theConfigurationIsTriedAfter5And15MinutesThenHourly() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next())
        for pause in [300, 900, 3600, 3600] {
            _ = script.fail(.terminal)
            let (sleep, answer, state) = (script.next(), script.answer(), script.state())
            #expect(sleep == Self.sleep(pause))
            #expect(answer == "refuse credential-misconfigured")
            #expect(state == .failed)
            script.pass(.seconds(pause))
            let call = script.next()
            #expect(call == "call retry")
        }
        let (waits, obtained) = (script.need(2), script.obtain(1))
        #expect(waits == "wait")
        #expect(obtained == "use 1 for [2]")
    }

    @Test func afterItTheRefreshMayBeGivenUp() {
        var script = Self.renewing(canAcquireAnew: true)
        _ = script.fail(.terminal)
        script.pass(.seconds(300))
        _ = script.next()
        #expect(script.call?.mayAcquireAnew == true)
    }

    @Test func aRefusedPasswordIsNotSentAgainByItself() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next(), script.fail(.terminal, isRetried: false))
        script.pass(.seconds(86_400))
        let (sleep, refused) = (script.next(), script.need(2))
        #expect(sleep == "sleep")
        #expect(refused == "refuse credential-misconfigured")
        let isCalled = script.refresh()
        #expect(isCalled, "an operator sends it again")
    }

    @Test(arguments: [(true, true, false), (false, true, true), (false, false, false)])
    func aReloadTriesAgainWhereItSendsNoSecret(_ sendsSecrets: Bool, _ isRetried: Bool, _ calls: Bool) {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next(), script.fail(.terminal, isRetried: isRetried))
        let isDue = script.machine.reloaded(sendsSecrets: sendsSecrets)
        #expect(isDue == calls)
        let step = script.next()
        #expect(step.hasPrefix("call reload") == calls)
    }

    @Test func aReloadChangesNothingElse() {
        var script = LifecycleScript.ready()
        var isDue = script.machine.reloaded(sendsSecrets: false)
        #expect(!isDue)
        script.pass(.seconds(3240))
        _ = (script.next(), script.fail(.loginRequired))
        isDue = script.machine.reloaded(sendsSecrets: false)
        #expect(!isDue)
    }

    /// A login is asked for once; meanwhile the gateway tries, because the configuration may be the cause.
    @Test func aLoginThatMayNotBeNeededIsAskedForAndTriedWithout() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next())
        for pause in [300, 900, 3600] {
            _ = script.fail(.loginLikely)
            let (sleep, answer, state) = (script.next(), script.answer(), script.state())
            #expect(sleep == Self.sleep(pause) && answer == "refuse login-required" && state == .loginRequired)
            script.pass(.seconds(pause))
            _ = script.next()
        }
        let obtained = script.obtain(1)
        #expect(obtained == "use 1 for []")
    }

    // MARK: Locks

    @Test(arguments: [TokenFailure.Class.suspect, .terminal])
    func aLockedCredentialIsNotTried(_ class: TokenFailure.Class) {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next(), script.fail(`class`), script.lock())
        script.pass(.seconds(7200))
        let sleep = script.next()
        #expect(sleep == "sleep")
    }
}
