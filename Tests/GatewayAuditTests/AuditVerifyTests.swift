import Foundation
import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import Testing

@testable import GatewayAudit

@Suite("Audit verification", .timeLimit(.minutes(5)))
struct AuditVerifyTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    @Test func anEmptyLogIsIntact() async throws {
        await (try fixture.open()).close()
        let verification = try await fixture.verify()
        #expect(verification.isIntact)
        #expect(verification.rows == 0 && verification.prunedTo == 0)
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
        case "detail": try fixture.tamper("UPDATE token_events SET detail = '{\"host\":\"x\"}' WHERE id = 3")
        default: try fixture.tamper("UPDATE token_events SET \"\(column)\" = 'x' WHERE id = 3")
        }
        let breach = try #require(try await fixture.verify().breach)
        #expect(breach.row == 3)
        #expect(column == "id" ? breach.fault == .missing : [.changed, .moved].contains(breach.fault))
    }

    /// The column `client_request_id` is worked out from the detail.
    @Test func aDetailThatIsNoJSONIsFoundAndHindersNoQuery() async throws {
        try await fixture.write(5)
        try fixture.tamper("UPDATE token_events SET detail = 'x' WHERE id = 3")
        let breach = try #require(try await fixture.verify().breach)
        #expect(breach.row == 3 && breach.fault == .changed)
        #expect(try await fixture.reader.query(AuditFilter()).map(\.id) == [1, 2, 3, 4, 5])
        #expect(try await fixture.reader.query(AuditFilter(request: "r-1")).map(\.id) == [1, 2, 3, 4, 5])
        let ids = try await DatabaseQueue(path: fixture.path).read {
            try String?.fetchAll($0, sql: "SELECT client_request_id FROM token_events")
        }
        #expect(ids == [nil, nil, nil, nil, nil])
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

@Suite("Encoding of rows", .timeLimit(.minutes(5)))
struct ChainEncodingTests {
    private static let values: [DatabaseValue] = [
        .null, 0.databaseValue, 7.databaseValue, (-7).databaseValue, Int64.max.databaseValue, Int64.min.databaseValue,
        1.5.databaseValue, (-0.0).databaseValue, "".databaseValue, "7".databaseValue, "né\u{1F600}".databaseValue,
        String(repeating: "x", count: 1000).databaseValue, Data([0, 1, 0xFF]).databaseValue,
    ]

    private static func encoding(_ value: DatabaseValue) -> [UInt8] {
        var encoding = ChainEncoding()
        encoding.add(value)
        return encoding.bytes
    }

    /// What is written is hashed from values, and what is verified from columns.
    @Test(arguments: values)
    func aColumnIsEncodedAsItsValue(_ value: DatabaseValue) throws {
        let database = try DatabaseQueue()
        try database.read { database in
            try StatementRow.forEach(of: "SELECT ?", arguments: [value], in: database) { row in
                var encoding = ChainEncoding()
                encoding.add(0, of: row)
                #expect(encoding.bytes == Self.encoding(value))
            }
        }
    }

    @Test func noTwoValuesAreEncodedAlike() {
        #expect(Set(Self.values.map(Self.encoding)).count == Self.values.count)
    }

    /// Logs that exist were hashed over these.
    @Test func theEncodingStaysWhatItWas() {
        #expect(Self.encoding(.null) == Array("n:".utf8))
        #expect(Self.encoding((-120).databaseValue) == Array("i-120:".utf8))
        #expect(Self.encoding(1.5.databaseValue) == Array("d4609434218613702656:".utf8))
        #expect(Self.encoding("né".databaseValue) == Array("t3:né".utf8))
        #expect(Self.encoding(Data("ab".utf8).databaseValue) == Array("b2:ab".utf8))
    }

    @Test func nothingOfTheRowBeforeIsLeft() {
        var encoding = ChainEncoding()
        encoding.add("before".databaseValue)
        encoding.removeAll()
        encoding.add(1.databaseValue)
        #expect(encoding.bytes == Array("i1:".utf8))
    }
}

@Suite("The name of a chain", .timeLimit(.minutes(1)))
struct ChainNameTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    @Test func itIsMadeOnceAndStays() async throws {
        let log = try fixture.open()
        let name = log.chainName
        #expect(Hexadecimal.bytes(of: name)?.count == 8)
        await log.close()
        let again = try fixture.open()
        #expect(again.chainName == name)
        await again.close()
        let other = try AuditFixture().open()
        #expect(other.chainName != name)
        await other.close()
    }

    @Test func aRestoredLogTakesAnotherOne() async throws {
        let log = try fixture.open()
        let name = log.chainName
        await log.close()
        var options = SQLiteAuditLog.Options(path: fixture.path, instance: "gw-1")
        options.takesNewChainName = true
        let restored = try fixture.open(options)
        let next = restored.chainName
        #expect(next != name)
        await restored.close()
        let again = try fixture.open()
        #expect(again.chainName == next)
        await again.close()
    }

    @Test func aNameThatWasChangedIsReplaced() async throws {
        let log = try fixture.open()
        await log.close()
        try fixture.tamper("UPDATE audit_log SET value = 'x''y' WHERE name = 'chain'")
        let again = try fixture.open()
        #expect(Hexadecimal.bytes(of: again.chainName)?.count == 8)
        await again.close()
    }

    @Test func eachReaderIsToldOfCommits() async throws {
        let log = try fixture.open()
        var readers = [log.headChanges.makeAsyncIterator(), log.headChanges.makeAsyncIterator()]
        try await log.record(fixture.event())
        for index in readers.indices { #expect(await readers[index].next() != nil) }
        await log.close()
        for index in readers.indices { #expect(await readers[index].next() == nil) }
        var late = log.headChanges.makeAsyncIterator()
        #expect(await late.next() == nil)
    }
}
