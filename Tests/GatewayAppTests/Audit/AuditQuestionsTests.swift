import GatewayHTTP
import Synchronization
import Testing

@testable import GatewayApp

@Suite("Questions to the audit log", .timeLimit(.minutes(1)))
struct AuditQuestionsTests {
    private final class Counter: Sendable {
        let value = Mutex(0)
        func add() { value.withLock { $0 += 1 } }
        var count: Int { value.withLock(\.self) }
    }

    private final class Order: Sendable { let clients = Mutex<[String]>([]) }

    /// Keeps the only place until ``end()``.
    private struct Occupation {
        let questions: AuditQuestions
        private let begun = AsyncStream<Void>.makeStream()
        private let ended = AsyncStream<Void>.makeStream()

        init(of questions: AuditQuestions) { self.questions = questions }

        func hold() async -> Int? {
            await questions.ask(by: "holder") { _ in
                begun.continuation.finish()
                for await _ in ended.stream {}
                return 1
            }
        }

        func isHeld() async { for await _ in begun.stream {} }
        func end() { ended.continuation.finish() }
    }

    @Test func oneIsAnsweredAtATimeAndTheOthersWait() async {
        let questions = AuditQuestions(path: "/nonexistent", patience: .milliseconds(50))
        let occupation = Occupation(of: questions)
        await withTaskGroup(of: Int?.self) { group in
            group.addTask { await occupation.hold() }
            await occupation.isHeld()
            let writes = Counter()
            let answer = await questions.ask(
                by: "a",
                afterWriting: {
                    writes.add()
                    return true
                },
                { _ in 2 }
            )
            #expect(answer == nil, "a question does not wait for ever")
            #expect(writes.count == 0, "a question that is refused writes nothing")
            occupation.end()
            #expect(await group.next() == 1)
        }
        #expect(await questions.ask(by: "a") { _ in 3 } == 3)
        #expect(AuditQuestions.problem.kind == .overloaded && AuditQuestions.problem.retryAfter != nil)
    }

    /// A client with many questions is passed over while another one waits, and its newest question gives way.
    @Test func clientsTakeTurns() async {
        let questions = AuditQuestions(path: "/nonexistent", patience: .seconds(50))
        let occupation = Occupation(of: questions)
        let order = Order()
        let ask: @Sendable (_ client: String) async -> Bool = { client in
            await questions.ask(by: client) { _ in order.clients.withLock { $0.append(client) } } != nil
        }
        await withTaskGroup(of: Bool.self) { group in
            group.addTask { await occupation.hold() == 1 }
            await occupation.isHeld()
            var greedy: [Task<Bool, Never>] = []
            while questions.waitingCount < 16 {
                let before = questions.waitingCount
                greedy.append(Task { await ask("greedy") })
                while questions.waitingCount == before { await Task.yield() }
            }
            #expect(await !ask("greedy"), "there are no more places")
            let other = Task { await ask("other") }
            #expect(await greedy.removeLast().value == false, "it gives its place to another client")
            occupation.end()
            #expect(await other.value)
            for question in greedy { #expect(await question.value) }
            for await isAnswered in group { #expect(isAnswered) }
        }
        #expect(order.clients.withLock(\.self) == ["greedy", "other"] + Array(repeating: "greedy", count: 14))
        #expect(questions.waitingCount == 0)
    }

    @Test func aQuestionWhoseTaskIsCancelledLeaves() async {
        let questions = AuditQuestions(path: "/nonexistent", patience: .seconds(50))
        let occupation = Occupation(of: questions)
        await withTaskGroup(of: Int?.self) { group in
            group.addTask { await occupation.hold() }
            await occupation.isHeld()
            let leaving = Task { await questions.ask(by: "a") { _ in 2 } }
            while questions.waitingCount == 0 { await Task.yield() }
            leaving.cancel()
            #expect(await leaving.value == nil && questions.waitingCount == 0)
            occupation.end()
            #expect(await group.next() == 1)
        }
    }

    @Test func whatWasCountedIsWrittenOnceASecondAtMost() async {
        let questions = AuditQuestions(path: "/nonexistent")
        let start = ContinuousClock.now
        for _ in 0..<2 { _ = await questions.ask(by: nil, afterWriting: { true }, { _ in 1 }) }
        #expect(ContinuousClock.now - start >= .seconds(1))
    }

    @Test func severalWritesAreOne() async {
        let count = Counter()
        let end = AsyncStream<Void>.makeStream()
        let begun = AsyncStream<Void>.makeStream()
        let writes = CoalescedWrites {
            count.add()
            begun.continuation.finish()
            for await _ in end.stream {}
            return true
        }
        async let first = writes.perform()
        for await _ in begun.stream {}
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<50 { group.addTask { await writes.perform() } }
            group.addTask {
                try? await Task.sleep(for: .milliseconds(500))
                end.continuation.finish()
                return true
            }
            for await isWritten in group { #expect(isWritten) }
        }
        #expect(await first)
        #expect(count.count < 10, "those who come while a write is under way share the next one")
    }
}
