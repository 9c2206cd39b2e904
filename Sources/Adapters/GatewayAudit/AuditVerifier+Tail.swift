import GRDB
import GatewayCore

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
        let rows = try Row.fetchCursor(
            database,
            sql: """
                SELECT \(AuditSchema.columnList) FROM token_events
                WHERE id > (SELECT coalesce(max(id), 0) FROM token_events) - ? ORDER BY id
                """,
            arguments: [count]
        )
        var position: Position?
        // What lies before these rows was not looked at.
        var meetsHead = true
        while let row = try rows.next() {
            let values = Array(row.databaseValues)
            position = try Self.verify(values, after: position ?? Self.before(values), chain: chain)
            guard let position else { continue }
            if case .head(let head) = head, head.id == position.id { meetsHead = head.hash == position.hash }
            result.rows += 1
            result.firstRow = result.firstRow ?? position.id
            result.lastRow = position.id
        }
        try verifyHead(end: position ?? Position(id: 0, hash: AuditChain.genesis), pruned: 0, meetsHead: meetsHead)
    }

    /// Where the first of these rows says that it is linked to.
    private static func before(_ values: [DatabaseValue]) -> Position {
        let id = Int64.fromDatabaseValue(values[0]) ?? 1
        let previous = String.fromDatabaseValue(values[AuditSchema.columns.count]) ?? ""
        return Position(id: id - 1, hash: previous)
    }
}
