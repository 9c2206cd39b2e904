import Foundation
import GatewayCore
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
        await #expect(throws: StateError.self) { try await locks.lock("box") }
        #expect(locks.contains("box"))
        await #expect(throws: StateError.self) { try await locks.unlock(["first"]) }
        #expect(locks.contains("first"), "what cannot be stored stays locked")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        await locks.storeAgain()
        #expect(try stored("box"))
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

    @Test func withoutTheStoreALockHoldsHereAndIsToldLater() async throws {
        let (one, other) = try both()
        store.fails(true)
        let error = await #expect(throws: StateError.self) { try await one.lock("box") }
        #expect(error?.description.contains("cannot be told to other gateways") == true)
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

    @Test func theCopyHoldsForAGatewayThatStartsWithoutTheStore() async throws {
        let (one, _) = try both()
        try await one.lock("box")
        store.fails(true)
        #expect(try CredentialLocks(in: folders[0], shared: store).contains("box"))
    }
}

private final class StoreOfLocks: SharedLocks {
    private struct State {
        var names: Set<String> = []
        var isAway = false
    }

    private let state = Mutex(State())

    func fails(_ isAway: Bool) { state.withLock { $0.isAway = isAway } }

    func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> SharedLockNames {
        let names: Set<String>? = state.withLock { state in
            guard !state.isAway else { return nil }
            state.names = state.names.union(added).subtracting(removed)
            return state.names
        }
        guard let names else { throw .unavailable("gone") }
        return SharedLockNames(names, upTo: FleetMark(7))
    }
}
