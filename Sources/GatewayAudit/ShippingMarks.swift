import GRDB

/// What the log notes of its copy in a shared database, in its table `audit_log`. Within a transaction of the caller.
enum ShippingMarks {
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
        try String.fetchOne(database, sql: "SELECT value FROM audit_log WHERE name = 'use_shipped_before'")
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

    static func remove(in database: Database) throws {
        try database.execute(sql: "DELETE FROM audit_log WHERE name IN ('shipped_to', 'use_shipped_before')")
    }

    private static func set(_ name: String, _ value: String, in database: Database) throws {
        try database.execute(
            sql: "INSERT INTO audit_log (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            arguments: [name, value]
        )
    }
}
