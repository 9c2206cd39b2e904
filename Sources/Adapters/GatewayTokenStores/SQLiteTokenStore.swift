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
    let database: DatabaseQueue
    /// Which of the keys that it was opened with is the store's.
    package let keyIndex: Int
    private let identity: FileIdentity?
    /// Why the last write failed; nil when it did not.
    private let failure = Mutex<TokenStoreError?>(nil)

    package convenience init(
        path: String,
        key: SymmetricKey,
        busyTimeout: Duration = .seconds(5)
    ) throws(TokenStoreError) {
        try self.init(path: path, keys: [key], busyTimeout: busyTimeout)
    }

    /// Opens or creates the store. Blocks; call it while starting.
    ///
    /// - Parameter keys: ``InstallationKey/derived(for:)`` of `tokenStore`, of each key that the store may be encrypted
    ///   with; a new store takes the first.
    /// - Throws: ``TokenStoreError/damaged(_:)`` when the store was written with none of them.
    package init(
        path: String,
        keys: [SymmetricKey],
        busyTimeout: Duration = .seconds(5)
    ) throws(TokenStoreError) {
        self.path = path
        let sealers = keys.map { TokenSealer(key: $0) }
        do {
            try PrivateFile.ensure(path)
        } catch {
            throw .unavailable("\(path) cannot be opened: \(error.reason)")
        }
        do {
            database = try SQLiteFile.open(path, label: "token-store", busyTimeout: busyTimeout)
            try database.inDatabase { try $0.execute(sql: "PRAGMA secure_delete = ON") }
            identity = FileIdentity(path)
            keyIndex = try Self.prepare(database, path: path, keyChecks: sealers.map(\.keyCheck))
            sealer = Mutex(sealers[keyIndex])
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> StoredToken? {
        try await perform { [self] database in
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

    /// Why tokens cannot be saved at the moment; nil when they can.
    ///
    /// After a failure it is found out by writing, so that the end of the trouble shows by itself.
    package func currentFailure() async -> TokenStoreError? {
        guard failure.withLock({ $0 }) != nil || !isInPlace else { return nil }
        do throws(TokenStoreError) {
            try await write { database in
                try database.inTransaction(.immediate) {
                    let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
                    try database.execute(sql: "PRAGMA user_version = \(version)")
                    return .commit
                }
            }
            return nil
        } catch {
            return error
        }
    }

    private var isInPlace: Bool { FileIdentity(path) == identity }

    func write<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(TokenStoreError) -> Value {
        do throws(TokenStoreError) {
            guard isInPlace else {
                throw .unavailable(
                    "\(path) was moved or removed while the gateway runs; put it back, or restart the gateway"
                )
            }
            let value = try await perform(body)
            failure.withLock { $0 = nil }
            return value
        } catch {
            failure.withLock { $0 = error }
            throw error
        }
    }

    /// Finishes the writes under way and closes the file; later calls fail with ``TokenStoreError/unavailable(_:)``.
    package func close() async {
        try? await perform { _ in }
        try? database.close()
    }

    /// Runs on the database's own thread: neither an event loop nor the caller's task waits for the disk.
    private func perform<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(TokenStoreError) -> Value {
        let result: Result<Value, any Error> = await withCheckedContinuation { continuation in
            database.asyncWriteWithoutTransaction { database in
                continuation.resume(returning: Result { try body(database) })
            }
        }
        switch result {
        case .success(let value): return value
        case .failure(let error): throw Self.storeError(error, path: path)
        }
    }

    private static func storeError(_ error: any Error, path: String) -> TokenStoreError {
        if let error = error as? TokenStoreError { return error }
        let isDamage = (error as? DatabaseError).map {
            $0.resultCode == .SQLITE_CORRUPT || $0.resultCode == .SQLITE_NOTADB
        }
        let words = SQLiteFile.words(for: error, file: path)
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
    private static func prepare(_ database: DatabaseQueue, path: String, keyChecks: [String]) throws -> Int {
        let found = try database.inDatabase { database in
            var found: String?
            try database.inTransaction(.immediate) {
                try database.execute(sql: schema)
                try database.execute(
                    sql: "INSERT OR IGNORE INTO token_store (name, value) VALUES ('key_check', ?)",
                    arguments: [keyChecks.first]
                )
                found = try String.fetchOne(database, sql: "SELECT value FROM token_store WHERE name = 'key_check'")
                return .commit
            }
            return found
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
