import Foundation
import GRDB
import GatewayCore
import Testing

@testable import GatewayAudit

@Suite("Audit verification", .timeLimit(.minutes(5)))
struct AuditVerifyTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    @Test func anEmptyLogIsIntact() async throws {
        await (try fixture.open()).close()
        #expect(try await fixture.verify() == AuditVerification(rows: 0, prunedTo: 0))
    }

    @Test func aLogIsVerifiedWhileItIsWritten() async throws {
        let log = try fixture.open()
        for number in 1...50 {
            try await log.record(fixture.event(generation: number))
            let verification = try await fixture.verify()
            #expect(verification.isIntact)
            #expect(verification.rows == number)
        }
    }

    @Test(arguments: AuditSchema.allColumns)
    func anEditOfAnyColumnIsFound(_ column: String) async throws {
        try await fixture.write(5)
        switch column {
        case "id": try fixture.tamper("UPDATE token_events SET id = 77 WHERE id = 3")
        case "generation", "http_status", "duration_ms", "waiters":
            try fixture.tamper("UPDATE token_events SET \(column) = 999 WHERE id = 3")
        default: try fixture.tamper("UPDATE token_events SET \"\(column)\" = 'x' WHERE id = 3")
        }
        let breach = try #require(try await fixture.verify().breach)
        #expect(breach.row == 3)
        #expect(column == "id" ? breach.fault == .missing : [.changed, .moved].contains(breach.fault))
    }

    @Test(arguments: ["credential", "trigger", "client", "http_status", "token_fingerprint"])
    func anEmptiedColumnIsFound(_ column: String) async throws {
        try await fixture.write(3)
        try fixture.tamper("UPDATE token_events SET \"\(column)\" = NULL WHERE id = 1")
        #expect(try await fixture.verify().breach?.fault == .changed)
    }

    @Test(arguments: [(1, 1), (3, 3), (2, 4), (5, 5), (4, 5), (1, 5)])
    func aDeletionIsFound(_ first: Int, _ last: Int) async throws {
        try await fixture.write(5)
        try fixture.tamper("DELETE FROM token_events WHERE id BETWEEN \(first) AND \(last)")
        let breach = try #require(try await fixture.verify().breach)
        #expect(breach.fault == (last == 5 ? .cutTail : .missing))
        #expect(breach.row == Int64(first))
    }

    @Test func aDeletionWithNewNumbersIsFound() async throws {
        try await fixture.write(5)
        try fixture.tamper(
            """
            DELETE FROM token_events WHERE id = 2; UPDATE token_events SET id = 2 WHERE id = 3;
            UPDATE token_events SET id = 3 WHERE id = 4; UPDATE token_events SET id = 4 WHERE id = 5
            """
        )
        let breach = try await fixture.verify().breach
        #expect(breach?.row == 2)
        #expect(breach?.fault == .moved)
    }

    @Test func twoRowsThatChangedPlacesAreFound() async throws {
        try await fixture.write(5)
        try fixture.tamper(
            """
            UPDATE token_events SET id = 99 WHERE id = 2; UPDATE token_events SET id = 2 WHERE id = 3;
            UPDATE token_events SET id = 3 WHERE id = 99
            """
        )
        let breach = try await fixture.verify().breach
        #expect(breach?.row == 2)
        #expect(breach?.fault == .moved)
    }

    @Test func anInventedRowIsFound() async throws {
        try await fixture.write(3)
        let columns = AuditSchema.columns.dropFirst().map { "\"\($0)\"" }.joined(separator: ", ")
        try fixture.tamper(
            """
            INSERT INTO token_events (id, \(columns), previous_hash, hash)
            SELECT 4, \(columns), hash, '\(String(repeating: "ab", count: 32))' FROM token_events WHERE id = 3
            """
        )
        let breach = try await fixture.verify().breach
        #expect(breach?.row == 4)
        #expect(breach?.fault == .changed)
    }

    @Test(arguments: [Int64.min, -1, 0])
    func aRowBeforeTheFirstIsFound(_ id: Int64) async throws {
        try await fixture.write(3)
        try fixture.tamper("UPDATE token_events SET id = \(id) WHERE id = 2")
        let breach = try await fixture.verify().breach
        #expect(breach?.row == id)
        #expect(breach?.fault == .moved)
    }

    /// `WHERE credential = 'box'` no longer finds such a row, although every reader shows the text as it was.
    @Test(arguments: ["credential", "event", "detail", "hash", "previous_hash"])
    func textBehindANULByteIsFound(_ column: String) async throws {
        try await fixture.write(3)
        try fixture.tamper("UPDATE token_events SET \(column) = \(column) || char(0) || 'x' WHERE id = 2")
        let breach = try await fixture.verify().breach
        #expect(breach?.row == 2)
        #expect(breach?.fault == .changed)
    }

    @Test func aLostWriteAheadLogIsACutTail() async throws {
        let log = try fixture.open()
        for number in 1...5 { try await log.record(fixture.event(generation: number)) }
        await log.close()
        let copy = fixture.directory.file("copy.sqlite")
        try FileManager.default.copyItem(atPath: fixture.path, toPath: copy)
        let again = try fixture.open()
        try await again.record(fixture.event(generation: 6))
        await again.close()
        try FileManager.default.copyItem(atPath: fixture.head, toPath: copy + ".head")
        let breach = try await AuditReader(path: copy).verify(keys: fixture.keys).breach
        #expect(breach?.fault == .cutTail)
        #expect(breach?.row == 6)
    }

    @Test func aTruncatedWriteAheadLogIsACutTail() async throws {
        let log = try fixture.open()
        for number in 1...20 { try await log.record(fixture.event(generation: number)) }
        try await #require(log.database).writeWithoutTransaction { _ in log.exportHead() }
        let copy = try AuditCopy(of: fixture, name: "copy.sqlite", withHead: true)
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: copy.path + "-wal"))
        try file.truncate(atOffset: file.seekToEnd() - 100)
        try file.close()
        let breach = try await copy.reader.verify(keys: fixture.keys).breach
        #expect(breach?.fault == .cutTail)
        let error = #expect(throws: AuditError.self) { try copy.open() }
        #expect(error?.reason.contains("audit verify") == true)
    }

    @Test func anotherKeyIsToldFromTampering() async throws {
        try await fixture.write(3)
        #expect(try await fixture.verify(keys: AuditFixture.keys(9)).breach?.fault == .foreignKey)
        let error = #expect(throws: AuditError.self) { try fixture.open(keys: AuditFixture.keys(9)) }
        #expect(error?.reason.contains("token.key") == true)
        #expect(try await fixture.verify().isIntact)
    }

    @Test func aHeadFileThatLagsBehindIsNoFault() async throws {
        try await fixture.write(3)
        let old = try Data(contentsOf: URL(fileURLWithPath: fixture.head))
        try await fixture.write(2)
        try old.write(to: URL(fileURLWithPath: fixture.head))
        let verification = try await fixture.verify()
        #expect(verification.isIntact)
        #expect(verification.rows == 5)
        try await fixture.write(1)
        #expect(try await fixture.verify().rows == 6)
    }

    @Test func theHeadFileCannotBeLostOrForged() async throws {
        try await fixture.write(5)
        let head = URL(fileURLWithPath: fixture.head)
        let good = try Data(contentsOf: head)

        try FileManager.default.removeItem(at: head)
        #expect(try await fixture.verify().breach?.fault == .headMissing)
        #expect(throws: AuditError.self) { try fixture.open() }

        try Data("{}".utf8).write(to: head)
        #expect(try await fixture.verify().breach?.fault == .headChanged)
        #expect(throws: AuditError.self) { try fixture.open() }

        // The tail is cut, and the head file is made to fit with what the table itself says.
        let hash = try await fixture.reader.query(AuditFilter()).first { $0.id == 4 }?.hash
        let stored = try JSONDecoder().decode(AuditHead.self, from: good)
        try fixture.tamper("DELETE FROM token_events WHERE id = 5")
        let forged = #"{"authentication":"\#(stored.authentication)","hash":"\#(try #require(hash))","id":4}"#
        try Data(forged.utf8).write(to: head)
        #expect(try await fixture.verify().breach?.fault == .headChanged)
    }

    @Test func aTailThatWasCutWhileTheGatewayWasDownKeepsItFromGoingOn() async throws {
        try await fixture.write(5)
        try fixture.tamper("DELETE FROM token_events WHERE id > 3")
        let error = #expect(throws: AuditError.self) { try fixture.open() }
        #expect(error?.reason.contains("audit verify") == true)
        #expect(try await fixture.verify().breach?.fault == .cutTail, "the attempt hid nothing")
    }

    @Test func aTailThatIsCutWhileTheGatewayRunsStopsTheLog() async throws {
        let log = try fixture.open()
        for number in 1...5 { try await log.record(fixture.event(generation: number)) }
        try fixture.tamper("DELETE FROM token_events WHERE id > 3")
        await #expect(throws: AuditError.self) { try await log.record(fixture.event()) }
        await log.close()
        #expect(try await fixture.verify().breach?.fault == .cutTail)
    }

    @Test func aDroppedGuardIsReported() async throws {
        try await fixture.write(2)
        let database = try DatabaseQueue(path: fixture.path)
        try await database.write { try $0.execute(sql: "DROP TRIGGER token_events_refuse_delete") }
        #expect(try await fixture.verify().breach?.fault == .unguarded)
    }

    @Test func rowsOfAnUnexpectedTypeAreAFindingAndNotACrash() async throws {
        try await fixture.write(2)
        try fixture.tamper(
            """
            CREATE TABLE copy AS SELECT * FROM token_events; DROP TABLE token_events;
            CREATE TABLE token_events AS SELECT * FROM copy; UPDATE token_events SET id = 'one', hash = x'00', at = 1.5
            """.replacingOccurrences(of: "DROP TABLE token_events;", with: "ALTER TABLE token_events RENAME TO old;")
        )
        #expect(try await fixture.verify().isIntact == false)
        await #expect(throws: AuditError.self) { try await fixture.reader.tail(last: 5) }
    }

    /// Whatever is wrong with the file, it is found, or it changed nothing that counts; and nothing traps.
    @Test func aFlippedByteAnywhereIsFoundOrHarmless() async throws {
        try await fixture.write(12)
        let content = try Data(contentsOf: URL(fileURLWithPath: fixture.path))
        let rows = try await fixture.reader.query(AuditFilter())
        var found = 0
        for offset in stride(from: 0, to: content.count, by: 251) {
            var changed = content
            changed[offset] ^= 0x15
            let path = fixture.directory.file("flipped-\(offset).sqlite")
            try changed.write(to: URL(fileURLWithPath: path))
            try FileManager.default.copyItem(atPath: fixture.head, toPath: path + ".head")
            let reader = AuditReader(path: path)
            do {
                guard try await reader.verify(keys: fixture.keys).isIntact else {
                    found += 1
                    continue
                }
                #expect(try await reader.query(AuditFilter()) == rows, "the byte at \(offset)")
            } catch {
                found += 1
            }
        }
        #expect(found > 20)
    }
}
