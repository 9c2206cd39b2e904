import Testing

@testable import GatewayTokens

/// An imported token that has to be refreshed before it is used.
@Suite("Token lifecycle: import", .timeLimit(.minutes(5)))
struct TokenLifecycleImportTests {
    private static let passing = TokenFailure.Class.transient(retryAfter: nil)

    @Test func theEarlierTokenServesUntilTheImportedOneHasWorked() {
        var script = LifecycleScript.ready()
        let hasBegun = script.beginImport(2)
        #expect(hasBegun)
        let (during, idle) = (script.answer(), script.next())
        #expect(during == "use 1")
        #expect(idle == "sleep")
        let obtained = script.obtain(3)
        #expect(obtained == "use 3 for []")
    }

    @Test func theGenerationOfTheImportedTokenIsNotGivenAgain() {
        var script = LifecycleScript.ready()
        _ = script.beginImport(2)
        #expect(script.machine.generation == 2)
        let outcome = script.failImport(.terminal, of: 2, replacing: 1)
        #expect(outcome == "refused, use 1 for []")
        #expect(script.machine.generation == 2)
    }

    @Test(arguments: [TokenFailure.Class.terminal, .loginRequired])
    func aRefusalLeavesTheEarlierTokenWithItsTimes(_ class: TokenFailure.Class) {
        var script = LifecycleScript.ready()
        script.pass(.seconds(3000))
        _ = script.beginImport(2)
        let outcome = script.failImport(`class`, of: 2, replacing: 1)
        let (answer, state, sleep) = (script.answer(), script.state(), script.next())
        #expect(outcome == "refused, use 1 for []")
        #expect(answer == "use 1")
        #expect(state == .valid)
        #expect(sleep == "sleep \(Duration.seconds(240))")
    }

    @Test func anEarlierTokenThatWasRejectedDuringTheCallIsNotUsedAgain() {
        var script = LifecycleScript.ready()
        _ = script.beginImport(2)
        let (verdict, need) = (script.reject(1), script.need(7))
        #expect(verdict == "dead")
        #expect(need == "wait")
        let outcome = script.failImport(.terminal, of: 2, replacing: 1)
        let (answer, call) = (script.answer(), script.next())
        #expect(outcome == "refused")
        #expect(answer == "wait")
        #expect(call == "call demand")
    }

    /// The order came before the first look into the store.
    @Test func anEarlierTokenThatWasOnlyStoredIsTakenUpAfterARefusal() {
        var script = LifecycleScript.started()
        _ = script.beginImport(5)
        let need = script.need(7)
        #expect(need == "wait")
        let outcome = script.failImport(.loginRequired, of: 5, replacing: 4)
        #expect(outcome == "refused, use 4 for [7]")
    }

    @Test func aRefusalWithoutAnEarlierTokenLeavesNone() {
        var script = LifecycleScript.started()
        _ = (script.beginImport(1), script.need(7))
        let outcome = script.failImport(.loginRequired, of: 1, replacing: nil)
        let (state, call) = (script.state(), script.next())
        #expect(outcome == "refused")
        #expect(state == .acquiring)
        #expect(call == "call demand")
    }

    @Test func anImportedTokenThatCouldNotBeRefreshedYetIsUsedAndRefreshedAfterAPause() {
        var script = LifecycleScript.ready(lifetime: .seconds(60))
        script.pass(.seconds(60))
        _ = (script.next(), script.beginImport(2), script.need(7))
        let outcome = script.failImport(Self.passing, of: 2, replacing: 1, ofAge: .seconds(3600))
        let (answer, sleep) = (script.answer(), script.next())
        #expect(outcome == "postponed, use 2 for [7]")
        #expect(answer == "use 2")
        #expect(sleep == "sleep \(Duration.seconds(1))")
        script.pass(.seconds(1))
        let call = script.next()
        #expect(call == "call ahead_of_expiry")
    }

    @Test func anEarlierTokenThatServesIsNotGivenUpForOneThatNobodyHasTried() {
        var script = LifecycleScript.ready()
        _ = script.beginImport(2)
        let outcome = script.failImport(Self.passing, of: 2, replacing: 1)
        let answer = script.answer()
        #expect(outcome == "refused, use 1 for []")
        #expect(answer == "use 1")
    }

    @Test func aRefreshTokenAloneIsRefreshedWhenARequestAsksAfterThePause() {
        var script = LifecycleScript.started()
        _ = (script.beginImport(1), script.need(7))
        let outcome = script.failImport(Self.passing, of: 1, lifetime: nil, replacing: nil)
        let (answer, quiet) = (script.answer(), script.next())
        #expect(outcome == "postponed, refuse [7] token-temporarily-unavailable")
        #expect(answer == "refuse token-temporarily-unavailable")
        #expect(quiet == "sleep")
        script.pass(.seconds(1))
        let (need, call) = (script.need(8), script.next())
        #expect(need == "wait and call")
        #expect(call == "call demand")
    }

    @Test func whereAFailureHoldsTokensBackAnImportedOneWaits() {
        var script = LifecycleScript.ready(lifetime: .seconds(60), policy: RenewalPolicy(onAuthorityFailure: .fail))
        script.pass(.seconds(60))
        _ = (script.next(), script.beginImport(2))
        let outcome = script.failImport(Self.passing, of: 2, replacing: 1, ofAge: .seconds(3600))
        #expect(outcome == "postponed, refuse [] token-temporarily-unavailable")
        let answer = script.answer()
        #expect(answer == "refuse token-temporarily-unavailable")
    }

    @Test func nothingBeginsWhileLocked() {
        var script = LifecycleScript.ready()
        _ = script.lock()
        let hasBegun = script.beginImport(2)
        #expect(!hasBegun)
    }

    @Test func aLockDuringTheCallKeepsTheRefreshedTokenFromUse() {
        var script = LifecycleScript.ready()
        _ = script.beginImport(2)
        _ = script.lock()
        _ = script.obtain(3)
        let answer = script.answer()
        #expect(answer == "refuse locked")
    }

    @Test func afterAClearTheCallIsNoLongerAwaited() {
        var script = LifecycleScript.ready()
        _ = script.beginImport(2)
        script.machine.clear()
        let outcome = script.failImport(.terminal, of: 2, replacing: 1)
        #expect(outcome == "ignored")
    }
}
