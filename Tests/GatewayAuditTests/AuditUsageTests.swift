import Foundation
import GRDB
import GatewayCore
import GatewayTesting
import Testing

@testable import GatewayAudit

@Suite("Audit usage and retention", .timeLimit(.minutes(5)))
struct AuditUsageTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    static func use(
        _ route: String = "files",
        client: String? = "cron",
        generation: Int = 1,
        requests: Int = 1,
        at minute: UnixTime
    ) -> TokenUse {
        TokenUse(
            key: TokenUse.Key(
                minute: minute,
                route: route,
                client: client,
                credential: "box",
                generation: generation,
                statusClass: 2
            ),
            requests: requests,
            bytesReceived: 10 * requests,
            bytesSent: 100 * requests
        )
    }

    private func rows(_ sql: String) throws -> [Row] {
        try DatabaseQueue(path: fixture.path).read { try Row.fetchAll($0, sql: sql) }
    }

    @Test func usesOfOneMinuteAreOneRow() async throws {
        let log = try fixture.open()
        let minute = fixture.clock.now().wall
        for _ in 1...3 { log.count(Self.use(at: minute)) }
        await log.flushUsage()
        log.count(Self.use(requests: 4, at: minute))
        log.count(Self.use(client: nil, at: minute))
        log.count(Self.use(at: minute + .seconds(60)))
        await log.close()
        let rows = try rows("SELECT * FROM token_use ORDER BY minute, client")
        #expect(rows.count == 3)
        #expect(rows[1]["client"] == "cron")
        #expect(rows[1]["requests"] == 7)
        #expect(rows[1]["bytes_received"] == 70)
        #expect(rows[1]["bytes_sent"] == 700)
        #expect(rows[1]["minute"] == "2026-03-01T09:30:00.000Z")
    }

    @Test func theServiceWritesUsageAsTimePasses() async throws {
        let log = try fixture.open()
        let service = Task { await log.run() }
        log.count(Self.use(at: fixture.clock.now().wall))
        try await fixture.clock.untilAsleep()
        fixture.clock.advance(by: .seconds(10))
        try await fixture.clock.untilAsleep(moreThan: .seconds(9))
        #expect(try rows("SELECT * FROM token_use").count == 1)
        log.count(Self.use("other", at: fixture.clock.now().wall))
        service.cancel()
        await service.value
        #expect(try rows("SELECT * FROM token_use").count == 2)
    }

    @Test func tooManyDifferentUsesAreDroppedAndCounted() async throws {
        let log = try fixture.open()
        let minute = fixture.clock.now().wall
        for generation in 1...(UsageCounts.limit + 5) { log.count(Self.use(generation: generation, at: minute)) }
        #expect(log.droppedUses == 5)
        log.count(Self.use(generation: 1, at: minute))
        #expect(log.droppedUses == 5)
    }

    @Test func usageThatCannotBeWrittenIsKept() async throws {
        let log = try fixture.open(busyTimeout: .milliseconds(50))
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: fixture.path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        log.count(Self.use(requests: 3, at: fixture.clock.now().wall))
        await log.flushUsage()
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        await log.flushUsage()
        #expect(try rows("SELECT requests FROM token_use").first?["requests"] == 3)
    }

    @Test func theHistoryShowsTheLastGoodTokenTheLastFailureAndTheCalls() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event(.acquired, generation: 1))
        try await log.record(fixture.event(.renewalFailed, generation: 1, outcome: .failed))
        try await log.record(fixture.event(.renewed, generation: 2))
        // Of a request, not of the credential that it went with.
        try await log.record(fixture.event(.requestFailed, generation: 2, outcome: .failed))
        log.count(Self.use(generation: 1, requests: 5, at: fixture.clock.now().wall))
        log.count(Self.use(generation: 2, requests: 6, at: fixture.clock.now().wall))
        await log.flushUsage()
        let history = try rows("SELECT * FROM credential_history")
        #expect(history.count == 1)
        let box = try #require(history.first)
        #expect(box["credential"] == "box")
        #expect(box["last_good_event"] == "renewed")
        #expect(box["last_good_generation"] == 2)
        #expect(box["last_failure_event"] == "renewal_failed")
        #expect(box["last_failure_error_code"] == "invalid_grant")
        #expect(box["calls_per_generation"] == #"{"1":5,"2":6}"#)
        let stats = try await fixture.reader.stats()
        #expect(stats.credentials[0].failures == 1 && stats.credentials[0].lastFailureCode == "invalid_grant")
    }

    @Test func retentionRemovesTheOldestRowsAndTheRestStillVerifies() async throws {
        let log = try fixture.open(retention: .seconds(3600))
        for number in 1...10 {
            try await log.record(fixture.event(generation: number))
            fixture.clock.advance(by: .seconds(600))
        }
        log.count(Self.use(at: fixture.clock.now().wall + .seconds(-7200)))
        await log.flushUsage()
        await log.prune()
        #expect(try await fixture.reader.query(AuditFilter()).map(\.id) == Array(5...10))
        #expect(try rows("SELECT * FROM token_use").isEmpty)
        try await log.record(fixture.event(generation: 11))
        fixture.clock.advance(by: .seconds(86_400))
        await log.prune()
        #expect(try await fixture.reader.query(AuditFilter()).map(\.id) == [11], "the newest row stays")
        try await log.record(fixture.event(generation: 12))
        await log.close()
        let verification = try await fixture.verify()
        #expect(verification.breach == nil)
        #expect(verification.prunedTo == 10)
        #expect(verification.rows == 2)

        let again = try fixture.open()
        try await again.record(fixture.event(generation: 13))
        await again.close()
        #expect(try await fixture.verify().lastRow == 13)
    }

    @Test func usageIsRemovedWhereNoEventIsOldEnough() async throws {
        let log = try fixture.open(retention: .seconds(3600))
        log.count(Self.use(at: fixture.clock.now().wall + .seconds(-7200)))
        await log.flushUsage()
        await log.prune()
        #expect(try rows("SELECT * FROM token_use").isEmpty)
        await log.close()
    }

    @Test func aRowThatWasEditedIsNotRemovedByRetention() async throws {
        let log = try fixture.open(retention: .seconds(60))
        for number in 1...5 { try await log.record(fixture.event(generation: number)) }
        try fixture.tamper("UPDATE token_events SET outcome = 'x' WHERE id = 2")
        fixture.clock.advance(by: .seconds(600))
        await log.prune()
        await log.close()
        #expect(try await fixture.reader.query(AuditFilter()).map(\.id) == Array(1...5))
        #expect(try await fixture.verify().breach?.row == 2)
    }

    @Test func manyRowsAreRemovedInPieces() async throws {
        let log = try fixture.open(retention: .seconds(60))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...4500 {
                group.addTask { try await log.record(fixture.event(generation: number)) }
                if number.isMultiple(of: 1000) { try await group.waitForAll() }
            }
            try await group.waitForAll()
        }
        fixture.clock.advance(by: .seconds(600))
        await log.prune()
        await log.close()
        let verification = try await fixture.verify()
        #expect(verification.breach == nil)
        #expect(verification.prunedTo == 4499)
        #expect(try rows("SELECT * FROM audit_checkpoints").count == 3)
    }

    @Test(arguments: [
        "DELETE FROM token_events WHERE id = 5", "UPDATE audit_checkpoints SET pruned_to_id = 5",
        "DELETE FROM audit_checkpoints", "UPDATE audit_checkpoints SET at = 'x'",
        "UPDATE audit_checkpoints SET pruned_to_id = 5, pruned_to_hash = (SELECT hash FROM token_events WHERE id = 5);"
            + "DELETE FROM token_events WHERE id = 5",
        "INSERT INTO audit_checkpoints SELECT 2, at, 6, (SELECT hash FROM token_events WHERE id = 6), hash, hash "
            + "FROM audit_checkpoints; DELETE FROM token_events WHERE id <= 6",
    ])
    func aDeletionCannotBePassedOffAsRetention(_ sql: String) async throws {
        let log = try fixture.open(retention: .seconds(3600))
        for number in 1...10 {
            try await log.record(fixture.event(generation: number))
            fixture.clock.advance(by: .seconds(600))
        }
        await log.prune()
        await log.close()
        #expect(try await fixture.verify().isIntact)
        try fixture.tamper(sql)
        #expect(try await fixture.verify().isIntact == false)
    }
}
