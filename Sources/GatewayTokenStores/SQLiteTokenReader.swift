package import Crypto
import Foundation
import GRDB
package import GatewayCore
import GatewayFiles

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
            let (version, check) = try database.read {
                (
                    try Int.fetchOne($0, sql: "PRAGMA user_version") ?? 0,
                    try String.fetchOne($0, sql: "SELECT value FROM token_store WHERE name = 'key_check'")
                )
            }
            try SQLiteTokenStore.requireKnown(version, path: path)
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
        do {
            let found = try database.read {
                try Row.fetchOne(
                    $0,
                    sql: "SELECT generation, updated_at, version, nonce, ciphertext FROM tokens WHERE key = ?",
                    arguments: [key.digest]
                )
            }
            guard let found else { return nil }
            let row = SealedToken(key: key.digest, columns: Array(found.databaseValues))
            guard row?.isRemoved != true else { return nil }
            guard let row, row.version == TokenRecord.version, let token = sealer.open(row)
            else { throw TokenStoreError.damaged("its row of \(path) was changed, or a newer program wrote it") }
            return token
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    func read<Value>(_ body: (Database) throws -> Value) throws(TokenStoreError) -> Value {
        do {
            return try database.read(body)
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    private static func storeError(_ error: any Error, path: String) -> TokenStoreError {
        error as? TokenStoreError ?? .unavailable(SQLiteFile.words(for: error, file: path, path: path))
    }
}
