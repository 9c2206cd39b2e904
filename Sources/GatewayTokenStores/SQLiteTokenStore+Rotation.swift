package import Crypto
import Foundation
import GRDB
package import GatewayCore
import Synchronization

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

    /// All rows are encrypted anew in it.
    private static let rotationLimit: Duration = .seconds(60)

    package func isEncrypted(with key: SymmetricKey) -> Bool {
        sealer.withLock { $0.keyCheck } == TokenSealer(key: key).keyCheck
    }

    /// Another process that has replaced the key must not find rows of the old one among its own.
    func requireOwnKey(_ database: Database) throws {
        let found = try String.fetchOne(database, sql: "SELECT value FROM token_store WHERE name = 'key_check'")
        guard found == sealer.withLock({ $0.keyCheck }) else { throw replacedKey }
    }

    var replacedKey: TokenStoreError {
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
                "a row of \(path) was changed after it was written, so nothing was encrypted anew; `authgateway token "
                    + "list` names the credential, and `authgateway token clear NAME` forgets its token"
            )
        }
        try database.execute(
            sql: "UPDATE tokens SET nonce = ?, ciphertext = ? WHERE key = ?",
            arguments: [renewed.nonce, renewed.ciphertext, name]
        )
    }
}
