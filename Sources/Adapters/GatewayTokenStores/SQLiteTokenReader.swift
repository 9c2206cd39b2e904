package import Crypto
import Foundation
import GRDB
package import GatewayCore

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
            let check = try database.read {
                try String.fetchOne($0, sql: "SELECT value FROM token_store WHERE name = 'key_check'")
            }
            guard let sealer = keys.map({ TokenSealer(key: $0) }).first(where: { $0.keyCheck == check }) else {
                throw SQLiteTokenStore.foreignKey(path)
            }
            self.sealer = sealer
        } catch {
            throw SQLiteTokenStore.storeError(error, path: path)
        }
    }

    package func load(_ key: CredentialKey) throws(TokenStoreError) -> StoredToken? {
        do {
            return try database.read { database in
                let found = try Row.fetchOne(database, sql: SQLiteTokenStore.selection, arguments: [key.digest])
                guard let found else { return nil }
                let row = try SQLiteTokenStore.row(of: key, in: found, path: path)
                guard let token = sealer.open(row) else { throw SQLiteTokenStore.damagedRow(path) }
                return token
            }
        } catch {
            throw SQLiteTokenStore.storeError(error, path: path)
        }
    }
}
