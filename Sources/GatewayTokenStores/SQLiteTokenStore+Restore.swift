package import Crypto
import Foundation
import GRDB
package import GatewayCore
import GatewayFiles
import Synchronization

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
                    guard let sealed = try? sealer.seal(token, for: key, at: now) else {
                        throw TokenStoreError.unavailable("a token could not be encrypted for \(path)")
                    }
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

extension SQLiteTokenReader {
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
}
