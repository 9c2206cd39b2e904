import Synchronization
import Testing

@testable import GatewayApp

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

@Suite("Threads for what blocks", .timeLimit(.minutes(5)))
struct OwnThreadTests {
    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isSet: Bool { value.load(ordering: .relaxed) }
        func set() { value.store(true, ordering: .relaxed) }
    }

    @Test func whatTheWorkYieldsIsReturned() async {
        await withTaskGroup(of: Bool.self) { group in
            for number in 0..<100 {
                group.addTask { await OwnThread.run(within: .seconds(60)) { _ in number } == .success(number) }
            }
            for await isRight in group { #expect(isRight) }
        }
    }

    @Test func workThatIsOverdueIsNotWaitedForAndIsToldSo() async throws {
        let wasTold = Flag()
        let outcome = await OwnThread.run(within: .milliseconds(50)) { isCancelled in
            while !isCancelled() { _ = poll(nil, 0, 1) }
            // Longer than it is waited for.
            _ = poll(nil, 0, 200)
            wasTold.set()
        }
        #expect(throws: OwnThread.Failure.overdue) { try outcome.get() }
        while !wasTold.isSet { try await Task.sleep(for: .milliseconds(5)) }
    }

    @Test func workIsToldThatItsTaskWasCancelled() async {
        let task = Task {
            await OwnThread.run(within: .seconds(60)) { isCancelled in
                while !isCancelled() { _ = poll(nil, 0, 1) }
                return true
            }
        }
        task.cancel()
        #expect(await task.value == .success(true))
    }

    @Test func aThreadThatIsNotToBeHadIsAFailureOfTheProgram() {
        let failure = SpawnedProgram.Failure(OwnThread.Failure.notStarted(EAGAIN), timeout: .seconds(5))
        #expect(failure == .notStarted(EAGAIN))
        #expect(failure.message.hasPrefix("cannot be started: "))
        #expect(SpawnedProgram.Failure(OwnThread.Failure.overdue, timeout: .seconds(5)) == .timedOut(.seconds(5)))
    }
}
