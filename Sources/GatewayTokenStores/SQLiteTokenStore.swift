package import Crypto
import Foundation
import GRDB
import GatewayFiles
package import GatewayHTTP
package import GatewayTokens
import Synchronization

/// Keeps tokens in an SQLite file, each row encrypted; survives a crash at any instant.
///
/// A write that was begun is finished even when the task that asked for it is cancelled: a rotated refresh token must
/// not be lost to an impatient caller.
package final class SQLiteTokenStore: TokenStore {
    let path: String
    /// Changed by ``rotate(to:)`` alone, on the database's thread.
    private let sealer: Mutex<TokenSealer>
    private let writer: SQLiteWriter
    /// Which of the keys that it was opened with is the store's.
    package let keyIndex: Int
    private let identity: FileIdentity?
    /// How long a caller waits for the disk.
    private let limit: Duration
    /// The file's clock, for leases.
    private let now: @Sendable () -> UnixTime
    /// Why the last write failed; nil when it did not.
    private let lastFailure = Mutex<TokenStoreError?>(nil)

    package convenience init(
        path: String,
        key: SymmetricKey,
        ownsFile: Bool = false,
        busyTimeout: Duration = .seconds(5),
        limit: Duration = .seconds(10),
        now: @escaping @Sendable () -> UnixTime = SQLiteTokenStore.wallClock
    ) throws(TokenStoreError) {
        try self.init(
            path: path,
            keys: [key],
            ownsFile: ownsFile,
            busyTimeout: busyTimeout,
            limit: limit,
            now: now
        )
    }

    /// Opens or creates the store. Blocks; call it while starting.
    ///
    /// - Parameters:
    ///   - keys: ``InstallationKey/derived(for:)`` of `tokenStore`, of each key that the store may be encrypted with; a new
    ///     store takes the first.
    ///   - ownsFile: No other process uses the file, so leases of an earlier process have ended.
    ///   - now: The file's clock.
    /// - Throws: ``TokenStoreError/damaged(_:)`` when the store was written with none of them.
    package init(
        path: String,
        keys: [SymmetricKey],
        ownsFile: Bool = false,
        busyTimeout: Duration = .seconds(5),
        limit: Duration = .seconds(10),
        now: @escaping @Sendable () -> UnixTime = SQLiteTokenStore.wallClock
    ) throws(TokenStoreError) {
        self.path = path
        self.limit = limit
        self.now = now
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
            if ownsFile { try writer.write(Self.forgetEarlierProcess) }
            sealer = Mutex(sealers[keyIndex])
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    /// The connection, for tests; nil once the store is closed.
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
        if let newer = error as? SQLiteSchema.Newer { return .damaged(newer.words(for: path)) }
        let isDamage = (error as? DatabaseError).map {
            $0.resultCode == .SQLITE_CORRUPT || $0.resultCode == .SQLITE_NOTADB
        }
        let words = SQLiteFile.words(for: error, file: path, path: path)
        return isDamage == true ? .damaged(words) : .unavailable(words)
    }

    /// That of the machine, which all processes that can open the file share.
    @Sendable static func wallClock() -> UnixTime {
        UnixTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }
}

// MARK: - Records

/// Each call is one transaction: it looks at the record, asks ``TokenRecordState`` and writes.
extension SQLiteTokenStore {
    package var isShared: Bool { false }

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry {
        try await perform { [self] in try writer.write { try read(key, from: $0) } }
    }

    package func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await saved(key, .token(token)) { $0.write(expecting: revision, at: $1) }
    }

    @discardableResult
    package func replace(
        _ token: StoredToken?,
        for key: CredentialKey
    ) async throws(TokenStoreError) -> TokenRevision {
        // A record that cannot be read is replaced as well.
        let answer = try await saved(key, RecordContent(token)) { state, _ in .allowed(state.replace()) }
        guard case .saved(let revision) = answer else { return .none }
        return revision
    }

    package func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(key, token.map { .token($0) } ?? .same) { $0.lease(expecting: revision, for: time, at: $1) }
    }

    package func prolong(
        _ lease: TokenLease,
        for time: Duration
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(lease.key, .same) { $0.prolong(lease, for: time, at: $1) }
    }

    package func save(
        _ token: StoredToken,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(lease.key, .token(token)) { state, _ in state.write(under: lease) }
    }

    package func commit(
        _ token: StoredToken?,
        under lease: TokenLease
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await saved(lease.key, RecordContent(token)) { state, _ in state.commit(under: lease) }
    }

    package func release(_ lease: TokenLease) async throws(TokenStoreError) {
        try await write { database in
            try database.execute(
                sql: "UPDATE tokens SET lease_until = NULL WHERE key = ? AND revision = ?",
                arguments: [lease.key.digest, lease.revision.value]
            )
        }
    }

    /// Names every record. A file has one gateway, which need not ask.
    package func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        guard mark != nil else { return TokenChanges(mark: TokenStoreMark(0)) }
        let revisions = try await perform { [self] in
            try writer.write { database in
                let rows = try Row.fetchAll(database, sql: "SELECT key, revision FROM tokens")
                return rows.compactMap { row -> (CredentialKey, TokenRevision)? in
                    guard let key = String.fromDatabaseValue(row["key"]),
                        let revision = Int64.fromDatabaseValue(row["revision"])
                    else { return nil }
                    return (CredentialKey(digest: key), TokenRevision(revision))
                }
            }
        }
        return TokenChanges(revisions: Dictionary(revisions) { $1 }, mark: TokenStoreMark(0))
    }

    // MARK: One record

    private typealias Decide = @Sendable (inout TokenRecordState, UnixTime) -> RecordDecision

    private func saved(
        _ key: CredentialKey,
        _ content: RecordContent,
        _ decide: @escaping Decide
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await write { [self] database in
            try TokenSaveAnswer(change(key, content, decide, in: database)) { try read(key, from: database) }
        }
    }

    private func leased(
        _ key: CredentialKey,
        _ content: RecordContent,
        _ decide: @escaping Decide
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await write { [self] database in
            try TokenLeaseAnswer(change(key, content, decide, in: database), of: key) { try read(key, from: database) }
        }
    }

    private func change(
        _ key: CredentialKey,
        _ content: RecordContent,
        _ decide: Decide,
        in database: Database
    ) throws -> RecordDecision {
        let (sealer, time) = (sealer.withLock { $0 }, now())
        var decision = RecordDecision.changed
        try database.inTransaction(.immediate) {
            var state = try state(of: key, in: database, sealedBy: sealer)
            decision = decide(&state, time)
            guard case .allowed = decision else { return .rollback }
            let sealed = try content.sealed(for: key, by: sealer, at: time, in: path)
            try put(state, sealed, for: key, in: database)
            return .commit
        }
        return decision
    }

    /// In one statement with the look at the key of the file.
    private func state(
        of key: CredentialKey,
        in database: Database,
        sealedBy sealer: TokenSealer
    ) throws -> TokenRecordState {
        let row = try Row.fetchOne(
            database,
            sql: """
                SELECT value, revision, lease_until FROM token_store LEFT JOIN tokens ON key = ?
                WHERE name = 'key_check'
                """,
            arguments: [key.digest]
        )
        guard let row, String.fromDatabaseValue(row["value"]) == sealer.keyCheck else { throw replacedKey }
        return TokenRecordState(
            revision: TokenRevision(Int64.fromDatabaseValue(row["revision"]) ?? 0),
            leaseUntil: Int64.fromDatabaseValue(row["lease_until"]).map { UnixTime(milliseconds: $0) }
        )
    }

    /// - Parameter sealed: nil leaves what the record holds.
    private func put(
        _ state: TokenRecordState,
        _ sealed: SealedToken?,
        for key: CredentialKey,
        in database: Database
    ) throws {
        let row = sealed ?? .removed(key, at: now())
        let content =
            sealed == nil
            ? ""
            : """
            generation = excluded.generation, updated_at = excluded.updated_at, version = excluded.version,
            nonce = excluded.nonce, ciphertext = excluded.ciphertext,
            """
        try database.execute(
            sql: """
                INSERT INTO tokens (key, generation, updated_at, version, nonce, ciphertext, revision, lease_until)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (key) DO UPDATE SET \(content)
                    revision = excluded.revision, lease_until = excluded.lease_until
                """,
            arguments: [
                row.key, row.generation, row.updatedAt, row.version, row.nonce, row.ciphertext, state.revision.value,
                state.leaseUntil?.milliseconds,
            ]
        )
    }

    private func read(_ key: CredentialKey, from database: Database) throws -> TokenEntry {
        let found = try Row.fetchOne(
            database,
            sql: "SELECT generation, updated_at, version, nonce, ciphertext, revision FROM tokens WHERE key = ?",
            arguments: [key.digest]
        )
        guard let found else { return .nothing }
        let columns = Array(found.databaseValues)
        guard let row = SealedToken(key: key.digest, columns: Array(columns.dropLast())),
            let revision = columns.last.flatMap(Int64.fromDatabaseValue)
        else { throw damagedRow }
        guard !row.isRemoved else { return TokenEntry(token: nil, revision: TokenRevision(revision)) }
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
        return TokenEntry(token: token, revision: TokenRevision(revision))
    }

    private var damagedRow: TokenStoreError {
        .damaged(
            "a row of \(path) was changed after it was written; run `authgateway token clear NAME` to forget that "
                + "token, or restore the file from a backup"
        )
    }
}

// MARK: - Tables

/// Makes and checks the tables.
extension SQLiteTokenStore {
    /// Counts the changes of the tables. Version 0 had no revisions.
    package static let schemaVersion = 1

    /// Creates the tables, or brings those of an earlier program up to date.
    ///
    /// - Returns: The index of the check that the store was written with.
    private static func prepare(_ database: Database, path: String, keyChecks: [String]) throws -> Int {
        var found: String?
        try database.inTransaction(.immediate) {
            let version = try SQLiteSchema.require(atMost: schemaVersion, in: database)
            try database.execute(sql: firstSchema)
            if version < 1 { try database.execute(sql: revisions) }
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

    /// Ends leases, and drops the rows of removed records: no process that knows their revisions is left.
    private static func forgetEarlierProcess(_ database: Database) throws {
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

// MARK: - Rotation of the key

/// Encrypts all records with a new key.
extension SQLiteTokenStore {
    /// Encrypts every row anew with `key`, in one transaction, and uses it from then on: after a crash at any instant all
    /// rows open with the old key, or all with the new one.
    ///
    /// A row that does not open stops it, so that nothing is lost that an earlier key or a newer program could read.
    ///
    /// - Returns: How many rows there are.
    package func rotate(to key: SymmetricKey) async throws(TokenStoreError) -> Int {
        try await write(within: Self.rotationLimit) { [self] database in
            let (present, next) = (sealer.withLock { $0 }, TokenSealer(key: key))
            var count = 0
            try database.inTransaction(.immediate) {
                try requireOwnKey(database)
                let keys = "SELECT key FROM tokens WHERE version <> \(SealedToken.removedVersion)"
                for name in try String.fetchAll(database, sql: keys) {
                    try encrypt(name, from: present, to: next, in: database)
                    count += 1
                }
                try database.execute(
                    sql: "UPDATE token_store SET value = ? WHERE name = 'key_check'",
                    arguments: [next.keyCheck]
                )
                return .commit
            }
            sealer.withLock { $0 = next }
            // What the old key opens is to be gone from the write-ahead log, too; the next checkpoint does it otherwise.
            _ = try? database.checkpoint(.truncate)
            return count
        }
    }

    /// All rows are re-encrypted in it.
    private static let rotationLimit: Duration = .seconds(60)

    package func isEncrypted(with key: SymmetricKey) -> Bool {
        sealer.withLock { $0.keyCheck } == TokenSealer(key: key).keyCheck
    }

    /// Another process that has replaced the key must not find rows of the old one among its own.
    private func requireOwnKey(_ database: Database) throws {
        let found = try String.fetchOne(database, sql: "SELECT value FROM token_store WHERE name = 'key_check'")
        guard found == sealer.withLock({ $0.keyCheck }) else { throw replacedKey }
    }

    private var replacedKey: TokenStoreError {
        .damaged("the key of \(path) was replaced by another process; restart this gateway")
    }

    private func encrypt(_ name: String, from present: TokenSealer, to next: TokenSealer, in database: Database) throws
    {
        let row = try Row.fetchOne(
            database,
            sql: "SELECT generation, updated_at, version, nonce, ciphertext FROM tokens WHERE key = ?",
            arguments: [name]
        )
        guard let row, let sealed = SealedToken(key: name, columns: Array(row.databaseValues)),
            let renewed = next.sealAgain(sealed, openedBy: present)
        else {
            throw TokenStoreError.damaged(
                "a row of \(path) was changed after it was written, so nothing was re-encrypted; `authgateway token "
                    + "list` names the credential, and `authgateway token clear NAME` forgets its token"
            )
        }
        try database.execute(
            sql: "UPDATE tokens SET nonce = ?, ciphertext = ? WHERE key = ?",
            arguments: [renewed.nonce, renewed.ciphertext, name]
        )
    }
}

// MARK: - Backup

/// Copies the file for a backup, and marks a copy that was restored.
extension SQLiteTokenStore {
    /// What a copy of a store holds.
    package struct Copy: Sendable {
        package let tokens: Int
        /// The version of the tables.
        package let schema: Int
    }

    /// Copies the store to `target`, which must not exist, while a gateway may be using it. Blocks.
    ///
    /// - Parameter keys: See ``init(path:keys:busyTimeout:limit:)``; the copy opens with one of them.
    package static func copy(
        _ source: String,
        to target: String,
        keys: [SymmetricKey]
    ) throws(TokenStoreError) -> Copy {
        do {
            try PrivateFile.createNew(target, content: [])
            try SQLiteFile.copy(source, to: target, lockLimit: .seconds(5))
        } catch let failure as PrivateFile.Failure {
            throw .unavailable("\(target) cannot be made: \(failure.reason)")
        } catch {
            throw .unavailable(SQLiteFile.words(for: error, file: source, path: source))
        }
        return try SQLiteTokenReader(path: target, keys: keys).summary()
    }

    /// Marks each token with a refresh token as restored: it may have been spent since the backup. Which ones are valid only
    /// once is for the keeper to say, who knows the grant.
    ///
    /// Each row is opened for it, so a row that is damaged, or of a newer program, is an error and nothing is changed.
    ///
    /// - Returns: How many were marked.
    package func markRestored(at now: UnixTime) async throws(TokenStoreError) -> Int {
        try await write(within: .seconds(60)) { [self] database in
            let sealer = sealer.withLock { $0 }
            var count = 0
            try database.inTransaction(.immediate) {
                try requireOwnKey(database)
                for name in try String.fetchAll(database, sql: "SELECT key FROM tokens") {
                    let key = CredentialKey(digest: name)
                    guard var token = try read(key, from: database).token, token.token.refreshToken != nil else {
                        continue
                    }
                    token.isRestored = true
                    // It was spent long ago, and sending it again could end the login.
                    token.previousRefreshToken = nil
                    let sealed = try sealer.sealed(token, for: key, at: now, in: path)
                    try database.execute(
                        sql: """
                            UPDATE tokens SET updated_at = ?, version = ?, nonce = ?, ciphertext = ?,
                                revision = revision + 1, lease_until = NULL
                            WHERE key = ?
                            """,
                        arguments: [sealed.updatedAt, sealed.version, sealed.nonce, sealed.ciphertext, name]
                    )
                    count += 1
                }
                return .commit
            }
            return count
        }
    }
}

/// Reads a token store through a connection that cannot write, beside the gateway that may be using it.
package final class SQLiteTokenReader: Sendable {
    private let path: String
    private let sealer: TokenSealer
    private let database: DatabaseQueue

    /// Blocks.
    ///
    /// - Parameter keys: See ``SQLiteTokenStore``.
    /// - Throws: ``TokenStoreError/damaged(_:)`` when the store was written with none of the keys.
    package init(path: String, keys: [SymmetricKey]) throws(TokenStoreError) {
        self.path = path
        do {
            var configuration = Configuration()
            configuration.readonly = true
            configuration.label = "token-reader"
            configuration.busyMode = .timeout(2)
            database = try DatabaseQueue(path: path, configuration: configuration)
            let check = try database.read { database in
                // The table is looked at first: a file without it is no token store, whatever its version says.
                let check = try String.fetchOne(
                    database,
                    sql: "SELECT value FROM token_store WHERE name = 'key_check'"
                )
                try SQLiteSchema.require(atMost: SQLiteTokenStore.schemaVersion, in: database)
                return check
            }
            guard let sealer = keys.map({ TokenSealer(key: $0) }).first(where: { $0.keyCheck == check }) else {
                throw TokenStoreError.damaged(
                    "\(path) was encrypted with another key; restore the key that belongs to it"
                )
            }
            self.sealer = sealer
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    package func load(_ key: CredentialKey) throws(TokenStoreError) -> StoredToken? {
        let found = try read {
            try Row.fetchOne(
                $0,
                sql: "SELECT generation, updated_at, version, nonce, ciphertext FROM tokens WHERE key = ?",
                arguments: [key.digest]
            )
        }
        guard let found else { return nil }
        let row = SealedToken(key: key.digest, columns: Array(found.databaseValues))
        guard row?.isRemoved != true else { return nil }
        guard let row, row.version == TokenRecord.version, let token = sealer.open(row) else {
            throw .damaged("its row of \(path) was changed, or a newer program wrote it")
        }
        return token
    }

    package func summary() throws(TokenStoreError) -> SQLiteTokenStore.Copy {
        try read { database in
            SQLiteTokenStore.Copy(
                tokens: try Int.fetchOne(
                    database,
                    sql: "SELECT count(*) FROM tokens WHERE version != \(SealedToken.removedVersion)"
                ) ?? 0,
                schema: try SQLiteSchema.version(of: database)
            )
        }
    }

    private func read<Value>(_ body: (Database) throws -> Value) throws(TokenStoreError) -> Value {
        do {
            return try database.read(body)
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    private static func storeError(_ error: any Error, path: String) -> TokenStoreError {
        if let newer = error as? SQLiteSchema.Newer { return .damaged(newer.words(for: path)) }
        return error as? TokenStoreError ?? .unavailable(SQLiteFile.words(for: error, file: path, path: path))
    }
}
