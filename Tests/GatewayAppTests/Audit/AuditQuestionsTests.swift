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

    @Test func oneIsAnsweredAtATimeAndTheOthersAreRefused() async {
        let questions = AuditQuestions(path: "/nonexistent")
        let (begun, end) = (AsyncStream<Void>.makeStream(), AsyncStream<Void>.makeStream())
        async let first = questions.ask { _ in
            begun.continuation.finish()
            for await _ in end.stream {}
            return 1
        }
        for await _ in begun.stream {}
        let writes = Counter()
        for _ in 0..<100 {
            let answer = await questions.ask(
                afterWriting: {
                    writes.add()
                    return true
                },
                { _ in 2 }
            )
            #expect(answer == nil)
        }
        #expect(writes.count == 0, "a question that is refused writes nothing")
        end.continuation.finish()
        #expect(await first == 1)
        #expect(await questions.ask { _ in 3 } == 3)
        #expect(AuditQuestions.problem.kind == .overloaded && AuditQuestions.problem.retryAfter != nil)
    }

    @Test func whatWasCountedIsWrittenOnceASecondAtMost() async {
        let questions = AuditQuestions(path: "/nonexistent")
        let start = ContinuousClock.now
        for _ in 0..<2 { _ = await questions.ask(afterWriting: { true }, { _ in 1 }) }
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
