import GRDB
import GatewayCore

extension SQLiteTokenStore {
    /// Counts the changes of the tables. Version 0 had no revisions.
    package static let schemaVersion = 1

    /// Creates the tables, or brings those of an earlier program up to date.
    ///
    /// - Returns: The index of the check that the store was written with.
    static func prepare(_ database: Database, path: String, keyChecks: [String]) throws -> Int {
        var found: String?
        try database.inTransaction(.immediate) {
            let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
            try requireKnown(version, path: path)
            try database.execute(sql: firstSchema)
            if version < 1 { try database.execute(sql: revisions) }
            try database.execute(sql: "PRAGMA user_version = \(schemaVersion)")
            try database.execute(
                sql: "INSERT OR IGNORE INTO token_store (name, value) VALUES ('key_check', ?)",
                arguments: [keyChecks.first]
            )
            found = try String.fetchOne(database, sql: "SELECT value FROM token_store WHERE name = 'key_check'")
            return .commit
        }
        guard let index = keyChecks.firstIndex(where: { $0 == found }) else {
            throw TokenStoreError.damaged(
                "\(path) was encrypted with another key; restore the key files (state/token.key and, after a `key "
                    + "rotate`, state/token.key.encryption) that belong to it, name the key that it was encrypted with "
                    + "as tokens.previous_encryption_key, or move \(path) away to begin with an empty store"
            )
        }
        return index
    }

    static func requireKnown(_ version: Int, path: String) throws(TokenStoreError) {
        guard version > schemaVersion else { return }
        throw .damaged(
            "\(path) was written by a newer authgateway (schema \(version); this one knows \(schemaVersion)); run the newer "
                + "program, or restore the file from a backup that this one has written"
        )
    }

    /// Ends leases, and drops the rows of removed records: no process that knows their revisions is left.
    static func forgetEarlierProcess(_ database: Database) throws {
        try database.inTransaction(.immediate) {
            try database.execute(sql: "UPDATE tokens SET lease_until = NULL WHERE lease_until IS NOT NULL")
            try database.execute(sql: "DELETE FROM tokens WHERE version = \(SealedToken.removedVersion)")
            return .commit
        }
    }

    private static let firstSchema = """
        CREATE TABLE IF NOT EXISTS token_store (
            name TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tokens (
            key TEXT PRIMARY KEY,
            generation INTEGER NOT NULL,
            updated_at TEXT NOT NULL,
            version INTEGER NOT NULL,
            nonce BLOB NOT NULL,
            ciphertext BLOB NOT NULL
        ) STRICT, WITHOUT ROWID;
        """

    /// `lease_until` is in milliseconds since 1970.
    private static let revisions = """
        ALTER TABLE tokens ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
        ALTER TABLE tokens ADD COLUMN lease_until INTEGER;
        """
}
