import Crypto
import Foundation
import GRDB
import GatewayHTTP

#if !FUZZER
    @testable import GatewayAudit
#endif

/// The verifier answers for every file, and never finds a log whole that is not as it was written.
///
/// The first byte of the input chooses how the log is changed: row by row, or byte by byte in the file.
func fuzzAudit(_ bytes: [UInt8]) {
    guard let first = bytes.first else { return }
    if first.isMultiple(of: 2) {
        editedRows.run(Edits(bytes.dropFirst()))
    } else {
        damagedFile.run(Array(bytes.dropFirst()))
    }
}

private let editedRows = EditedRows()
private let damagedFile = DamagedFile()

/// What the verifier reads, in SQL that shows each byte and each type.
private struct Content: Equatable {
    let rows: [String]
    let head: AuditHead.Stored

    init(_ database: Database, head: AuditHead.Stored) throws {
        var rows: [String] = []
        for (table, columns) in [
            ("token_events", AuditSchema.allColumns),
            ("audit_checkpoints", AuditSchema.checkpointColumns),
            ("audit_log", ["value"]),
        ] {
            // Doubles with all their digits; hex() would round them.
            let parts = columns.map {
                "typeof(\"\($0)\") || CASE typeof(\"\($0)\") WHEN 'real' THEN printf('%!.17g', \"\($0)\") ELSE hex(\"\($0)\") END"
            }
            let order = columns[0]
            rows += try String.fetchAll(
                database,
                sql:
                    "SELECT '\(table) ' || \(parts.joined(separator: " || ' ' || ")) FROM \(table) ORDER BY \"\(order)\""
            )
        }
        self.rows = rows
        self.head = head
    }
}

/// Rows 4 to 8 behind a checkpoint, as the gateway writes them.
private struct Log {
    static let chain = AuditChain(key: SymmetricKey(data: [UInt8](repeating: 7, count: 32)))
    static let head = AuditHead(id: 8, hash: events[4][AuditSchema.allColumns.count - 1].textForFuzzer, chain: chain)

    static let checkpoint: [DatabaseValue] = {
        let values = [
            1.databaseValue, "2026-01-01T00:00:00.000Z".databaseValue, 3.databaseValue,
            String(repeating: "3", count: 64).databaseValue,
        ]
        let hash = chain.hash(ofCheckpoint: values, after: AuditChain.genesis)
        return values + [AuditChain.genesis.databaseValue, hash.databaseValue]
    }()

    static let events: [[DatabaseValue]] = {
        var previous = String(repeating: "3", count: 64)
        return (4...8).map { id in
            var values: [DatabaseValue] = AuditSchema.columns.map { "\($0)-\(id)".databaseValue }
            values[0] = id.databaseValue
            for column in [6, 12, 15, 16] { values[column] = (id * 100 + column).databaseValue }
            if id == 5 { for column in [3, 7, 12] { values[column] = .null } }
            let hash = chain.hash(ofEvent: values, after: previous)
            defer { previous = hash }
            return values + [previous.databaseValue, hash.databaseValue]
        }
    }()

    static func insert(into database: Database) throws {
        let places = AuditSchema.allColumns.map { _ in "?" }.joined(separator: ", ")
        try database.execute(
            sql: "INSERT INTO audit_checkpoints VALUES (?, ?, ?, ?, ?, ?)",
            arguments: StatementArguments(checkpoint)
        )
        for event in events {
            try database.execute(
                sql: "INSERT INTO token_events VALUES (\(places))",
                arguments: StatementArguments(event)
            )
        }
        try database.execute(
            sql: "INSERT INTO audit_log VALUES ('key_check', ?)",
            arguments: [chain.keyCheck.databaseValue]
        )
    }
}

extension DatabaseValue {
    fileprivate var textForFuzzer: String {
        guard case .string(let text) = storage else { preconditionFailure("a hash is a text") }
        return text
    }
}

/// The input as a list of changes.
private struct Edits {
    private var bytes: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

    var isEmpty: Bool { bytes.isEmpty }

    mutating func number(below limit: Int) -> Int { Int(bytes.popFirst() ?? 0) % limit }

    mutating func text() -> [UInt8] {
        let count = min(number(below: 32), bytes.count)
        defer { bytes = bytes.dropFirst(count) }
        return Array(bytes.prefix(count))
    }

    /// An expression of SQL for a column of a table with these columns.
    mutating func value(for column: String, in columns: [String]) -> String {
        switch number(below: 9) {
        case 0: return "NULL"
        case 1: return String(number(below: 256))
        case 2: return ["-9223372036854775808", "9223372036854775807", "-1", "4", "8", "9"][number(below: 6)]
        case 3: return ["1e308", "4.0", "0.5", "-0.0"][number(below: 4)]
        case 4: return "CAST(x'\(Hexadecimal.text(of: text()))' AS TEXT)"
        case 5: return "x'\(Hexadecimal.text(of: text()))'"
        case 6: return "\"\(columns[number(below: columns.count)])\""
        case 7: return "\"\(column)\" || CAST(x'\(Hexadecimal.text(of: text()))' AS TEXT)"
        default: return "'\(String(repeating: "0", count: 64))'"
        }
    }
}

/// Tables without types and guards, since whoever edits a file is held by neither.
private struct EditedRows {
    let database: DatabaseQueue
    let original: Content

    init() {
        do {
            database = try DatabaseQueue()
            original = try database.write { database in
                try database.execute(
                    sql: """
                        CREATE TABLE token_events (\(AuditSchema.columnList));
                        CREATE TABLE audit_checkpoints (id, at, pruned_to_id, pruned_to_hash, previous_hash, hash);
                        CREATE TABLE audit_log (name, value);
                        """
                )
                // Only their text: triggers that fire would refuse the edits.
                try database.execute(sql: "PRAGMA writable_schema = ON")
                for (name, text) in AuditSchema.guards {
                    try database.execute(
                        sql: """
                            INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql)
                            VALUES ('trigger', ?, 'token_events', 0, ?)
                            """,
                        arguments: [name, text]
                    )
                }
                try Log.insert(into: database)
                return try Content(database, head: .head(Log.head))
            }
        } catch {
            fatalError("no log: \(error)")
        }
    }

    func run(_ edits: Edits) {
        var edits = edits
        do {
            try database.inDatabase { database in
                try database.inTransaction { () -> Database.TransactionCompletion in
                    var head = AuditHead.Stored.head(Log.head)
                    for _ in 0..<8 where !edits.isEmpty { try apply(&edits, database, &head) }
                    let found = try AuditVerifier(chain: Log.chain, head: head, evidence: AuditEvidence()).verify(
                        database
                    )
                    let content = try Content(database, head: head)
                    // Nothing tells a log that was taken away whole, with its head, from one that has not begun.
                    let isGone = head == .missing && content.rows.count == 1
                    precondition(found.isIntact == (content == original) || isGone, "\(found)")
                    return .rollback
                }
            }
        } catch {
            fatalError("\(error)")
        }
    }

    private func apply(_ edits: inout Edits, _ database: Database, _ head: inout AuditHead.Stored) throws {
        let row = edits.number(below: 5) + 1
        let column = AuditSchema.allColumns[edits.number(below: AuditSchema.allColumns.count)]
        switch edits.number(below: 9) {
        case 0, 1, 2:
            let value = edits.value(for: column, in: AuditSchema.allColumns)
            try database.execute(sql: "UPDATE token_events SET \"\(column)\" = \(value) WHERE rowid = \(row)")
        case 3: try database.execute(sql: "DELETE FROM token_events WHERE rowid = \(row)")
        case 4: try database.execute(sql: "INSERT INTO token_events SELECT * FROM token_events WHERE rowid = \(row)")
        case 5:
            let other = edits.number(below: 5) + 1
            try database.execute(
                sql: """
                    UPDATE token_events SET "\(column)" = (SELECT "\(column)" FROM token_events WHERE rowid = \(other))
                    WHERE rowid = \(row)
                    """
            )
        case 6:
            let column = AuditSchema.checkpointColumns[edits.number(below: AuditSchema.checkpointColumns.count)]
            let value = edits.value(for: column, in: AuditSchema.checkpointColumns)
            try database.execute(sql: "UPDATE audit_checkpoints SET \(column) = \(value)")
        case 7:
            try database.execute(
                sql: ["DELETE FROM audit_checkpoints", "DELETE FROM audit_log"][edits.number(below: 2)]
            )
        default: head = changed(&edits)
        }
    }

    private func changed(_ edits: inout Edits) -> AuditHead.Stored {
        switch edits.number(below: 4) {
        case 0: return .missing
        case 1: return .unreadable
        default:
            let fields: [String: Any] = [
                "id": [8, 7, Int.min, Int.max][edits.number(below: 4)],
                "hash": edits.number(below: 2) == 0 ? Log.head.hash : String(decoding: edits.text(), as: UTF8.self),
                "authentication": Log.head.authentication,
            ]
            guard let data = try? JSONSerialization.data(withJSONObject: fields),
                let head = try? JSONDecoder().decode(AuditHead.self, from: data)
            else { return .unreadable }
            return .head(head)
        }
    }
}

/// The file as the gateway makes it, with bytes that are not as they were written.
private struct DamagedFile {
    let folder: URL
    let path: String
    let image: [UInt8]
    let original: Content

    init() {
        let parent = FileManager.default.fileExists(atPath: "/dev/shm") ? "/dev/shm" : NSTemporaryDirectory()
        folder = URL(fileURLWithPath: parent).appendingPathComponent("audit-fuzzer-\(getpid())")
        path = folder.appendingPathComponent("audit.sqlite").path
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let database = try DatabaseQueue(path: path)
            original = try database.inDatabase { database in
                // Small pages make a small file.
                try database.execute(sql: "PRAGMA page_size = 512; PRAGMA journal_mode = OFF; VACUUM")
                try AuditSchema.create(in: database)
                try Log.insert(into: database)
                return try Content(database, head: .head(Log.head))
            }
            try database.close()
            image = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
        } catch {
            fatalError("no log: \(error)")
        }
        atexit { try? FileManager.default.removeItem(at: damagedFile.folder) }
    }

    /// Each three bytes of the input are a place in the file and what is written there.
    func run(_ changes: [UInt8]) {
        var bytes = image
        for index in stride(from: 0, to: changes.count - 2, by: 3) {
            let place = Int(changes[index]) << 8 | Int(changes[index + 1])
            bytes[place % bytes.count] = changes[index + 2]
        }
        do {
            try Data(bytes).write(to: URL(fileURLWithPath: path))
            try AuditReader.open(path).read { database in
                let head = AuditHead.Stored.head(Log.head)
                guard
                    try AuditVerifier(chain: Log.chain, head: head, evidence: AuditEvidence()).verify(database).isIntact
                else { return }
                let isSame = try Content(database, head: head) == original
                precondition(isSame)
            }
        } catch is DatabaseError {
            // It cannot be read.
        } catch {
            fatalError("\(error)")
        }
    }
}
