import Foundation
import GatewayCore
import GatewayFiles
import Synchronization
import Testing

@testable import GatewayRuntime

@Suite("Locks of credentials", .timeLimit(.minutes(5)))
final class CredentialLocksTests {
    private let folder =
        FileManager.default.temporaryDirectory.appendingPathComponent("locks-\(UUID().uuidString)").path

    init() throws { try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func stored(_ name: String) throws -> Bool { try CredentialLocks(in: folder).contains(name) }

    @Test func aLockOutlivesTheGatewayAndAnUnlockDoes() async throws {
        let locks = try CredentialLocks(in: folder)
        try await locks.lock("box")
        #expect(locks.contains("box"))
        #expect(try stored("box"))
        try await locks.unlock(["box", "other"])
        #expect(!locks.contains("box"))
        #expect(try !stored("box"))
    }

    @Test func aLockCountsAtOnceAlsoWhenItCannotBeStored() async throws {
        let locks = try CredentialLocks(in: folder)
        try await locks.lock("first")
        try FileManager.default.removeItem(atPath: folder)
        let failure = await #expect(throws: LockFailure.self) { try await locks.lock("box") }
        #expect(failure?.detail(of: "box").contains("box is locked, but only until the gateway stops.") == true)
        #expect(failure?.others == nil)
        #expect(locks.contains("box"))
        await #expect(throws: StateError.self) { try await locks.unlock(["first"]) }
        #expect(locks.contains("first"), "what cannot be stored stays locked")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        await locks.storeAgain()
        #expect(try stored("box"))
    }

    @Test func theNamesOfALargeConfigurationAreReadAgain() async throws {
        let names = (0..<20_000).map { "credential-number-\($0)" }
        let text = "[" + names.map { "\"\($0)\"" }.joined(separator: ", ") + "]\n"
        try text.write(toFile: CredentialLocks.path(in: folder), atomically: true, encoding: .utf8)
        #expect(try stored("credential-number-19999"))
    }

    @Test func manyAtOnceAreAllStored() async throws {
        let locks = try CredentialLocks(in: folder)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 { group.addTask { try await locks.lock("c\(number)") } }
            try await group.waitForAll()
        }
        let all = try (0..<50).allSatisfy { try stored("c\($0)") }
        #expect(all)
    }
}

/// Two gateways with a folder each, and one store.
@Suite("Locks that gateways share", .timeLimit(.minutes(5)))
final class SharedLocksTests {
    private let folders = (1...2).map { _ in
        FileManager.default.temporaryDirectory.appendingPathComponent("locks-\(UUID().uuidString)").path
    }
    private let store = StoreOfLocks()

    init() throws {
        for folder in folders {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        }
    }

    deinit { for folder in folders { try? FileManager.default.removeItem(atPath: folder) } }

    private func both() throws -> (CredentialLocks, CredentialLocks) {
        (try CredentialLocks(in: folders[0], shared: store), try CredentialLocks(in: folders[1], shared: store))
    }

    @Test func whatOneLocksTheOtherFollows() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        let followed = try await other.synchronize()
        #expect(followed.changed == ["box"] && followed.upTo == FleetMark(7))
        #expect(other.contains("box"))
        #expect(try await other.synchronize().changed.isEmpty, "it is said once")
        #expect(try await one.synchronize().changed.isEmpty, "the own lock is no news")
        try await other.unlock(["box"])
        #expect(try await one.synchronize().changed == ["box"])
        #expect(!one.contains("box"))
    }

    @Test func onlyWhatNoOperatorOfThisGatewayHasUnlockedIsTakenAndOnce() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        _ = try await other.synchronize()
        #expect(other.takeUnlockedByStore().isEmpty, "a lock is no unlock")
        try await other.unlock(["box"])
        _ = try await other.synchronize()
        #expect(other.takeUnlockedByStore().isEmpty, "its own operator did it")
        _ = try await one.synchronize()
        #expect(one.takeUnlockedByStore() == ["box"])
        #expect(one.takeUnlockedByStore().isEmpty)
    }

    /// A command without a gateway follows the store, writes the file, and records nothing.
    @Test func theFileHasANameUntilItsEndIsTaken() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        _ = try await other.synchronize()
        try await other.unlock(["box"])
        _ = try await one.synchronize()
        #expect(!one.contains("box"))
        try await one.lock("duke")
        let next = try CredentialLocks(in: folders[0], shared: store)
        _ = try await next.synchronize()
        #expect(next.takeUnlockedByStore() == ["box"])
        await next.storeAgain()
        #expect(try StoredLocks(readFrom: CredentialLocks.path(in: folders[0])) == StoredLocks(names: ["duke"]))
    }

    @Test func aLockThatOthersDoNotKnowOutlivesARestart() async throws {
        let (one, other) = try both()
        store.fails(true)
        await #expect(throws: LockFailure.self) { try await one.lock("box") }
        store.fails(false)
        let next = try CredentialLocks(in: folders[0], shared: store)
        _ = try await next.synchronize()
        #expect(next.contains("box") && next.takeUnlockedByStore().isEmpty)
        #expect(try await other.synchronize().changed == ["box"])
        await next.storeAgain()
        #expect(try StoredLocks(readFrom: CredentialLocks.path(in: folders[0])) == StoredLocks(names: ["box"]))
        // It is told once: after that, what the store says counts.
        try await other.unlock(["box"])
        let last = try CredentialLocks(in: folders[0], shared: store)
        _ = try await last.synchronize()
        #expect(!last.contains("box"))
    }

    @Test func withoutTheStoreALockHoldsHereAndIsToldLater() async throws {
        let (one, other) = try both()
        store.fails(true)
        let error = await #expect(throws: LockFailure.self) { try await one.lock("box") }
        let detail = try #require(error?.detail(of: "box"))
        #expect(detail.contains("cannot be told to other gateways"))
        #expect(detail.contains("box is locked on this gateway, also after a restart."))
        #expect(detail.contains("The other gateways do not know it yet."))
        #expect(!detail.contains("until the gateway stops"))
        #expect(one.contains("box"))
        await #expect(throws: StateError.self) { _ = try await one.synchronize() }
        #expect(one.contains("box"))
        store.fails(false)
        #expect(try await one.synchronize().changed.isEmpty)
        #expect(try await other.synchronize().changed == ["box"])
    }

    @Test func whatCannotBeToldStaysLocked() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        _ = try await other.synchronize()
        store.fails(true)
        await #expect(throws: StateError.self) { try await other.unlock(["box"]) }
        #expect(other.contains("box"))
        store.fails(false)
        _ = try await other.synchronize()
        #expect(other.contains("box"))
        #expect(one.contains("box"))
    }

    /// A gateway asks the store, an operator locks here, and the answer to the question arrives late.
    @Test func aLockHoldsAgainstAnAnswerThatIsOlder() async throws {
        let (one, _) = try both()
        let asked = Promise<Void>()
        let answer = Promise<Void>()
        store.delaysNext {
            asked.keep(())
            await answer.value()
        }
        async let answered = one.synchronize()
        await asked.value()
        try await one.lock("box")
        answer.keep(())
        #expect(try await answered.changed.isEmpty)
        #expect(one.contains("box"))
        #expect(try await one.synchronize().changed.isEmpty)
        #expect(one.contains("box"))
    }

    /// A disk that does not answer must not delay what others have locked.
    @Test func whatOthersLockIsFollowedBeforeItIsWritten() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        #expect(try await other.synchronize().changed == ["box"])
        #expect(try !CredentialLocks(in: folders[1], shared: store).contains("box"))
        await other.storeAgain()
        #expect(try CredentialLocks(in: folders[1], shared: store).contains("box"))
    }

    /// Somebody has locked its row in an open transaction.
    @Test func aRecordThatIsHeldKeepsNoOtherLockFromBeingTold() async throws {
        let (one, other) = try both()
        store.holds(["box"])
        let error = await #expect(throws: LockFailure.self) { try await one.lock("box") }
        #expect(error?.detail(of: "box").contains("cannot be told to other gateways: somebody holds it") == true)
        try await one.lock("second")
        #expect(try await other.synchronize().changed == ["second"])
        #expect(try await one.synchronize().changed.isEmpty)
        #expect(one.contains("box"))
        store.holds([])
        _ = try await one.synchronize()
        #expect(try await other.synchronize().changed == ["box"])
        store.holds(["box"])
        await #expect(throws: StateError.self) { try await other.unlock(["box"]) }
        #expect(other.contains("box"))
    }

    @Test func theAnswerToALockDoesNotWaitForAStoreThatHangs() async throws {
        let (one, other) = try both()
        let answer = Promise<Void>()
        store.delaysNext { await answer.value() }
        let begun = ContinuousClock.now
        let error = await #expect(throws: LockFailure.self) { try await one.lock("box") }
        #expect(ContinuousClock.now - begun < .seconds(4))
        #expect(error?.detail(of: "box").contains("did not answer within 2 s") == true)
        #expect(one.contains("box"))
        answer.keep(())
        #expect(try await other.synchronize().changed == ["box"])
    }

    /// Whatever a start did not wait for is news for who follows.
    @Test func aLateAnswerToAStartIsNotTakenOver() async throws {
        let (one, other) = try both()
        try await one.lock("box")
        let answer = Promise<Void>()
        store.delaysNext { await answer.value() }
        await other.begin(until: .now.advanced(by: .milliseconds(100)))
        answer.keep(())
        #expect(try await other.synchronize().changed == ["box"])
        await one.begin(until: .now.advanced(by: .seconds(10)))
        #expect(one.contains("box"))
    }

    @Test func theCopyHoldsForAGatewayThatStartsWithoutTheStore() async throws {
        let (one, _) = try both()
        try await one.lock("box")
        store.fails(true)
        #expect(try CredentialLocks(in: folders[0], shared: store).contains("box"))
    }
}

/// What gateways share, in memory.
final class StoreOfLocks: SharedLocks {
    private struct State {
        var names: Set<String> = []
        var isAway = false
        var held: Set<String> = []
        /// Of one answer.
        var delay: (@Sendable () async -> Void)?
    }

    private let state = Mutex(State())

    func fails(_ isAway: Bool) { state.withLock { $0.isAway = isAway } }

    func holds(_ names: Set<String>) { state.withLock { $0.held = names } }

    func delaysNext(_ delay: @escaping @Sendable () async -> Void) { state.withLock { $0.delay = delay } }

    func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> SharedLockNames {
        let answer: SharedLockNames? = state.withLock { state in
            guard !state.isAway else { return nil }
            state.names = state.names.union(added.subtracting(state.held)).subtracting(removed.subtracting(state.held))
            var answer = SharedLockNames(state.names, upTo: FleetMark(7))
            answer.held = state.held.intersection(added.union(removed))
            answer.reason = answer.held.isEmpty ? nil : "somebody holds it"
            return answer
        }
        await state.withLock { $0.delay.take() }?()
        guard let answer else { throw .unavailable("gone") }
        return answer
    }
}
