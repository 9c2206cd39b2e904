import Foundation
import GRDB
import GatewayCore
import GatewaySQLite
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayAudit

@Suite("Audit of single requests", .timeLimit(.minutes(5)))
struct AuditRequestTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func request(_ id: String = "r-1", status: Int = 200, problem: ProblemKind? = nil) -> RequestUse {
        RequestUse(
            at: fixture.clock.now().wall,
            requestID: id,
            route: "files",
            client: "cron",
            method: "GET",
            status: status,
            problem: problem,
            credential: "box",
            generation: 3,
            bytesReceived: 10,
            bytesSent: 100,
            duration: .milliseconds(12)
        )
    }

    private func read(_ filter: AuditFilter = AuditFilter()) async throws -> [AuditRequestRow] {
        let rows = Rows()
        try await fixture.reader.forEachRequest(filter) { row in rows.all.withLock { $0.append(row) } }
        return rows.all.withLock { $0 }
    }

    private final class Rows: Sendable {
        let all = Mutex<[AuditRequestRow]>([])
    }

    @Test func requestsAreWrittenOneByOneAndReadWithFilters() async throws {
        let log = try fixture.open()
        #expect(log.keep([request("r-1"), request("r-2", status: 502, problem: .upstreamUnreachable)]) == 0)
        #expect(log.keep([request("evil\n\u{1B}[2J")]) == 0)
        await log.close()
        let rows = try await read()
        #expect(rows.map(\.requestID) == ["r-1", "r-2", "evil\\u000a\\u001b[2J"])
        #expect(rows[0].json.hasPrefix(#"{"id":1,"at":"2026-03-01T09:30:00.000Z","request_id":"r-1","route":"files""#))
        #expect(rows[0].generation == 3 && rows[0].durationMilliseconds == 12 && !rows[0].failed)
        #expect(try await read(AuditFilter(failedOnly: true)).map(\.requestID) == ["r-2"])
        #expect(try await read(AuditFilter(credential: "other")).isEmpty)
        #expect(try await read(AuditFilter(since: fixture.clock.now().wall + .seconds(1))).isEmpty)
    }

    @Test func theChainIsNotTouched() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event())
        for number in 0..<5000 { _ = log.keep([request("r-\(number)")]) }
        try await log.record(fixture.event(generation: 2))
        await log.close()
        let verification = try await fixture.verify()
        #expect(verification.isIntact && verification.rows == 2)
        #expect(try await read().count == 5000)
    }

    @Test func whatCannotBeWrittenWaitsAndIsLostBeyondTheLimit() async throws {
        let log = try fixture.open(busyTimeout: .milliseconds(50))
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: fixture.path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let many = (0..<PendingRequests.limit).map { request("r-\($0)") }
        #expect(log.keep(many) == 0)
        await log.flushRequests()
        #expect(log.keep([request("late"), request("later")]) == 2)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        await log.flushRequests()
        #expect(log.keep([request("after")]) == 0)
        await log.close()
        let rows = try await read()
        #expect(rows.count == PendingRequests.limit + 1)
        #expect(rows.last?.requestID == "after")
    }

    @Test func retentionRemovesTheOldestRequests() async throws {
        let log = try fixture.open(retention: .seconds(3600))
        let old = (0..<12_000).map { request("old-\($0)") }
        #expect(log.keep(old) == 0)
        fixture.clock.advance(by: .seconds(3000))
        #expect(log.keep([request("new")]) == 0)
        await log.flushRequests()
        fixture.clock.advance(by: .seconds(1200))
        await log.prune()
        #expect(try await read().map(\.requestID) == ["new"])
        fixture.clock.advance(by: .seconds(7200))
        await log.prune()
        await log.close()
        #expect(try await read().isEmpty)
    }

    @Test func aLogOfAnEarlierVersionHasNone() async throws {
        try await fixture.write(1)
        try fixture.tamper("DROP TABLE token_requests")
        #expect(try await read().isEmpty)
        #expect(try await fixture.verify().isIntact)
    }
}

extension SQLiteAuditLog {
    fileprivate func flushRequests() async {
        try? await writer.perform(within: .seconds(60)) { self.writeAllRequests() }
    }
}
