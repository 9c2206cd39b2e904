import GRDB
import GatewayCore

extension SQLiteAuditLog {
    static func prepare(_ database: DatabaseQueue, path: String, chain: AuditChain) throws -> AuditHead {
        try database.inDatabase { database in
            var head = AuditHead(id: 0, hash: AuditChain.genesis, chain: chain)
            try database.inTransaction(.immediate) {
                try AuditSchema.create(in: database)
                try requireOwnKey(in: database, path: path, chain: chain)
                head = try Self.head(of: database, chain: chain)
                try requireExportedHead(in: database, head: head, path: path, chain: chain)
                return .commit
            }
            return head
        }
    }

    /// Where the next row is linked to: the last row, or the checkpoint when all rows before it were pruned.
    static func head(of database: Database, chain: AuditChain) throws -> AuditHead {
        let row = try Row.fetchOne(database, sql: "SELECT id, hash FROM token_events ORDER BY id DESC LIMIT 1")
        let found =
            try row
            ?? Row.fetchOne(
                database,
                sql: "SELECT pruned_to_id, pruned_to_hash FROM audit_checkpoints ORDER BY id DESC LIMIT 1"
            )
        guard let found else { return AuditHead(id: 0, hash: AuditChain.genesis, chain: chain) }
        let values = Array(found.databaseValues)
        guard let id = Int64.fromDatabaseValue(values[0]), let hash = String.fromDatabaseValue(values[1]) else {
            throw AuditError("the last row of the audit log was changed; run `authgateway audit verify`")
        }
        return AuditHead(id: id, hash: hash, chain: chain)
    }

    /// - Throws: ``AuditError`` when the table no longer holds the row that `known` names.
    static func requireRow(of known: AuditHead, in database: Database, head: AuditHead, path: String) throws {
        guard known.id > 0, known != head else { return }
        let pruned =
            try Int64.fetchOne(database, sql: "SELECT coalesce(max(pruned_to_id), 0) FROM audit_checkpoints") ?? 0
        guard known.id > pruned else { return }
        let hash = try String.fetchOne(
            database,
            sql: "SELECT hash FROM token_events WHERE id = ?",
            arguments: [known.id]
        )
        guard hash == known.hash else { throw AuditError(lossMessage(path)) }
    }

    private static func requireOwnKey(in database: Database, path: String, chain: AuditChain) throws {
        try database.execute(
            sql: "INSERT OR IGNORE INTO audit_log (name, value) VALUES ('key_check', ?)",
            arguments: [chain.keyCheck]
        )
        let found = try String.fetchOne(database, sql: "SELECT value FROM audit_log WHERE name = 'key_check'")
        guard found == chain.keyCheck else {
            throw AuditError(
                "the audit log \(path) was written with another installation key; restore the key file "
                    + "(state/token.key) that belongs to it, or move the log and its .head file away"
            )
        }
    }

    private static func requireExportedHead(
        in database: Database,
        head: AuditHead,
        path: String,
        chain: AuditChain
    ) throws {
        switch AuditHead.read(for: path) {
        case .missing:
            // A crash between the creation of the two files leaves an empty table.
            guard head.id == 0 else {
                throw AuditError(
                    "the head file of the audit log (\(AuditHead.path(for: path))) is missing, so rows may have been "
                        + "cut off; put it back, or move the log away to begin a new one"
                )
            }
        case .unreadable:
            throw AuditError(headMessage(path))
        case .head(let exported):
            guard exported.isAuthentic(for: chain) else { throw AuditError(headMessage(path)) }
            try requireRow(of: exported, in: database, head: head, path: path)
        }
    }

    private static func headMessage(_ path: String) -> String {
        "the head file of the audit log (\(AuditHead.path(for: path))) was changed; run `authgateway audit verify`, and "
            + "move the log and its head file away to begin a new one"
    }

    private static func lossMessage(_ path: String) -> String {
        "rows of the audit log \(path) were removed or changed; run `authgateway audit verify`, and move the log and "
            + "its .head file away to begin a new one"
    }
}
