import Crypto
import Foundation
import GRDB
import GatewayCore

/// Links rows so that none can be edited, removed, inserted or moved without the key.
///
/// hash = HMAC-SHA256(key, domain, previous hash, every column), see ``ChainEncoding``.
struct AuditChain: Sendable {
    static let genesis = String(repeating: "0", count: 64)

    enum Domain: String {
        case event = "token_events"
        case checkpoint = "audit_checkpoints"
        case head
        case keyCheck = "key_check"
    }

    private let key: SymmetricKey

    init(key: SymmetricKey) { self.key = key }

    /// - Parameter columns: All columns of a row of `token_events` except the two hashes, in the order of the table.
    func hash(ofEvent columns: [DatabaseValue], after previous: String) -> String {
        hash(.event, [previous.databaseValue] + columns)
    }

    func hash(ofCheckpoint columns: [DatabaseValue], after previous: String) -> String {
        hash(.checkpoint, [previous.databaseValue] + columns)
    }

    /// Authenticates the exported head.
    func hash(ofHead id: Int64, _ hash: String) -> String {
        self.hash(.head, [id.databaseValue, hash.databaseValue])
    }

    /// Tells a log of another installation from one that was changed.
    var keyCheck: String { hash(.keyCheck, []) }

    /// The code of no value yet; add those that belong to the domain.
    func code(for domain: Domain) -> HMAC<SHA256> {
        var code = HMAC<SHA256>(key: key)
        code.update(data: Array("authgateway audit 1 \(domain.rawValue)\n".utf8))
        return code
    }

    private func hash(_ domain: Domain, _ values: [DatabaseValue]) -> String {
        var encoding = ChainEncoding()
        for value in values { encoding.add(value) }
        var code = code(for: domain)
        code.update(data: encoding.bytes)
        return Hexadecimal.text(of: code.finalize())
    }
}
