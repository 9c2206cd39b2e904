import Testing

@testable import GatewayProxy

@Suite("Attempts to get a connection", .timeLimit(.minutes(5)))
struct ConnectionAttemptsTests {
    private let ticket = WaiterTicket(slot: 1, number: 7)
    private let other = WaiterTicket(slot: 2, number: 8)

    /// Otherwise the waiter would stay in the queue when its client leaves.
    @Test(arguments: [nil, WaiterTicket(slot: 2, number: 8)])
    func aPoolThatAnswersBeforeItReturnsDoesNotReplaceTheTicketOfTheNextAttempt(_ late: WaiterTicket?) {
        var attempts = ConnectionAttempts()
        let first = attempts.begin()
        // The first call of the pool has not returned yet. Its answer was of no use, and the request waits for another connection.
        attempts.answered()
        let second = attempts.begin()
        attempts.wait(ticket, for: second)
        attempts.wait(late, for: first)
        #expect(attempts.leaveQueue() == ticket)
    }

    @Test func aRequestThatIsAnsweredIsNotInTheQueue() {
        var attempts = ConnectionAttempts()
        attempts.wait(ticket, for: attempts.begin())
        attempts.answered()
        #expect(attempts.leaveQueue() == nil)
    }

    @Test func aTicketIsGivenBackOnce() {
        var attempts = ConnectionAttempts()
        attempts.wait(ticket, for: attempts.begin())
        #expect(attempts.leaveQueue() == ticket)
        #expect(attempts.leaveQueue() == nil)
    }

    @Test func theResultOfAnAbandonedAttemptIsNotTaken() {
        var attempts = ConnectionAttempts()
        let first = attempts.begin()
        attempts.wait(ticket, for: first)
        #expect(attempts.isCurrent(first))
        #expect(attempts.abandon() == ticket)
        #expect(!attempts.isCurrent(first))
        attempts.wait(other, for: first)
        #expect(attempts.leaveQueue() == nil)
    }

    /// The attempt was put off to the next turn of the event loop, and another one began before.
    @Test func onlyTheLastAttemptCounts() {
        var attempts = ConnectionAttempts()
        let (first, second) = (attempts.begin(), attempts.begin())
        #expect(!attempts.isCurrent(first))
        #expect(attempts.isCurrent(second))
    }
}
