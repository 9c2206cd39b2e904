package import Crypto
import Foundation
import GRDB
package import GatewayCore
import GatewayFiles
import GatewaySQLite
import Synchronization

/// Keeps tokens in an SQLite file, each row encrypted; survives a crash at any instant.
///
/// A write that was begun is finished even when the task that asked for it is cancelled: a rotated refresh token must
/// not be lost to an impatient caller.
package final class SQLiteTokenStore: TokenStore {
    let path: String
    /// Changed by ``rotate(to:)`` alone, on the database's thread.
    let sealer: Mutex<TokenSealer>
    private let writer: SQLiteWriter
    /// Which of the keys that it was opened with is the store's.
    package let keyIndex: Int
    private let identity: FileIdentity?
    /// How long a caller waits for the disk.
    private let limit: Duration
    /// Why the last write failed; nil when it did not.
    private let lastFailure = Mutex<TokenStoreError?>(nil)

    package convenience init(
        path: String,
        key: SymmetricKey,
        busyTimeout: Duration = .seconds(5),
        limit: Duration = .seconds(10)
    ) throws(TokenStoreError) {
        try self.init(path: path, keys: [key], busyTimeout: busyTimeout, limit: limit)
    }

    /// Opens or creates the store. Blocks; call it while starting.
    ///
    /// - Parameter keys: ``InstallationKey/derived(for:)`` of `tokenStore`, of each key that the store may be encrypted
    ///   with; a new store takes the first.
    /// - Throws: ``TokenStoreError/damaged(_:)`` when the store was written with none of them.
    package init(
        path: String,
        keys: [SymmetricKey],
        busyTimeout: Duration = .seconds(5),
        limit: Duration = .seconds(10)
    ) throws(TokenStoreError) {
        self.path = path
        self.limit = limit
        let sealers = keys.map { TokenSealer(key: $0) }
        do {
            try PrivateFile.ensure(path)
        } catch {
            throw .unavailable("\(path) cannot be opened: \(error.reason)")
        }
        do {
            writer = try SQLiteWriter(path, label: "token-store", lockLimit: busyTimeout)
            try writer.write { try $0.execute(sql: "PRAGMA secure_delete = ON") }
            identity = FileIdentity(path)
            keyIndex = try writer.write { try Self.prepare($0, path: path, keyChecks: sealers.map(\.keyCheck)) }
            sealer = Mutex(sealers[keyIndex])
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> StoredToken? {
        try await perform { [self] in try writer.write { try read(key, from: $0) } }
    }

    func read(_ key: CredentialKey, from database: Database) throws -> StoredToken? {
        let found = try Row.fetchOne(
            database,
            sql: "SELECT generation, updated_at, version, nonce, ciphertext FROM tokens WHERE key = ?",
            arguments: [key.digest]
        )
        guard let found else { return nil }
        guard let row = SealedToken(key: key.digest, columns: Array(found.databaseValues)) else { throw damagedRow }
        guard row.version == TokenRecord.version else {
            throw TokenStoreError.damaged(
                "a row of \(path) has format \(row.version) and this program knows \(TokenRecord.version); "
                    + "run the newer program, or run `authgateway token clear NAME`"
            )
        }
        guard let token = sealer.withLock({ $0 }).open(row) else {
            try requireOwnKey(database)
            throw damagedRow
        }
        return token
    }

    private var damagedRow: TokenStoreError {
        .damaged(
            "a row of \(path) was changed after it was written; run `authgateway token clear NAME` to forget that "
                + "token, or restore the file from a backup"
        )
    }

    package func save(_ token: StoredToken, for key: CredentialKey) async throws(TokenStoreError) {
        try await write { [self] database in
            guard let sealed = try? sealer.withLock({ $0 }).seal(token, for: key, at: Self.now()) else {
                throw TokenStoreError.unavailable("a token could not be encrypted for \(path)")
            }
            try database.inTransaction(.immediate) {
                try requireOwnKey(database)
                try database.execute(
                    sql: """
                        INSERT INTO tokens (key, generation, updated_at, version, nonce, ciphertext)
                        VALUES (?, ?, ?, ?, ?, ?)
                        ON CONFLICT (key) DO UPDATE SET generation = excluded.generation,
                            updated_at = excluded.updated_at, version = excluded.version,
                            nonce = excluded.nonce, ciphertext = excluded.ciphertext
                        """,
                    arguments: [
                        sealed.key, sealed.generation, sealed.updatedAt, sealed.version, sealed.nonce,
                        sealed.ciphertext,
                    ]
                )
                return .commit
            }
        }
    }

    package func remove(_ key: CredentialKey) async throws(TokenStoreError) {
        try await write { database in
            try database.inTransaction(.immediate) {
                try database.execute(sql: "DELETE FROM tokens WHERE key = ?", arguments: [key.digest])
                return .commit
            }
        }
    }

    /// nil once the store is closed.
    var database: DatabaseQueue? { writer.database }

    /// Why tokens cannot be saved at the moment, as far as is known without asking the disk; nil when they can.
    package var failure: TokenStoreError? {
        if let trouble = writer.trouble { return .unavailable(SQLiteFile.words(for: trouble, file: path, path: path)) }
        return lastFailure.withLock { $0 }
    }

    /// Finds out whether the file is in its place, and after a failure whether it can be written again.
    package func look() async {
        // While the thread waits, there is nothing to be found out.
        guard writer.trouble == nil else { return }
        let isInDoubt = lastFailure.withLock { $0 != nil }
        try? await write(within: SQLiteWriter.patience, waitingForLock: .milliseconds(200)) { database in
            guard isInDoubt else { return }
            try database.inTransaction(.immediate) {
                let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
                try database.execute(sql: "PRAGMA user_version = \(version)")
                return .commit
            }
        }
    }

    private func requireFileInPlace() throws(TokenStoreError) {
        guard writer.track({ FileIdentity(path) }) != identity else { return }
        throw .unavailable(
            "\(path) is gone: it or its folder was moved or removed while the gateway runs. If it was moved, move it back. If "
                + "it is lost, restart the gateway: it begins with an empty store, and credentials with a login need a new one"
        )
    }

    /// - Parameters:
    ///   - limit: How long the caller waits; nil stands for the usual time. What has begun goes on.
    ///   - lock: How long another program that holds the file locked is waited for.
    func write<Value: Sendable>(
        within limit: Duration? = nil,
        waitingForLock lock: Duration? = nil,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(TokenStoreError) -> Value {
        do throws(TokenStoreError) {
            let value = try await perform(within: limit) { [self] in
                try requireFileInPlace()
                return try writer.write(waitingForLock: lock, body)
            }
            lastFailure.withLock { $0 = nil }
            return value
        } catch {
            lastFailure.withLock { $0 = error }
            throw error
        }
    }

    /// Finishes the writes under way and closes the file; later calls fail with ``TokenStoreError/unavailable(_:)``.
    package func close() async { await writer.close(within: .seconds(3)) }

    /// Runs on the writer's thread: neither an event loop nor the caller's task waits for the disk.
    private func perform<Value: Sendable>(
        within limit: Duration? = nil,
        _ body: @escaping @Sendable () throws -> Value
    ) async throws(TokenStoreError) -> Value {
        do {
            return try await writer.perform(within: limit ?? self.limit, body)
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    private static func storeError(_ error: any Error, path: String) -> TokenStoreError {
        if let error = error as? TokenStoreError { return error }
        let isDamage = (error as? DatabaseError).map {
            $0.resultCode == .SQLITE_CORRUPT || $0.resultCode == .SQLITE_NOTADB
        }
        let words = SQLiteFile.words(for: error, file: path, path: path)
        return isDamage == true ? .damaged(words) : .unavailable(words)
    }

    private static func now() -> UnixTime {
        UnixTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }
}

extension SealedToken {
    /// Whatever the file holds, reading it must not trap: columns of an unexpected type make nil.
    init?(key: String, columns: [DatabaseValue]) {
        guard columns.count == 5, let generation = Int.fromDatabaseValue(columns[0]),
            let updatedAt = String.fromDatabaseValue(columns[1]), let version = Int.fromDatabaseValue(columns[2]),
            let nonce = Data.fromDatabaseValue(columns[3]), let ciphertext = Data.fromDatabaseValue(columns[4])
        else { return nil }
        self.init(
            key: key,
            generation: generation,
            updatedAt: updatedAt,
            version: version,
            nonce: nonce,
            ciphertext: ciphertext
        )
    }
}

extension SQLiteTokenStore {
    /// - Returns: The index of the check that the store was written with.
    private static func prepare(_ database: Database, path: String, keyChecks: [String]) throws -> Int {
        var found: String?
        try database.inTransaction(.immediate) {
            try SQLiteSchema.require(atMost: schemaVersion, in: database)
            try database.execute(sql: schema)
            try SQLiteSchema.set(schemaVersion, in: database)
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

    /// Of the tables below. Raise it, and add the step to ``prepare(_:path:keyChecks:)``, when they change so that an earlier
    /// program would misread or break them.
    package static let schemaVersion = 1

    private static let schema = """
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
}
