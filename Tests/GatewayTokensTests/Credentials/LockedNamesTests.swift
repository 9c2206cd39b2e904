import Testing

@testable import GatewayTokens

@Suite("Names of locked credentials in a fleet", .timeLimit(.minutes(1)))
struct LockedNamesTests {
    @Test func whatOthersLockAndUnlockIsTakenOver() {
        var locked = LockedNames(["a"])
        let question = locked.ask()
        #expect(question.added.isEmpty && question.removed.isEmpty)
        #expect(locked.follow(["b"], to: question) == ["a", "b"])
        #expect(locked.names == ["b"])
        #expect(locked.follow(["b"], to: locked.ask()).isEmpty)
    }

    @Test func whatIsNotToldIsToldUntilTheStoreHasIt() {
        var locked = LockedNames(["a"])
        locked.lock("b")
        locked.unlock(["a"])
        _ = locked.ask()
        let question = locked.ask()
        #expect(question.added == ["b"] && question.removed == ["a"])
        locked.told(question)
        let next = locked.ask()
        #expect(next.added.isEmpty && next.removed.isEmpty)
    }

    @Test func whatTheStoreDidNotTakeCountsHereAndIsToldAgain() {
        var locked = LockedNames(["a"])
        locked.lock("box")
        locked.lock("c")
        locked.unlock(["a"])
        let question = locked.ask()
        #expect(locked.follow(["a", "b", "c"], to: question, except: ["a", "box"]) == ["b"])
        #expect(locked.names == ["b", "box", "c"])
        let next = locked.ask()
        #expect(next.added == ["box"] && next.removed == ["a"])
        locked.told(next, except: ["box"])
        #expect(locked.ask().added == ["box"] && locked.ask().removed.isEmpty)
    }

    /// The store answered before the operator's lock reached it.
    @Test(arguments: [false, true])
    func aLockHoldsAgainstAnAnswerThatIsOlder(isTold: Bool) {
        var locked = LockedNames()
        let old = locked.ask()
        locked.lock("box")
        if isTold { locked.told(locked.ask()) }
        #expect(locked.follow([], to: old).isEmpty)
        #expect(locked.names == ["box"])
        let next = locked.ask()
        #expect(next.added == (isTold ? [] : ["box"]))
        // By now the store has it, so another operator may have taken it away.
        #expect(locked.follow([], to: next) == ["box"])
    }

    @Test(arguments: [false, true])
    func anUnlockHoldsAgainstAnAnswerThatIsOlder(isTold: Bool) {
        var locked = LockedNames(["box"])
        let old = locked.ask()
        locked.unlock(["box"])
        if isTold { locked.told(locked.ask()) }
        #expect(locked.follow(["box"], to: old).isEmpty)
        #expect(locked.names.isEmpty)
    }

    /// Locked and told, unlocked and told, locked again: the first answer does not count for the last lock.
    @Test func anOldAnswerDoesNotMakeALaterLockOneThatWasTold() {
        var locked = LockedNames()
        locked.lock("box")
        let first = locked.ask()
        locked.unlock(["box"])
        locked.told(locked.ask())
        locked.lock("box")
        locked.told(first)
        #expect(locked.ask().added == ["box"])
    }

    @Test func anAnswerThatWasOvertakenIsNotFollowed() {
        var locked = LockedNames()
        let old = locked.ask()
        let new = locked.ask()
        #expect(locked.follow(["box"], to: new) == ["box"])
        #expect(locked.follow([], to: old).isEmpty)
        #expect(locked.names == ["box"])
    }
}
