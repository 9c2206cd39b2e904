import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("Token lifecycle: other gateways", .timeLimit(.minutes(1)))
struct TokenLifecycleFleetTests {
    /// Postpones the call under way.
    private func postpone(_ script: inout LifecycleScript, by time: Duration) {
        guard let call = script.call else { return }
        script.machine.postpone(call, until: script.now.monotonic + time)
    }

    @Test func aPostponedCallComesAgainAndIsTheSameOne() {
        var script = LifecycleScript.started()
        _ = script.need(1)
        let first = script.next()
        postpone(&script, by: .seconds(1))
        let (pause, need, isPostponed) = (script.next(), script.need(2), script.machine.isPostponed)
        script.pass(.seconds(1))
        let (again, under) = (script.next(), script.next())
        let obtained = script.obtain(1)
        #expect(first == "call demand")
        #expect(pause == "sleep 1.0 seconds")
        #expect(need == "wait")
        #expect(isPostponed)
        #expect(again == "call demand")
        #expect(under == "sleep")
        #expect(obtained == "use 1 for [1, 2]")
    }

    @Test func theLiveTokenIsUsedMeanwhileAndItsEndIsSaid() {
        var script = LifecycleScript.ready(lifetime: .seconds(600))
        script.pass(.seconds(560))
        let call = script.next()
        postpone(&script, by: .seconds(100))
        let (used, pause) = (script.answer(), script.next())
        script.pass(.seconds(40))
        let (expired, rest, waits) = (script.next(), script.next(), script.need(1))
        #expect(call == "call ahead_of_expiry")
        #expect(used == "use 1")
        #expect(pause == "sleep 40.0 seconds")
        #expect(expired == "expired 1")
        #expect(rest == "sleep 60.0 seconds")
        #expect(waits == "wait")
    }

    @Test func theTokenOfTheOtherGatewayEndsTheWait() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next())
        postpone(&script, by: .seconds(1))
        let adopted = script.bring(5)
        let (used, late) = (script.need(2), script.obtain(6))
        #expect(adopted == "use 5 for [1]")
        #expect(used == "use 5")
        #expect(late == "ignored")
    }

    @Test func askingAgainIsNoFurtherCallOfTheBudget() {
        var script = LifecycleScript.started(callsPerHour: 2)
        _ = (script.need(1), script.next())
        for _ in 1...100 {
            postpone(&script, by: .seconds(1))
            script.pass(.seconds(1))
            let step = script.next()
            #expect(step == "call demand")
        }
    }

    @Test func aCallThatIsNoLongerAwaitedIsNotPostponed() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next())
        script.machine.clear()
        postpone(&script, by: .seconds(1))
        let isPostponed = script.machine.isPostponed
        #expect(!isPostponed)
    }

    @Test func whatFailedForTheStoreIsTriedWhenTheStoreWorksAgain() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next())
        let failure = TokenFailure(.transient(retryAfter: nil), problem: GatewayProblem(.storeUnavailable, "gone"))
        guard let call = script.call else { return }
        _ = script.machine.failed(failure, by: call, at: script.now.monotonic, jitter: 1)
        let refused = script.need(2)
        let (isDue, again) = (script.machine.storeReturned(), script.machine.storeReturned())
        let retry = script.next()
        #expect(refused == "refuse store-unavailable")
        #expect(isDue && !again)
        #expect(retry == "call retry")
    }

    private let refusal = TokenFailure(
        .loginRequired,
        problem: GatewayProblem(.reauthorizationRequired, "Log in.")
    )

    private func refuse(_ script: inout LifecycleScript) -> [Int]? {
        script.machine.stop(forRefusal: refusal, at: script.now.monotonic)?.waiters
    }

    @Test func aRefusalThatAnotherGatewayGotEndsTheWait() {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next())
        postpone(&script, by: .seconds(1))
        let (refused, again) = (refuse(&script), refuse(&script))
        script.pass(.seconds(86_400))
        let (need, next, state) = (script.need(2), script.next(), script.state())
        #expect(refused == [1])
        #expect(again == nil, "a login is asked for already")
        #expect(need == "refuse reauthorization-required")
        #expect(next == "sleep")
        #expect(state == .loginRequired)
    }

    @Test func aLiveTokenIsUsedAfterARefusal() {
        var script = LifecycleScript.ready()
        let refused = refuse(&script)
        let (used, state) = (script.answer(), script.state())
        #expect(refused == [])
        #expect(used == "use 1")
        #expect(state == .loginRequired)
    }

    @Test func whatAnOperatorCommandsIsNotStoppedByARefusal() {
        var script = LifecycleScript.ready()
        script.call = script.machine.refresh()
        let underWay = refuse(&script)
        postpone(&script, by: .seconds(1))
        let postponed = refuse(&script)
        script.pass(.seconds(1))
        let again = script.next()
        script.machine.beginClear()
        let suspended = refuse(&script)
        #expect(underWay == nil && postponed == nil && suspended == nil)
        #expect(again == "call operator")
    }
}
