import GRDB
import GatewayCore

/// Stands in the place of rows that are not there any more: their last id and hash, chained with the key.
struct AuditCheckpoint {
    let prunedTo: Int64
    let hash: String
    let at: UnixTime

    /// Within a transaction of the caller.
    func append(to database: Database, chain: AuditChain) throws {
        let latest = try Row.fetchOne(database, sql: "SELECT id, hash FROM audit_checkpoints ORDER BY id DESC LIMIT 1")
        let values = latest.map { Array($0.databaseValues) }
        let id = (values.flatMap { Int64.fromDatabaseValue($0[0]) } ?? 0) + 1
        let previous = values.flatMap { String.fromDatabaseValue($0[1]) } ?? AuditChain.genesis
        let columns = [id.databaseValue, at.rfc3339.databaseValue, prunedTo.databaseValue, hash.databaseValue]
        let link = chain.hash(ofCheckpoint: columns, after: previous)
        try database.execute(
            sql: """
                INSERT INTO audit_checkpoints (id, at, pruned_to_id, pruned_to_hash, previous_hash, hash)
                VALUES (?, ?, ?, ?, ?, ?)
                """,
            arguments: StatementArguments(columns + [previous.databaseValue, link.databaseValue])
        )
    }
}
