import Foundation
import GRDB
import GatewayCore
import Testing

@testable import GatewayAudit

@Suite("Copies of the audit log", .timeLimit(.minutes(5)))
struct AuditSnapshotTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private var target: String { fixture.directory.file("copy.sqlite") }

    @Test func theChainOfACopyIsWholeWhileTheLogGoesOn() async throws {
        let log = try fixture.open()
        for _ in 0..<3 { try await log.record(fixture.event()) }
        let writer = Task {
            for _ in 0..<200 where !Task.isCancelled { try await log.record(fixture.event()) }
        }
        let copy = try AuditSnapshot.make(fixture.path, to: target, keys: fixture.keys)
        writer.cancel()
        _ = try? await writer.value
        await log.close()
        #expect(copy.lastRow >= 3)
        #expect(copy.schema == AuditSchema.version)
        let verification = try await AuditReader(path: target).verify(keys: fixture.keys)
        #expect(verification.breach == nil)
        #expect(verification.lastRow == copy.lastRow)
        let opened = try AuditReader.open(target)
        let mode = try await opened.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") }
        #expect(mode == "delete", "it is one file")
    }

    @Test func theHeadOfACopyShowsACutEnd() async throws {
        let log = try fixture.open()
        for _ in 0..<3 { try await log.record(fixture.event()) }
        await log.close()
        _ = try AuditSnapshot.make(fixture.path, to: target, keys: fixture.keys)
        let database = try DatabaseQueue(path: target)
        try await database.write { database in
            try database.execute(sql: "DROP TRIGGER token_events_refuse_delete; DELETE FROM token_events WHERE id = 3")
        }
        try database.close()
        #expect(try await AuditReader(path: target).verify(keys: fixture.keys).breach != nil)
    }

    @Test func tablesOfANewerVersionAreRefused() async throws {
        await (try fixture.open()).close()
        let newer = AuditSchema.version + 1
        let database = try DatabaseQueue(path: fixture.path)
        try await database.write { try $0.execute(sql: "PRAGMA user_version = \(newer)") }
        try database.close()
        let refusal = #expect(throws: AuditError.self) { try fixture.open() }
        #expect(refusal?.reason.contains("newer authgateway (schema \(newer);") == true)
        await #expect(throws: AuditError.self) { try await fixture.reader.tail(last: 1) }
        #expect(throws: AuditError.self) { try AuditSnapshot.make(fixture.path, to: target, keys: fixture.keys) }
    }
}
