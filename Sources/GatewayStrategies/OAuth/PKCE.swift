import Crypto
import GatewayCore

/// Proof key for code exchange, method S256 (RFC 7636 §4.2).
enum PKCE {
    static func challenge(of verifier: Secret) -> String {
        verifier.withValue { Base64.encodeURL(SHA256.hash(data: Array($0.utf8))) }
    }
}
