import GRDB
import GatewayCore

/// Walks the chain from its beginning, or from the last checkpoint, to the exported head.
struct AuditVerifier {
    let chain: AuditChain
    let head: AuditHead.Stored

    struct Found: Error {
        let breach: AuditVerification.Breach

        init(_ fault: AuditVerification.Fault, row: Int64? = nil, _ explanation: String) {
            breach = AuditVerification.Breach(fault: fault, row: row, explanation: explanation)
        }
    }

    /// A row that fits, and what the next one is linked to.
    struct Position {
        var id: Int64
        var hash: String
    }

    func verify(_ database: Database) throws -> AuditVerification {
        var result = AuditVerification(rows: 0, prunedTo: 0)
        do {
            try verifyKey(database)
            var position = try verifyCheckpoints(database)
            result.prunedTo = position.id
            try verifyRows(database, from: &position, &result)
            try verifyGuards(database)
        } catch let found as Found {
            result.breach = found.breach
        }
        return result
    }

    private func verifyKey(_ database: Database) throws {
        let check = try String.fetchOne(database, sql: "SELECT value FROM audit_log WHERE name = 'key_check'")
        guard check == chain.keyCheck else {
            // The head file proves that the key is the right one, so the note of it was edited.
            if case .head(let head) = head, head.isAuthentic(for: chain) {
                throw Found(.changed, "the note of the key that the log was written with was changed")
            }
            throw Found(
                .foreignKey,
                "it was written with another installation key, or replaced as a whole; verify it with the key file that "
                    + "belongs to it"
            )
        }
    }

    private func verifyCheckpoints(_ database: Database) throws -> Position {
        var last = Position(id: 0, hash: AuditChain.genesis)
        var previous = AuditChain.genesis
        var next: Int64 = 1
        let selection = Self.selection(AuditSchema.checkpointColumns, "audit_checkpoints")
        let rows = try Row.fetchCursor(database, sql: selection)
        while let row = try rows.next() {
            let values = Array(row.databaseValues)
            let hash = chain.hash(ofCheckpoint: Array(values[0..<4]), after: previous)
            guard !Self.containsNULByte(values), let prunedTo = Int64.fromDatabaseValue(values[2]),
                let prunedHash = String.fromDatabaseValue(values[3]),
                values[0] == next.databaseValue, values[4] == previous.databaseValue, values[5] == hash.databaseValue,
                prunedTo > last.id
            else {
                throw Found(.checkpointChanged, "checkpoint \(next), which records what retention removed, was changed")
            }
            last = Position(id: prunedTo, hash: prunedHash)
            previous = hash
            next += 1
        }
        return last
    }

    private func verifyRows(
        _ database: Database,
        from position: inout Position,
        _ result: inout AuditVerification
    ) throws {
        let rows = try Row.fetchCursor(database, sql: Self.selection(AuditSchema.allColumns, "token_events"))
        let pruned = position.id
        var meetsHead = false
        while let row = try rows.next() {
            let values = Array(row.databaseValues)
            position = try Self.verify(values, after: position, chain: chain)
            guard !Self.containsNULByte(values) else {
                throw Found(.changed, row: position.id, "row \(position.id) was changed: a text in it holds a NUL byte")
            }
            if position.id == pruned + 1 { noteLoss(values, &result) }
            if case .head(let head) = head, head.id == position.id { meetsHead = head.hash == position.hash }
            result.rows += 1
            result.firstRow = result.firstRow ?? position.id
            result.lastRow = position.id
        }
        try verifyHead(end: position, pruned: pruned, meetsHead: meetsHead)
    }

    /// The first row tells when no rows were removed before it, but lost.
    private func noteLoss(_ values: [DatabaseValue], _ result: inout AuditVerification) {
        guard let row = AuditRow(Array(values.prefix(AuditSchema.allColumns.count))),
            row.event == TokenEvent.Name.auditRecreated.rawValue
        else { return }
        (result.lostTo, result.lostAt) = (row.id - 1, row.at)
        result.prunedTo = 0
    }

    /// A query of these columns, and whether a text holds a NUL byte: SQLite ends a text there for its readers, and so for the
    /// hash, but not where it compares texts.
    private static func selection(_ columns: [String], _ table: String) -> String {
        let names = columns.map { "\"\($0)\"" }
        let hidden = names.map { "(typeof(\($0)) = 'text' AND instr(CAST(\($0) AS BLOB), x'00'))" }
        return "SELECT \(names.joined(separator: ", ")), \(hidden.joined(separator: " OR ")) FROM \(table) ORDER BY id"
    }

    private static func containsNULByte(_ values: [DatabaseValue]) -> Bool { values.last != false.databaseValue }

    static func verify(
        _ values: [DatabaseValue],
        after position: Position,
        chain: AuditChain
    ) throws(Found) -> Position {
        let expected = position.id + 1
        guard case .int64(let id) = values[0].storage else {
            throw Found(.changed, row: expected, "a row has no number")
        }
        guard id >= expected else {
            throw Found(.moved, row: id, "row \(id) comes before the first row, \(expected)")
        }
        guard id == expected else {
            let range = id == expected + 1 ? "row \(expected) is" : "rows \(expected) to \(id - 1) are"
            throw Found(.missing, row: expected, "\(range) missing")
        }
        let covered = Array(values.prefix(AuditSchema.columns.count))
        let previous = values[AuditSchema.columns.count]
        let hash = chain.hash(ofEvent: covered, after: position.hash)
        guard values[AuditSchema.columns.count + 1] == hash.databaseValue else {
            guard previous == position.hash.databaseValue else {
                throw Found(
                    .moved,
                    row: id,
                    "row \(id) does not follow the row before it: rows were moved, removed or replaced"
                )
            }
            throw Found(.changed, row: id, "row \(id) was changed after it was written, or written without the key")
        }
        guard previous == position.hash.databaseValue else {
            throw Found(.changed, row: id, "the link of row \(id) to the row before it was changed")
        }
        return Position(id: id, hash: hash)
    }

    private func verifyHead(end: Position, pruned: Int64, meetsHead: Bool) throws {
        switch head {
        case .missing:
            guard end.id == 0 else {
                throw Found(.headMissing, "the head file is missing, so rows may have been cut off the end")
            }
        case .unreadable:
            throw Found(.headChanged, "the head file is damaged, so rows may have been cut off the end")
        case .head(let head):
            guard head.isAuthentic(for: chain) else { throw Found(.headChanged, "the head file was changed") }
            guard head.id <= end.id else {
                let range = head.id == end.id + 1 ? "row \(head.id) was" : "rows \(end.id + 1) to \(head.id) were"
                throw Found(.cutTail, row: end.id + 1, "\(range) cut off the end")
            }
            guard head.id <= pruned || meetsHead else {
                throw Found(.changed, row: head.id, "row \(head.id) is not the one that the head file names")
            }
        }
    }

    private func verifyGuards(_ database: Database) throws {
        let present = try Set(String.fetchAll(database, sql: "SELECT name FROM sqlite_master WHERE type = 'trigger'"))
        if let missing = AuditSchema.guards.first(where: { !present.contains($0) }) {
            throw Found(.unguarded, "all rows fit, but the trigger \(missing) was dropped: the table was open to edits")
        }
    }
}
