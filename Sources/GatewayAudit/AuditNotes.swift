import GRDB
import GatewayHTTP

/// What the log notes of itself in its table `audit_log`. Within a transaction of the caller.
enum AuditNotes {
    // MARK: The chain

    /// The name of the chain among those of other gateways: 16 hexadecimal digits, made at random with each audit database.
    ///
    /// The hashes do not cover it. It says where the rows of a log are in a shared database, not whether they are right.
    static func ensureChainName(in database: Database) throws -> String {
        if let known = try value("chain", in: database), Hexadecimal.bytes(of: known)?.count == 8 { return known }
        return try replaceChainName(in: database)
    }

    /// Gives the log another name: what others have under the present one belongs to another copy of the log.
    static func replaceChainName(in database: Database) throws -> String {
        try database.execute(sql: "DELETE FROM audit_log WHERE name IN ('shipped_to', 'use_shipped_before')")
        let name = Hexadecimal.random(bytes: 8)
        try set("chain", name, in: database)
        return name
    }

    /// Tells with which key the log was written; see ``AuditChain/keyCheck``.
    static func keyCheck(in database: Database) throws -> String? { try value("key_check", in: database) }

    // MARK: The copy in a shared database

    /// The last row that the copy is known to have, or that retention has removed.
    static func shippedTo(in database: Database) throws -> Int64 {
        try Int64.fetchOne(
            database,
            sql: """
                SELECT max(coalesce((SELECT CAST(value AS INTEGER) FROM audit_log WHERE name = 'shipped_to'), 0),
                    (SELECT coalesce(max(pruned_to_id), 0) FROM audit_checkpoints))
                """
        ) ?? 0
    }

    static func set(shippedTo row: Int64, in database: Database) throws {
        try set("shipped_to", String(row), in: database)
    }

    /// The copy has all rows of `token_use` of earlier minutes; nil before the first shipment.
    static func useShippedBefore(in database: Database) throws -> String? {
        try value("use_shipped_before", in: database)
    }

    static func set(useShippedBefore minute: String, in database: Database) throws {
        try set("use_shipped_before", minute, in: database)
    }

    /// Rows of this minute and of later ones have changed.
    static func note(useChangedAt minute: String, in database: Database) throws {
        try database.execute(
            sql: "UPDATE audit_log SET value = ? WHERE name = 'use_shipped_before' AND value > ?",
            arguments: [minute, minute]
        )
    }

    private static func value(_ name: String, in database: Database) throws -> String? {
        try String.fetchOne(database, sql: "SELECT value FROM audit_log WHERE name = ?", arguments: [name])
    }

    private static func set(_ name: String, _ value: String, in database: Database) throws {
        try database.execute(
            sql: "INSERT INTO audit_log (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            arguments: [name, value]
        )
    }
}
