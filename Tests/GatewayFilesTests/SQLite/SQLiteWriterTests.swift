import Foundation
import GRDB
import Synchronization
import Testing

@testable import GatewayFiles

@Suite("Writer of an SQLite file", .timeLimit(.minutes(5)))
final class SQLiteWriterTests {
    private let path = FileManager.default.temporaryDirectory.appendingPathComponent("writer-\(UUID().uuidString)").path

    deinit { for end in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + end) } }

    private func writer(lockLimit: Duration = .seconds(30)) throws -> SQLiteWriter {
        try SQLiteWriter(path, label: "test", lockLimit: lockLimit)
    }

    /// Another program with an open write transaction.
    private func holdingLock() throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: path, configuration: configuration)
        try other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        return other
    }

    private static func insert(_ database: Database) throws {
        try database.inTransaction(.immediate) {
            try database.execute(sql: "CREATE TABLE IF NOT EXISTS t (x)")
            try database.execute(sql: "INSERT INTO t VALUES (1)")
            return .commit
        }
    }

    private func untilInTrouble(_ writer: SQLiteWriter) async throws -> SQLiteWriter.Trouble {
        while true {
            if let trouble = writer.trouble { return trouble }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    @Test func aLockIsKnownForWhatItIsWhileItIsWaitedFor() async throws {
        let writer = try writer()
        let other = try holdingLock()
        #expect(writer.trouble == nil)
        async let written: Void = writer.perform(within: .seconds(60)) { try writer.write(Self.insert) }
        guard case .locked(let time) = try await untilInTrouble(writer) else {
            Issue.record("the lock was taken for a slow disk")
            return
        }
        #expect(time >= SQLiteWriter.patience)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await written
        #expect(writer.trouble == nil)
    }

    @Test func aLockThatLastsIsAnErrorAndLaterOnesAreWaitedForAgain() async throws {
        let writer = try writer(lockLimit: .milliseconds(50))
        let other = try holdingLock()
        let error = await #expect(throws: DatabaseError.self) {
            try await writer.perform(within: .seconds(60)) { try writer.write(Self.insert) }
        }
        #expect(error?.resultCode == .SQLITE_BUSY)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await writer.perform(within: .seconds(60)) { try writer.write(Self.insert) }
        let count = try await other.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
        #expect(count == 1, "what was tried twice is done once")
    }

    @Test func workThatLastsIsASlowDiskAndNobodyWaitsForIt() async throws {
        let writer = try writer()
        let end = DispatchSemaphore(value: 0)
        writer.start { writer.track { end.wait() } }
        guard case .slow = try await untilInTrouble(writer) else {
            Issue.record("nothing is locked")
            return
        }
        let isDone = Atomic(false)
        let error = await #expect(throws: SQLiteWriter.Overdue.self) {
            try await writer.perform(within: .milliseconds(2000)) { isDone.store(true, ordering: .relaxed) }
        }
        guard case .slow = error?.trouble else {
            Issue.record("the caller is told what it waited for")
            return
        }
        let clock = ContinuousClock()
        let started = clock.now
        await #expect(throws: SQLiteWriter.Overdue.self) { try await writer.perform(within: .milliseconds(500)) {} }
        #expect(clock.now - started < .milliseconds(400), "while other work is overdue, nothing is waited for")
        await writer.close(within: .milliseconds(100))
        end.signal()
        try await Task.sleep(for: .milliseconds(200))
        let wasDone = isDone.load(ordering: .relaxed)
        #expect(!wasDone, "what nobody waits for any more is not begun")
    }

    @Test func aClosedWriterRefuses() async throws {
        let writer = try writer()
        await writer.close(within: .seconds(10))
        #expect(writer.database == nil)
        await #expect(throws: (any Error).self) {
            try await writer.perform(within: .seconds(10)) { try writer.write(Self.insert) }
        }
    }

    @Test func aFileThatWasMovedAwayIsWholeWhenAnotherOneIsOpened() async throws {
        let writer = try writer()
        try await writer.perform(within: .seconds(10)) { try writer.write(Self.insert) }
        let moved = path + ".moved"
        defer { try? FileManager.default.removeItem(atPath: moved) }
        try FileManager.default.moveItem(atPath: path, toPath: moved)
        try await writer.perform(within: .seconds(10)) { try writer.reopen {} }
        try await writer.perform(within: .seconds(10)) { try writer.write(Self.insert) }
        for file in [path, moved] {
            let database = try DatabaseQueue(path: file)
            let count = try await database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
            #expect(count == 1, "\(file)")
            try database.close()
        }
    }
}
