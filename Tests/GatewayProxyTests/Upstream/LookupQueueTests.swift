import Testing

@testable import GatewayProxy

@Suite("Questions to name servers", .timeLimit(.minutes(1)))
struct LookupQueueTests {
    private var queue = LookupQueue<String, Int>(maximumAtOnce: 2, maximumWaiting: 2)

    @Test mutating func soManyAreAskedAtOnceAndSoManyWait() {
        #expect(queue.ask("a", for: 1) == .ask)
        #expect(queue.ask("b", for: 2) == .ask)
        #expect(queue.ask("c", for: 3) == .wait)
        #expect(queue.ask("d", for: 4) == .wait)
        #expect(queue.ask("e", for: 5) == .refuse)
    }

    @Test mutating func thoseWithTheSameQuestionShareItsAnswer() {
        for (question, waiter) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] { _ = queue.ask(question, for: waiter) }
        #expect(queue.ask("a", for: 5) == .wait)
        #expect(queue.ask("d", for: 6) == .wait)
        #expect(queue.finish("a", goesOn: true) == ([1, 5], "c"))
        #expect(queue.finish("b", goesOn: true) == ([2], "d"))
        #expect(queue.finish("c", goesOn: true) == ([3], nil))
        #expect(queue.finish("d", goesOn: true) == ([4, 6], nil))
    }

    @Test mutating func onesThatWereRefusedCanBeAskedAgain() {
        for (question, waiter) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
            _ = queue.ask(question, for: waiter)
        }
        _ = queue.finish("a", goesOn: true)
        #expect(queue.ask("e", for: 6) == .wait)
        _ = queue.finish("c", goesOn: true)
        _ = queue.finish("b", goesOn: true)
        _ = queue.finish("d", goesOn: true)
        #expect(queue.finish("e", goesOn: true) == ([6], nil))
        #expect(queue.ask("f", for: 7) == .ask)
    }

    @Test mutating func aThreadThatCouldNotBeStartedTakesNoPlace() {
        _ = queue.ask("a", for: 1)
        #expect(queue.finish("a", goesOn: false) == ([1], nil))
        #expect(queue.ask("b", for: 2) == .ask)
        #expect(queue.ask("c", for: 3) == .ask)
    }
}
