import Foundation
import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import Logging
import Testing

@testable import GatewayAudit

@Suite("Audit log", .timeLimit(.minutes(5)))
struct AuditLogTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    @Test func anEventIsReadBackAsItWasRecorded() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event())
        let row = try #require(try await fixture.reader.tail(last: 10).first)
        #expect(row.id == 1)
        #expect(row.at == "2026-03-01T09:30:00.000Z")
        #expect(row.event == "acquired")
        #expect(row.credential == "box")
        #expect(row.strategy == "box_ccg")
        #expect(row.subject == "enterprise:12345")
        #expect(row.generation == 1)
        #expect(row.trigger == "demand")
        #expect(row.route == "files")
        #expect(row.client == "cron")
        #expect(row.requestID == "r-1")
        #expect(row.outcome == "ok")
        #expect(row.httpStatus == 200)
        #expect(row.errorCode == nil)
        #expect(row.expiresAt == "2026-03-01T10:30:00.000Z")
        #expect(row.durationMilliseconds == 120)
        #expect(row.waiters == 3)
        #expect(row.instance == "gw-1")
        #expect(row.detail == #"{"host":"api.example"}"#)
        #expect(row.tokenFingerprint?.count == 12)
    }

    @Test func equalTokensHaveEqualFingerprintsAndOtherKeysOtherOnes() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event(.acquired, generation: 1))
        try await log.record(fixture.event(.injected, generation: 1))
        try await log.record(fixture.event(.renewed, generation: 2))
        let prints = try await fixture.reader.tail(last: 3).map(\.tokenFingerprint)
        #expect(prints[0] == prints[1])
        #expect(prints[0] != prints[2])
        #expect(AuditFixture.keys(1).fingerprint(of: "t") != AuditFixture.keys(2).fingerprint(of: "t"))
    }

    @Test func aThousandEventsAtOnceAreGaplessAndChained() async throws {
        let log = try fixture.open()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...1000 { group.addTask { try await log.record(fixture.event(generation: number)) } }
            try await group.waitForAll()
        }
        let rows = try await fixture.reader.query(AuditFilter())
        #expect(rows.map(\.id) == Array(1...1000))
        #expect(Set(rows.compactMap(\.generation)) == Set(1...1000))
        await log.close()
        let verification = try await fixture.verify()
        #expect(verification.isIntact)
        #expect(verification.rows == 1000)
    }

    @Test func eventsThatAreRecordedTogetherKeepTheirOrder() async throws {
        let log = try fixture.open()
        try await log.record([fixture.event(generation: 1), fixture.event(.renewed, generation: 2)])
        #expect(try await fixture.reader.tail(last: 2).map(\.event) == ["acquired", "renewed"])
        await log.close()
        #expect(try await fixture.verify().isIntact)
    }

    /// A start would wait for the disk otherwise.
    ///
    /// GRDB makes and drops a table whenever it opens a file without a journal, so the counters in the header of the file differ, and
    /// the file has had a free page since it was opened a second time.
    @Test func aLogThatIsAsItShouldBeIsNotWrittenWhenItIsOpened() async throws {
        let headerSize = 100
        let (file, head) = (URL(fileURLWithPath: fixture.path), URL(fileURLWithPath: fixture.head))
        var log = try fixture.open()
        try await log.record(fixture.event())
        await log.close()
        log = try fixture.open()
        await log.close()
        let before = (try Data(contentsOf: file), FileIdentity(fixture.head), try Data(contentsOf: head))
        log = try fixture.open()
        await log.close()
        #expect(try Data(contentsOf: file).dropFirst(headerSize) == before.0.dropFirst(headerSize))
        #expect(FileIdentity(fixture.head) == before.1)
        #expect(try Data(contentsOf: head) == before.2)
    }

    @Test func anEventIsOnTheDiskBeforeRecordReturns() async throws {
        let log = try fixture.open()
        for number in 1...25 {
            try await log.record(fixture.event(generation: number))
            let copy = try AuditCopy(of: fixture, name: "copy\(number).sqlite", withHead: false)
            #expect(try await copy.reader.tail(last: 1).first?.generation == Int64(number))
        }
        let pragmas = try await #require(log.database).read { database in
            (
                try String.fetchOne(database, sql: "PRAGMA journal_mode"),
                try Int.fetchOne(database, sql: "PRAGMA synchronous")
            )
        }
        #expect(pragmas.0 == "wal")
        #expect(pragmas.1 == 2)
    }

    /// What is on the disk between two commits is what a killed process leaves.
    @Test func whatAKilledProcessLeavesVerifiesAndGoesOn() async throws {
        let log = try fixture.open()
        async let written: Void = writeAtOnce(400, to: log)
        for number in 1...20 {
            let fixture = fixture
            let copy = try await #require(log.database).writeWithoutTransaction { _ in
                try AuditCopy(of: fixture, name: "copy\(number).sqlite", withHead: true)
            }
            let verification = try await copy.reader.verify(keys: fixture.keys)
            #expect(verification.breach == nil)
        }
        try await written
        await log.close()

        let again = try fixture.open()
        try await again.record(fixture.event(.gatewayStarted))
        let copy = try AuditCopy(of: fixture, name: "last.sqlite", withHead: true)
        let survivor = try copy.open()
        try await survivor.record(fixture.event(.gatewayStarted))
        await survivor.close()
        let verification = try await copy.reader.verify(keys: fixture.keys)
        #expect(verification.isIntact)
        #expect(verification.rows == 402)
        await again.close()
    }

    private func writeAtOnce(_ count: Int, to log: SQLiteAuditLog) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...count { group.addTask { try await log.record(fixture.event(generation: number)) } }
            try await group.waitForAll()
        }
    }

    /// A process that dies in the middle of a write leaves a part of it at the end of the write-ahead log.
    @Test func aWriteThatWasBrokenOffAtAnyByteLeavesAWholeLog() async throws {
        let log = try fixture.open()
        let head = try Data(contentsOf: URL(fileURLWithPath: fixture.head))
        for number in 1...8 { try await log.record(fixture.event(generation: number)) }
        let length = try Data(contentsOf: URL(fileURLWithPath: fixture.path + "-wal")).count
        for (number, offset) in stride(from: 0, through: length, by: 3001).enumerated() {
            let copy = try AuditCopy(of: fixture, name: "copy\(number).sqlite", withHead: false)
            try head.write(to: URL(fileURLWithPath: copy.path + ".head"))
            let file = try FileHandle(forUpdating: URL(fileURLWithPath: copy.path + "-wal"))
            try file.truncate(atOffset: UInt64(offset))
            try file.close()
            let survivor = try copy.open()
            try await survivor.record(fixture.event(.gatewayStarted))
            await survivor.close()
            #expect(try await copy.reader.verify(keys: fixture.keys).breach == nil)
        }
        await log.close()
    }

    @Test func noTokenIsInAnyFile() async throws {
        let log = try fixture.open()
        for number in 1...50 { try await log.record(fixture.event(generation: number)) }
        let contents = try fixture.directory.content(of: "audit.sqlite")
        #expect(contents.count >= 3, "database, write-ahead log and head")
        for content in contents { #expect(content.range(of: Data("canary".utf8)) == nil) }
        await log.close()
        for content in try fixture.directory.content(of: "audit") {
            #expect(content.range(of: Data("canary".utf8)) == nil)
        }
        #expect(try fixture.directory.mode(of: "audit.sqlite") == 0o600)
        #expect(try fixture.directory.mode(of: "audit.sqlite.head") == 0o600)
    }

    @Test func textFromOutsideCannotForgeALine() async throws {
        let log = try fixture.open()
        var event = fixture.event()
        event.demand = CredentialRequest(
            route: "files",
            client: "evil\n2|2026-01-01|acquired\u{1B}[2J\u{202E}",
            requestID: String(repeating: "x", count: 5000)
        )
        event.detail = ["note": "a\r\nb\"c\\"]
        try await log.record(event)
        let row = try #require(try await fixture.reader.tail(last: 1).first)
        #expect(row.client == #"evil\u000a2|2026-01-01|acquired\u001b[2J\u202e"#)
        #expect((row.requestID?.count ?? 0) < 300)
        #expect(row.detail == #"{"note":"a\\u000d\\u000ab\"c\\"}"#)
        for line in [row.json, AuditFormatter().line(row)] {
            #expect(!line.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x202E })
        }
        #expect(JSONValue(Array(row.json.utf8))?["client"]?.string == row.client)
    }

    @Test func theTableRefusesUpdatesDeletionsReplacementsAndGaps() async throws {
        try await fixture.write(3)
        let database = try DatabaseQueue(path: fixture.path)
        let copy = "SELECT * FROM token_events WHERE id = 2"
        for attempt in [
            "UPDATE token_events SET outcome = 'ok'", "DELETE FROM token_events WHERE id = 3",
            "DELETE FROM token_events",
            "REPLACE INTO token_events \(copy)",
            "CREATE TEMP TABLE t AS \(copy); UPDATE t SET id = 9; INSERT INTO token_events SELECT * FROM t",
        ] {
            await #expect(throws: DatabaseError.self) { try await database.write { try $0.execute(sql: attempt) } }
        }
        let verification = try await fixture.verify()
        #expect(verification.isIntact)
        #expect(verification.rows == 3)
    }

    @Test func otherProgramsReadWhileTheLogIsWritten() async throws {
        let log = try fixture.open()
        var configuration = Configuration()
        configuration.readonly = true
        let other = try DatabaseQueue(path: fixture.path, configuration: configuration)
        for number in 1...20 {
            try await log.record(fixture.event(generation: number))
            let row = try other.read { database in
                try Row.fetchOne(
                    database,
                    sql: "select at,event,credential,generation from token_events order by id desc limit 1"
                )
            }
            #expect(row?["generation"] == number)
        }
    }

    @Test func aLockOfAnotherProgramFailsTheEventAndPasses() async throws {
        let log = try fixture.open(busyTimeout: .milliseconds(50))
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: fixture.path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let error = await #expect(throws: AuditError.self) { try await log.record(fixture.event()) }
        #expect(error?.reason.contains("locked") == true)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await log.record(fixture.event())
        await log.close()
        #expect(try await fixture.verify().rows == 1)
    }

    @Test func aFullDiskFailsTheEventAndPassesWithoutARestart() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event())
        try await #require(log.database).writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1") }
        var refused = 0
        for number in 2...200 {
            do {
                try await log.record(fixture.event(generation: number))
            } catch {
                #expect(error.reason.contains("full"))
                refused += 1
            }
        }
        #expect(refused > 0)
        try await #require(log.database).writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA max_page_count = 100000")
        }
        try await log.record(fixture.event(generation: 500))
        await log.close()
        let verification = try await fixture.verify()
        #expect(verification.isIntact)
        #expect(verification.rows == 201 - refused)
    }

    @Test func aLogThatWasMovedAwayFailsTheEventUntilItIsBack() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event())
        try FileManager.default.moveItem(atPath: fixture.path, toPath: fixture.path + ".moved")
        let error = await #expect(throws: AuditError.self) { try await log.record(fixture.event()) }
        #expect(error?.reason.contains("moved") == true)
        try FileManager.default.moveItem(atPath: fixture.path + ".moved", toPath: fixture.path)
        try await log.record(fixture.event())
        await log.close()
        #expect(try await fixture.verify().rows == 2)
    }

    @Test func twoWritersShareOneChain() async throws {
        let (one, other) = (try fixture.open(), try fixture.open())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...50 {
                group.addTask { try await one.record(fixture.event(generation: number)) }
                group.addTask { try await other.record(fixture.event(generation: number)) }
            }
            try await group.waitForAll()
        }
        await one.close()
        await other.close()
        let verification = try await fixture.verify()
        #expect(verification.isIntact)
        #expect(verification.rows == 100)
    }

    @Test func whatAKilledProcessLeftBesideTheHeadFileIsRemoved() async throws {
        let leftover = fixture.head + ".\(UUID().uuidString).new"
        try Data("half".utf8).write(to: URL(fileURLWithPath: leftover))
        try await fixture.write(1)
        #expect(!FileManager.default.fileExists(atPath: leftover))
        #expect(try await fixture.verify().isIntact)
    }

    @Test func aClosedLogRefusesEvents() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event())
        await log.close()
        await log.close()
        await #expect(throws: AuditError("the audit log is closed")) { try await log.record(fixture.event()) }
    }

    @Test func aDirectoryThatCannotBeMadeIsExplained() throws {
        try Data().write(to: URL(fileURLWithPath: fixture.directory.file("file")))
        var options = SQLiteAuditLog.Options(path: fixture.directory.file("file/audit.sqlite"), instance: "gw-1")
        options.recordsUsage = false
        let error = #expect(throws: AuditError.self) {
            try SQLiteAuditLog(
                options: options,
                keys: fixture.keys,
                clock: fixture.clock,
                logger: .init(label: "audit")
            )
        }
        #expect(error?.reason.contains("file/audit.sqlite") == true)
    }
}

/// The files of a log as they are at one moment, as a crash would leave them.
struct AuditCopy {
    let path: String
    private let fixture: AuditFixture

    init(of fixture: AuditFixture, name: String, withHead: Bool) throws {
        self.fixture = fixture
        path = fixture.directory.file(name)
        if withHead { try FileManager.default.copyItem(atPath: fixture.head, toPath: path + ".head") }
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: fixture.path + suffix, toPath: path + suffix)
        }
    }

    var reader: AuditReader { AuditReader(path: path) }

    func open() throws(AuditError) -> SQLiteAuditLog {
        try SQLiteAuditLog(
            options: SQLiteAuditLog.Options(path: path, instance: "gw-1"),
            keys: fixture.keys,
            clock: fixture.clock,
            logger: .init(label: "audit")
        )
    }
}

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
