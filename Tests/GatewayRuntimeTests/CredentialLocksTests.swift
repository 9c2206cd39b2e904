import Foundation
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
