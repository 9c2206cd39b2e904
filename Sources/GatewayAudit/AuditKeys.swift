package import Crypto
import Foundation
import GatewayCore

/// The keys of the audit log, derived from the installation's key where the program is assembled.
package struct AuditKeys: Sendable {
    let chain: SymmetricKey
    let fingerprint: SymmetricKey

    /// - Parameters:
    ///   - chain: The subkey `audit-chain`: links the rows.
    ///   - fingerprint: The subkey `token-fingerprint`: names tokens without revealing them.
    package init(chain: SymmetricKey, fingerprint: SymmetricKey) {
        self.chain = chain
        self.fingerprint = fingerprint
    }

    /// The first twelve hexadecimal digits of a keyed digest: equal for equal tokens, and no way back.
    func fingerprint(of token: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Array(token.utf8), using: fingerprint)
        return String(Hexadecimal.text(of: code).prefix(12))
    }
}
