import Foundation
import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayAudit

@Suite("Audit log in trouble", .timeLimit(.minutes(5)))
struct AuditHealthTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func open(_ change: (inout SQLiteAuditLog.Options) -> Void = { _ in }) throws -> SQLiteAuditLog {
        var options = SQLiteAuditLog.Options(path: fixture.path, instance: "gw-1", retention: .seconds(3600))
        options.busyTimeout = .milliseconds(50)
        change(&options)
        return try fixture.open(options)
    }

    private func other() throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: fixture.path, configuration: configuration)
    }

    private func use() -> TokenUse {
        let key = TokenUse.Key(
            minute: fixture.clock.now().wall,
            route: "r",
            client: nil,
            credential: "c",
            generation: 1,
            statusClass: 2
        )
        return TokenUse(key: key, requests: 1, bytesReceived: 1, bytesSent: 1)
    }

    private func names() async throws -> [String] { try await fixture.reader.query(AuditFilter()).map(\.event) }

    // MARK: Locks and slow disks

    @Test func aLockIsTheReasonAsLongAsItLastsAndNoLonger() async throws {
        let log = try open()
        let other = try other()
        #expect(log.health.failure == nil)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        await #expect(throws: AuditError.self) { try await log.record(fixture.event()) }
        for _ in 0..<2 {
            #expect(log.health.failure?.reason.contains("another process holds a write transaction on") == true)
            #expect(log.health.failure?.reason.contains("fuser \(fixture.path)") == true)
            await log.look()
        }
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        await log.look()
        #expect(log.health.failure == nil)
    }

    @Test func usageThatCannotBeWrittenShowsThatEventsCannotEither() async throws {
        let log = try open()
        let other = try other()
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        log.count(use())
        await log.flushUsage()
        await log.look()
        #expect(log.health.failure?.reason.contains("write transaction") == true)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        await log.look()
        #expect(log.health.failure == nil)
    }

    @Test func aDamagedPageOfTheUsesIsSaidUntilItIsWhole() async throws {
        let log = try open()
        await log.close()
        let (root, size) = try await other().read { database in
            let root = try Int.fetchOne(
                database,
                sql: "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = 'token_use'"
            )
            return (try #require(root), try #require(try Int.fetchOne(database, sql: "PRAGMA page_size")))
        }
        let start = UInt64((root - 1) * size)
        // Open until the end: SQLite loses its locks when this process closes the file.
        let file = try #require(FileHandle(forUpdatingAtPath: fixture.path))
        try file.seek(toOffset: start)
        let whole = try #require(try file.read(upToCount: size))
        func write(_ page: Data) throws {
            try file.seek(toOffset: start)
            try file.write(contentsOf: page)
        }
        try write(Data(repeating: 255, count: size))
        let damaged = try open()
        damaged.count(use())
        await damaged.flushUsage()
        let damage = try #require(damaged.health.damage)
        #expect(
            damage.hasPrefix("usage was not written to the audit log: the audit log \(fixture.path) is not a valid")
        )
        #expect(damage.contains("set audit.on_missing: recreate"))
        try await damaged.record(fixture.event())
        #expect(damaged.health.failure == nil && damaged.health.damage == damage)
        try write(whole)
        // A change by another program makes SQLite read the page again.
        try await other().writeWithoutTransaction { try $0.execute(sql: "CREATE TABLE other (id INTEGER)") }
        await damaged.flushUsage()
        #expect(damaged.health.damage == nil)
        await damaged.close()
        try file.close()
    }

    @Test func aDiskThatDoesNotAnswerKeepsNoAuthorAndNoReader() async throws {
        let log = try open { $0.recordLimit = .seconds(3) }
        try await log.record(fixture.event(generation: 1))
        let end = DispatchSemaphore(value: 0)
        log.writer.start { log.writer.track { end.wait() } }
        while log.writer.trouble == nil { try await Task.sleep(for: .milliseconds(10)) }
        let error = await #expect(throws: AuditError.self) { try await log.record(fixture.event(generation: 2)) }
        #expect(error?.reason.contains("a write has been under way for") == true)
        #expect(log.health.failure?.reason.contains("does not answer") == true)
        let clock = ContinuousClock()
        let started = clock.now
        await log.look()
        await #expect(throws: AuditError.self) { try await log.record(fixture.event(generation: 3)) }
        #expect(clock.now - started < SQLiteWriter.patience, "neither waits")
        end.signal()
        while log.writer.trouble != nil { try await Task.sleep(for: .milliseconds(10)) }
        try await log.record(fixture.event(generation: 4))
        #expect(log.health.failure == nil)
        let generations = try await fixture.reader.query(AuditFilter()).map(\.generation)
        #expect(generations == [1, 4], "what its author was told is not recorded is not")
    }

    @Test func anEventWhoseAuthorGaveUpDuringTheCommitIsOneRowHoweverOftenItIsBrought() async throws {
        let log = try open { $0.recordLimit = .milliseconds(200) }
        let other = try other()
        let event = fixture.event(generation: 7)
        // The commit waits for the lock for longer than the author does.
        let patient = try open { options in
            options.busyTimeout = .seconds(20)
            options.recordLimit = .milliseconds(300)
        }
        await log.close()
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        await #expect(throws: AuditError.self) { try await patient.record(event) }
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        while try await names().isEmpty { try await Task.sleep(for: .milliseconds(10)) }
        try await patient.record(event)
        try await patient.record(fixture.event(generation: 8))
        #expect(try await fixture.reader.query(AuditFilter()).map(\.generation) == [7, 8])
    }

    // MARK: Withdrawals

    @Test func whatWasTakenAwayIsRecordedAsSoonAsTheLogWorksAgain() async throws {
        let log = try open()
        let other = try other()
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let refusal = await log.recordSoon(fixture.event(.locked))
        #expect(refusal?.reason.contains("write transaction") == true)
        #expect(log.health.unrecorded == 1)
        await log.look()
        #expect(log.health.unrecorded == 1)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        await log.look()
        #expect(log.health.unrecorded == 0)
        let row = try #require(try await fixture.reader.tail(last: 1).first)
        #expect(row.event == "locked")
        #expect(row.detail.contains(#""recorded_late":"true""#))
        await log.close()
        #expect(try await fixture.verify().isIntact)
    }

    @Test func theNextEventTakesWaitingWithdrawalsAlongAndTheEndDoes() async throws {
        let log = try open()
        let other = try other()
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        _ = await log.recordSoon(fixture.event(.cleared))
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await log.record(fixture.event(.renewed))
        while log.health.unrecorded > 0 { try await Task.sleep(for: .milliseconds(5)) }
        #expect(try await names() == ["renewed", "cleared"])
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        _ = await log.recordSoon(fixture.event(.revoked))
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        await log.close()
        #expect(try await names() == ["renewed", "cleared", "revoked"])
    }

    @Test func aWithdrawalThatCanBeRecordedIs() async throws {
        let log = try open()
        #expect(await log.recordSoon(fixture.event(.locked)) == nil)
        #expect(try await names() == ["locked"])
    }

    @Test func noMoreWithdrawalsAreKeptThanTheLimitAllows() {
        var queue = EventQueue()
        var kept = 0
        for _ in 0..<2 * EventQueue.memoryLimit where queue.keep(fixture.event(.locked)) { kept += 1 }
        #expect(kept == EventQueue.memoryLimit)
    }

    @Test func reloadsThatCannotBeRecordedLeaveRoomForLocks() {
        var queue = EventQueue()
        for _ in 0..<2 * EventQueue.memoryLimit { _ = queue.keep(fixture.event(.configLoaded)) }
        #expect(queue.withdrawals.count == EventQueue.memoryLimit / 2)
        let isKept = queue.keep(fixture.event(.locked))
        #expect(isKept)
    }

    // MARK: Room

    /// Records events until one is refused.
    private func fill(_ log: SQLiteAuditLog, _ name: TokenEvent.Name) async -> AuditError {
        let event = fixture.event(name)
        while true {
            let refusal = await withTaskGroup { group in
                for _ in 0..<200 {
                    group.addTask { () -> AuditError? in
                        do throws(AuditError) {
                            try await log.record(event)
                            return nil
                        } catch {
                            return error
                        }
                    }
                }
                return await group.reduce(nil) { $0 ?? $1 }
            }
            if let refusal { return refusal }
        }
    }

    @Test func atTheLimitRequestsStopThenTokensThenOperators() async throws {
        let log = try open { $0.maximumBytes = 12 << 20 }
        for name in [TokenEvent.Name.clientDenied, .renewed, .locked] {
            let error = await fill(log, name)
            #expect(error.reason.contains("audit.max_bytes"), "\(name)")
            #expect(log.health.failure == nil, "a limit is no failure")
        }
        #expect(log.keep([.sample(at: fixture.clock.now().wall)]) == 1)
        let size = try FileManager.default.attributesOfItem(atPath: fixture.path)[.size] as? Int ?? 0
        let journal = try FileManager.default.attributesOfItem(atPath: fixture.path + "-wal")[.size] as? Int ?? 0
        #expect(size + journal <= 13 << 20)
        let counts = try await fixture.reader.stats()
        #expect(counts.events > 1000)
        await log.close()
        #expect(try await fixture.verify().isIntact)
    }

    @Test func retentionMakesRoom() async throws {
        let log = try open { $0.maximumBytes = 8 << 20 }
        _ = await fill(log, .clientDenied)
        await log.prune()
        await #expect(throws: AuditError.self) { try await log.record(fixture.event(.clientDenied)) }
        fixture.clock.advance(by: .seconds(7200))
        await log.prune()
        try await log.record(fixture.event(.clientDenied))
        await log.close()
        #expect(try await fixture.verify().isIntact)
    }

    @Test func onAFullDiskRowsOfRequestsAreNotTried() async throws {
        let log = try open()
        try await #require(log.database).writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1") }
        let error = await fill(log, .renewed)
        #expect(error.reason.contains("full"))
        // Where many rows found no place together, a single one still may.
        while (try? await log.record(fixture.event(.renewed))) != nil {}
        let denied = await #expect(throws: AuditError.self) { try await log.record(fixture.event(.clientDenied)) }
        #expect(denied?.reason.contains("almost full") == true)
        try await #require(log.database).writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA max_page_count = 100000")
        }
        await log.look()
        try await log.record(fixture.event(.clientDenied))
    }

    /// Rows of requests that share a commit with token events do not take them along.
    @Test func onAFullDiskWhatRequestsCauseGivesWayToTokens() async throws {
        let log = try open()
        // Room for a few rows, not for a flood.
        try await #require(log.database).writeWithoutTransaction { database in
            let count = try Int.fetchOne(database, sql: "PRAGMA page_count") ?? 0
            try database.execute(sql: "PRAGMA max_page_count = \(count + 2)")
        }
        let end = DispatchSemaphore(value: 0)
        log.writer.start { end.wait() }
        async let refused = withTaskGroup { group in
            for _ in 0..<100 {
                group.addTask { (try? await log.record(fixture.event(.clientDenied))) == nil }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        async let renewed: Void = log.record(fixture.event(.renewed))
        try await Task.sleep(for: .milliseconds(300))
        end.signal()
        try await renewed
        #expect(await refused == 100)
        #expect(try await names() == ["renewed"])
    }
}

extension RequestUse {
    fileprivate static func sample(at time: UnixTime) -> RequestUse {
        RequestUse(
            at: time,
            requestID: "r",
            route: "api",
            client: nil,
            method: "GET",
            status: 200,
            wasReplayed: false,
            bytesReceived: 1,
            bytesSent: 1,
            duration: .zero
        )
    }
}
