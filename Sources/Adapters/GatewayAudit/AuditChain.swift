import Crypto
import Foundation
import GRDB
import GatewayCore

/// Links rows so that none can be edited, removed, inserted or moved without the key.
///
/// hash = HMAC-SHA256(key, domain, previous hash, every column). Each part is written with its type and length, so
/// that two different rows never have the same encoding. The text "1" and the number 1 differ too.
struct AuditChain: Sendable {
    static let genesis = String(repeating: "0", count: 64)

    private let key: SymmetricKey

    init(key: SymmetricKey) { self.key = key }

    /// - Parameter columns: All columns of a row of `token_events` except the two hashes, in the order of the table.
    func hash(ofEvent columns: [DatabaseValue], after previous: String) -> String {
        hash("token_events", [previous.databaseValue] + columns)
    }

    func hash(ofCheckpoint columns: [DatabaseValue], after previous: String) -> String {
        hash("audit_checkpoints", [previous.databaseValue] + columns)
    }

    /// Authenticates the exported head.
    func hash(ofHead id: Int64, _ hash: String) -> String {
        self.hash("head", [id.databaseValue, hash.databaseValue])
    }

    /// Tells a log of another installation from one that was changed.
    var keyCheck: String { hash("key_check", []) }

    private func hash(_ domain: String, _ values: [DatabaseValue]) -> String {
        var code = HMAC<SHA256>(key: key)
        code.update(data: Array("authgateway audit 1 \(domain)\n".utf8))
        for value in values {
            code.update(data: Self.encoding(of: value))
        }
        return Hexadecimal.text(of: code.finalize())
    }

    private static func encoding(of value: DatabaseValue) -> [UInt8] {
        switch value.storage {
        case .null: Array("n:".utf8)
        case .int64(let number): Array("i\(number):".utf8)
        case .double(let number): Array("d\(number.bitPattern):".utf8)
        case .string(let text): Array("t\(text.utf8.count):".utf8) + Array(text.utf8)
        case .blob(let data): Array("b\(data.count):".utf8) + Array(data)
        }
    }
}
