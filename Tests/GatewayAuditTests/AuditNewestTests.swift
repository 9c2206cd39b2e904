import GatewayCore
import GatewayTesting
import Logging
import Testing

@testable import GatewayAudit

@Suite("Newest rows of the audit log", .timeLimit(.minutes(5)))
struct AuditNewestTests {
    private let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    @Test func theNewestStandFirst() async throws {
        try await fixture.write(5)
        let (rows, isWhole, endedBefore) = try await fixture.reader.newest(lookingAt: 10)
        #expect(rows.map(\.id) == [5, 4, 3, 2, 1])
        #expect(isWhole && endedBefore == nil)
    }

    @Test func noMoreAreLookedAtThanWasSaid() async throws {
        try await fixture.write(5)
        let (rows, isWhole, endedBefore) = try await fixture.reader.newest(lookingAt: 3, picking: { $0.id != 4 })
        #expect(rows.map(\.id) == [5, 3])
        #expect(!isWhole && endedBefore == 2)
        #expect(try await fixture.reader.newest(lookingAt: 5).isWhole)
    }

    @Test func aRowCanEndTheSearch() async throws {
        try await fixture.write(5)
        let (rows, isWhole, endedBefore) = try await fixture.reader.newest(lookingAt: 10, until: { $0.id <= 2 })
        #expect(rows.map(\.id) == [5, 4, 3])
        #expect(!isWhole && endedBefore == 2)
    }

    @Test func anObserverIsToldOfRowsAsTheyStandInTheLog() async throws {
        let told = Watched<[AuditRow]>([])
        let log = try SQLiteAuditLog(
            options: SQLiteAuditLog.Options(path: fixture.path, instance: "gw-1"),
            keys: fixture.keys,
            clock: fixture.clock,
            logger: Logger(label: "audit") { _ in SwiftLogNoOpLogHandler() },
            observer: { rows in told.update { $0 += rows } }
        )
        var evil = fixture.event(.acquired)
        evil.detail = ["reason": "a\nforged line"]
        try await log.record(evil)
        try await log.record(fixture.event(.renewed))
        let rows = try await told.until { $0.count == 2 }
        #expect(rows == (try await fixture.reader.query(AuditFilter())))
        #expect(!rows[0].detail.contains("\n"))
    }
}
