import GRDB
import GatewayCore
import GatewayFiles

/// Walks the chain from its beginning, or from the last checkpoint, to its end, and compares it with what is kept elsewhere.
struct AuditVerifier {
    let chain: AuditChain
    /// What stands in the head file beside the database.
    let head: AuditHead.Stored
    let evidence: AuditEvidence

    struct Found: Error {
        let breach: AuditVerification.Breach

        init(_ fault: AuditVerification.Fault, row: Int64? = nil, _ explanation: String) {
            breach = AuditVerification.Breach(fault: fault, row: row, explanation: explanation)
        }
    }

    func verify(_ database: Database) throws -> AuditVerification {
        var result = AuditVerification(rows: 0, prunedTo: 0)
        result.isCopy = evidence.isCopy
        do {
            try verifyKey(database)
            let start = try verifyCheckpoints(database)
            result.prunedTo = start.id
            let own = Result { try ownMark() }
            let others = Result { try evidence.marks(for: chain) }
            var marks = AuditMarks(((try? own.get()) ?? []) + ((try? others.get()) ?? []))
            defer { result.compared = marks.compared }
            let end = try verifyRows(database, after: start, &marks, &result)
            // After the rows, so that these are told of first.
            _ = try own.get() + others.get()
            try verifyEnd(at: end, &marks)
            try verifyGuards(database)
        } catch let found as Found {
            result.breach = found.breach
        }
        return result
    }

    func verifyKey(_ database: Database) throws {
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

    private func verifyCheckpoints(_ database: Database) throws -> ChainWalk.Position {
        var last = ChainWalk.Position(id: 0, hash: AuditChain.genesis)
        var link = ChainLink(.checkpoint, columns: 4, after: AuditChain.genesis, chain: chain)
        var next: Int64 = 1
        let sql = Self.selection(AuditSchema.checkpointColumns, of: "audit_checkpoints")
        try StatementRow.forEach(of: sql, in: database) { row in
            guard link.follow(row) == .fits, row.kind(at: 0) == .integer, row.integer(at: 0) == next,
                row.kind(at: 2) == .integer, row.integer(at: 2) > last.id, let hash = row.text(at: 3)
            else {
                throw Found(.checkpointChanged, "checkpoint \(next), which records what retention removed, was changed")
            }
            last = ChainWalk.Position(id: row.integer(at: 2), hash: hash)
            next += 1
        }
        return last
    }

    private func verifyRows(
        _ database: Database,
        after start: ChainWalk.Position,
        _ marks: inout AuditMarks,
        _ result: inout AuditVerification
    ) throws -> Int64 {
        var walk = ChainWalk(after: start, chain: chain)
        try marks.pass(start)
        let sql = Self.selection(AuditSchema.allColumns, of: "token_events")
        try StatementRow.forEach(of: sql, in: database) { row in
            try walk.step(to: row)
            if walk.id >= marks.next { try marks.pass(walk.position) }
            if walk.id == start.id + 1 { noteLoss(row, &result) }
            result.rows += 1
            result.firstRow = result.firstRow ?? walk.id
            result.lastRow = walk.id
        }
        return walk.id
    }

    /// The first row tells when no rows were removed before it, but lost.
    private func noteLoss(_ row: borrowing StatementRow, _ result: inout AuditVerification) {
        guard row.text(at: 2) == TokenEvent.Name.auditRecreated.rawValue else { return }
        (result.lostTo, result.lostAt) = (row.integer(at: 0) - 1, row.text(at: 1))
        result.prunedTo = 0
    }

    private static func selection(_ columns: [String], of table: String) -> String {
        "SELECT \(columns.map { "\"\($0)\"" }.joined(separator: ", ")) FROM \(table) NOT INDEXED ORDER BY id"
    }

    func ownMark() throws -> [AuditMark] {
        switch head {
        // See verifyEnd: an empty log, and a copy, may be without.
        case .missing: return []
        case .unreadable:
            throw Found(.headChanged, "the head file is damaged, so rows may have been cut off the end")
        case .head(let head):
            guard head.isAuthentic(for: chain) else { throw Found(.headChanged, "the head file was changed") }
            return [AuditMark(.head, id: head.id, hash: head.hash)]
        }
    }

    func verifyEnd(at end: Int64, _ marks: inout AuditMarks) throws {
        if head == .missing, !evidence.isCopy, end > 0 {
            throw Found(.headMissing, "the head file is missing, so rows may have been cut off the end")
        }
        try marks.end(at: end)
    }

    /// The texts, not only the names: a trigger of the same name may do something else.
    private func verifyGuards(_ database: Database) throws {
        var missing = AuditSchema.guards
        let present = try Row.fetchAll(database, sql: "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        for values in present.map({ Array($0.databaseValues) }) {
            let name = String.fromDatabaseValue(values[0]) ?? ""
            let shown = SafeText.singleLine(name)
            guard let expected = missing.removeValue(forKey: name) else {
                throw Found(.unguarded, "all rows fit, but the gateway did not make the trigger \(shown)")
            }
            guard String.fromDatabaseValue(values[1]) == expected else {
                throw Found(
                    .unguarded,
                    "all rows fit, but the trigger \(shown) was replaced: the table was open to edits"
                )
            }
        }
        if let name = missing.keys.min() {
            throw Found(.unguarded, "all rows fit, but the trigger \(name) was dropped: the table was open to edits")
        }
    }
}
