import Foundation
import GatewayEvents
import GatewayFiles
import GatewayTesting
import Testing

@testable import GatewayAudit

@Suite("Audit log that is gone", .timeLimit(.minutes(5)))
struct AuditMissingTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func open(_ onMissing: AuditPlan.OnMissing) throws -> SQLiteAuditLog {
        var options = SQLiteAuditLog.Options(path: fixture.path, instance: "gw-1")
        options.onMissing = onMissing
        return try fixture.open(options)
    }

    private func remove(_ ends: String...) throws {
        for end in ends { try? FileManager.default.removeItem(atPath: fixture.path + end) }
    }

    private func events() async throws -> [(Int64, String)] {
        try await fixture.reader.query(AuditFilter()).map { ($0.id, $0.event) }
    }

    private func expectLoss(upTo id: Int64, then names: [String]) async throws {
        let rows = try await fixture.reader.query(AuditFilter())
        #expect(rows.map(\.event) == ["audit_recreated"] + names)
        #expect(rows.first?.id == id + 1)
        #expect(rows.first?.failed == true)
        #expect(rows.first?.detail == "{\"lost_to\":\"\(id)\"}")
        let verification = try await fixture.verify()
        #expect(verification.isIntact)
        #expect(verification.lostTo == id)
        #expect(verification.rows == 1 + names.count)
    }

    // MARK: While the gateway runs

    @Test func refusedUntilTheSameFileIsBack() async throws {
        let log = try open(.refuse)
        try await log.record(fixture.event())
        try FileManager.default.moveItem(atPath: fixture.path, toPath: fixture.path + ".moved")
        await log.look()
        let reason = try #require(log.health.failure?.reason)
        for words in ["is gone", "move it back", "on_missing: recreate"] { #expect(reason.contains(words)) }
        await #expect(throws: AuditError.self) { try await log.record(fixture.event()) }
        try FileManager.default.moveItem(atPath: fixture.path + ".moved", toPath: fixture.path)
        await log.look()
        #expect(log.health.failure == nil)
        try await log.record(fixture.event())
        await log.close()
        #expect(try await fixture.verify().rows == 2)
    }

    /// Advice that does not work in the case at hand is worse than none.
    @Test(arguments: [
        ([""], "set audit.on_missing: recreate and restart the gateway"),
        (["", ".head"], "restart the gateway, which starts a new log. Its head file is gone, too"),
        (["", ".key"], "so is the installation key"), (["", ".head", ".key"], "with an empty state directory"),
    ])
    func theAdviceDependsOnWhatElseIsGone(_ removed: [String], _ words: String) async throws {
        var options = SQLiteAuditLog.Options(path: fixture.path, instance: "gw-1")
        options.keyPath = fixture.path + ".key"
        try Data().write(to: URL(fileURLWithPath: fixture.path + ".key"))
        let log = try fixture.open(options)
        try await log.record(fixture.event())
        await log.look()
        #expect(!log.health.isKeyMissing)
        for end in removed { try remove(end) }
        await log.look()
        #expect(log.health.failure?.reason.contains(words) == true)
        #expect(log.health.isKeyMissing == removed.contains(".key"))
        await log.close()
    }

    @Test(arguments: AuditPlan.OnMissing.allCases)
    func anotherFileInItsPlaceIsNotWritten(_ onMissing: AuditPlan.OnMissing) async throws {
        let log = try open(onMissing)
        try await log.record(fixture.event())
        let copy = try Data(contentsOf: URL(fileURLWithPath: fixture.path))
        try remove("")
        try copy.write(to: URL(fileURLWithPath: fixture.path))
        await log.look()
        #expect(log.health.failure?.reason.contains("is not the file that this gateway opened") == true)
        await #expect(throws: AuditError.self) { try await log.record(fixture.event()) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.path)) == copy)
    }

    @Test(arguments: [[""], ["", "-wal"], ["", "-wal", "-shm"], ["", "-wal", "-shm", ".head"]])
    func aNewOneIsBegunAtOnce(_ removed: [String]) async throws {
        let log = try open(.recreate)
        for number in 1...3 { try await log.record(fixture.event(generation: number)) }
        for end in removed { try remove(end) }
        try await log.record(fixture.event(.renewed, generation: 4))
        #expect(log.health.loss?.lostTo == 3)
        #expect(log.health.failure == nil)
        try await log.record(fixture.event(.renewed, generation: 5))
        await log.close()
        try await expectLoss(upTo: 3, then: ["renewed", "renewed"])
        // The next start finds nothing wrong, and goes on.
        let again = try open(.refuse)
        try await again.record(fixture.event(.gatewayStarted))
        #expect(again.health.loss == nil)
        await again.close()
        try await expectLoss(upTo: 3, then: ["renewed", "renewed", "gateway_started"])
    }

    @Test func withoutAnEventTheNextLookFindsOut() async throws {
        let log = try open(.recreate)
        try await log.record(fixture.event())
        try remove("", "-wal", "-shm", ".head")
        await log.look()
        await log.close()
        try await expectLoss(upTo: 1, then: [])
    }

    @Test func theFolderIsMadeAgain() async throws {
        var options = SQLiteAuditLog.Options(path: fixture.directory.file("logs/audit.sqlite"), instance: "gw-1")
        options.onMissing = .recreate
        let log = try fixture.open(options)
        try await log.record(fixture.event())
        // The head file may be written at this moment. Foundation calls that a lack of permission, and leaves the folder.
        while FileManager.default.fileExists(atPath: fixture.directory.file("logs")) {
            try? FileManager.default.removeItem(atPath: fixture.directory.file("logs"))
        }
        try await log.record(fixture.event(.renewed))
        await log.close()
        let rows = try await AuditReader(path: options.path).query(AuditFilter())
        #expect(rows.map(\.event) == ["audit_recreated", "renewed"])
        #expect(try await AuditReader(path: options.path).verify(keys: fixture.keys).lostTo == 1)
    }

    @Test func itMayBeLostTwice() async throws {
        let log = try open(.recreate)
        try await log.record(fixture.event())
        for number in 2...3 {
            try remove("")
            try await log.record(fixture.event(.renewed, generation: number))
        }
        await log.close()
        try await expectLoss(upTo: 3, then: ["renewed"])
    }

    @Test func aLogThatWasMovedAwayOnPurposeIsWhole() async throws {
        let log = try open(.recreate)
        for number in 1...3 { try await log.record(fixture.event(generation: number)) }
        let moved = fixture.path + ".moved"
        try FileManager.default.moveItem(atPath: fixture.path, toPath: moved)
        try await log.record(fixture.event(.renewed))
        #expect(try await AuditReader(path: moved).query(AuditFilter()).count == 3)
        await log.close()
    }

    @Test func nobodyElseOpensWhatIsMadeAnew() async throws {
        let log = try open(.recreate)
        try remove("")
        try await log.record(fixture.event())
        #expect(throws: FileLock.Failure.held) { _ = try FileLock(fixture.path) }
        await log.close()
    }

    // MARK: At the start

    @Test func aStartIsRefusedThatWouldHideTheLoss() async throws {
        try await fixture.write(3)
        try remove("", "-wal", "-shm")
        for _ in 0..<2 {
            let error = #expect(throws: AuditError.self) { try open(.refuse) }
            #expect(error?.reason.contains("is gone or empty, although its head file names row 3") == true)
            #expect(error?.reason.contains("on_missing: recreate") == true)
        }
    }

    /// The refused start leaves an empty database behind.
    @Test func aReaderTellsOfTheLossToo() async throws {
        #expect(AuditReader.loss(at: fixture.path) == nil)
        try await fixture.write(3)
        try remove("", "-wal", "-shm")
        #expect(AuditReader.loss(at: fixture.path)?.contains("names row 3") == true)
        let missing = await #expect(throws: AuditError.self) { try await fixture.reader.tail(last: 1) }
        #expect(missing?.reason.contains("on_missing: recreate") == true)
        #expect(throws: AuditError.self) { try open(.refuse) }
        let empty = await #expect(throws: AuditError.self) { try await fixture.reader.tail(last: 1) }
        #expect(empty?.reason.contains("is gone or empty") == true)
    }

    @Test func aStartMayBeginANewOne() async throws {
        try await fixture.write(3)
        try remove("", "-wal", "-shm")
        let log = try open(.recreate)
        #expect(log.health.loss?.lostTo == 3)
        try await log.record(fixture.event(.gatewayStarted))
        await log.close()
        try await expectLoss(upTo: 3, then: ["gateway_started"])
        #expect(try await fixture.reader.query(AuditFilter()).first?.trigger == "startup")
    }

    @Test func aStartAfterARefusedOneFindsTheFileThatWasPutBack() async throws {
        try await fixture.write(3)
        try FileManager.default.moveItem(atPath: fixture.path, toPath: fixture.path + ".moved")
        #expect(throws: AuditError.self) { try open(.refuse) }
        try remove("")
        try FileManager.default.moveItem(atPath: fixture.path + ".moved", toPath: fixture.path)
        let log = try open(.refuse)
        try await log.record(fixture.event())
        await log.close()
        #expect(try await fixture.verify().rows == 4)
    }

    @Test(arguments: AuditPlan.OnMissing.allCases)
    func withoutAHeadFileThereIsNothingToMiss(_ onMissing: AuditPlan.OnMissing) async throws {
        let log = try open(onMissing)
        #expect(log.health.loss == nil)
        await log.close()
    }

    @Test func aForgedHeadFileBeginsNothing() async throws {
        try await fixture.write(3)
        try remove("", "-wal", "-shm")
        let head = AuditHead(id: 900, hash: AuditChain.genesis, chain: AuditChain(key: AuditFixture.keys(9).chain))
        try head.write(for: fixture.path)
        let error = #expect(throws: AuditError.self) { try open(.recreate) }
        #expect(error?.reason.contains("was changed") == true)
    }

    @Test func aCrashBetweenTheNewDatabaseAndItsHeadFileIsNoFault() async throws {
        try await fixture.write(3)
        let head = try Data(contentsOf: URL(fileURLWithPath: fixture.head))
        try remove("", "-wal", "-shm")
        await (try open(.recreate)).close()
        try head.write(to: URL(fileURLWithPath: fixture.head))
        let log = try open(.refuse)
        try await log.record(fixture.event(.gatewayStarted))
        await log.close()
        try await expectLoss(upTo: 3, then: ["gateway_started"])
    }
}
