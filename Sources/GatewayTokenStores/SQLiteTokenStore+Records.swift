import Foundation
import GRDB
package import GatewayCore
import GatewayFiles
import Synchronization

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
        let answer = try await saved(key, Content(token)) { state, _ in .allowed(state.replace()) }
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
        try await saved(lease.key, Content(token)) { state, _ in state.commit(under: lease) }
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

    private enum Content: Sendable {
        case token(StoredToken)
        case nothing
        /// What it was.
        case same

        init(_ token: StoredToken?) { self = token.map { .token($0) } ?? .nothing }
    }

    private typealias Decide = @Sendable (inout TokenRecordState, UnixTime) -> RecordDecision

    private func saved(
        _ key: CredentialKey,
        _ content: Content,
        _ decide: @escaping Decide
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await write { [self] database in
            try TokenSaveAnswer(change(key, content, decide, in: database)) { try read(key, from: database) }
        }
    }

    private func leased(
        _ key: CredentialKey,
        _ content: Content,
        _ decide: @escaping Decide
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await write { [self] database in
            try TokenLeaseAnswer(change(key, content, decide, in: database), of: key) { try read(key, from: database) }
        }
    }

    private func change(
        _ key: CredentialKey,
        _ content: Content,
        _ decide: Decide,
        in database: Database
    ) throws -> RecordDecision {
        let (sealer, time) = (sealer.withLock { $0 }, now())
        var decision = RecordDecision.changed
        try database.inTransaction(.immediate) {
            var state = try state(of: key, in: database, sealedBy: sealer)
            decision = decide(&state, time)
            guard case .allowed = decision else { return .rollback }
            switch content {
            case .same: try put(state, nil, for: key, in: database)
            case .nothing: try put(state, .removed(key, at: time), for: key, in: database)
            case .token(let token):
                guard let sealed = try? sealer.seal(token, for: key, at: time) else {
                    throw TokenStoreError.unavailable("a token could not be encrypted for \(path)")
                }
                try put(state, sealed, for: key, in: database)
            }
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

    func read(_ key: CredentialKey, from database: Database) throws -> TokenEntry {
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
