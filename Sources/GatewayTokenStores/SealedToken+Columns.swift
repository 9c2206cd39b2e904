import Foundation
import GRDB

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
