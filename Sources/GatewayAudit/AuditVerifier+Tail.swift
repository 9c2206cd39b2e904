import GRDB
import GatewayCore
import GatewayFiles

extension AuditVerifier {
    /// Walks the chain over the newest rows, to the exported head. The row before them is taken as it is.
    func verifyTail(_ database: Database, rows count: Int) throws -> AuditVerification {
        var result = AuditVerification(rows: 0, prunedTo: 0)
        do {
            try verifyKey(database)
            try verifyTail(database, rows: count, &result)
        } catch let found as Found {
            result.breach = found.breach
        }
        return result
    }

    private func verifyTail(_ database: Database, rows count: Int, _ result: inout AuditVerification) throws {
        let start = try start(ofNewest: count, in: database)
        var walk = ChainWalk(after: start, chain: chain)
        // What lies before these rows was not looked at.
        var marks = AuditMarks(try ownMark().filter { $0.id > start.id })
        try StatementRow.forEach(
            of: "SELECT \(AuditSchema.columnList) FROM \(AuditSchema.rows) WHERE id > ? ORDER BY id",
            arguments: [start.id],
            in: database
        ) { row in
            try walk.step(to: row)
            if walk.id >= marks.next { try marks.pass(walk.position) }
            result.rows += 1
            result.firstRow = result.firstRow ?? walk.id
            result.lastRow = walk.id
        }
        try verifyEnd(at: walk.id, &marks)
    }

    /// Where the first of these rows says that it is linked to.
    private func start(ofNewest count: Int, in database: Database) throws -> ChainWalk.Position {
        let row = try Row.fetchOne(
            database,
            sql: """
                SELECT id, previous_hash FROM \(AuditSchema.rows)
                WHERE id > (SELECT coalesce(max(id), 0) FROM \(AuditSchema.rows)) - ? ORDER BY id LIMIT 1
                """,
            arguments: [count]
        )
        guard let values = row.map({ Array($0.databaseValues) }), let id = Int64.fromDatabaseValue(values[0]) else {
            return ChainWalk.Position(id: 0, hash: AuditChain.genesis)
        }
        return ChainWalk.Position(id: id - 1, hash: String.fromDatabaseValue(values[1]) ?? "")
    }
}
