import Crypto
import CryptoExtras
package import GatewayCore

/// Verifies signatures of tokens that clients present (RFC 7518 section 3, RFC 8037 section 3.1).
package enum JWTSignature {
    /// - Returns: false for a key that the algorithm is not for, or that is no key.
    package static func isValid(
        _ signature: [UInt8],
        over signed: [UInt8],
        as algorithm: JWTAlgorithm,
        by key: JSONWebKey
    ) -> Bool {
        switch (algorithm, key.material) {
        case (.rs256, .rsa(let modulus, let exponent)):
            return rsa(signature, signed, modulus, exponent, .insecurePKCS1v1_5)
        case (.ps256, .rsa(let modulus, let exponent)): return rsa(signature, signed, modulus, exponent, .PSS)
        case (.es256, .p256(let x, let y)):
            guard signature.count == 64, let key = try? P256.Signing.PublicKey(x963Representation: [4] + x + y),
                let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
            else { return false }
            return key.isValidSignature(signature, for: SHA256.hash(data: signed))
        case (.edDSA, .ed25519(let bytes)):
            guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes) else { return false }
            return key.isValidSignature(signature, for: signed)
        default: return false
        }
    }

    private static func rsa(
        _ signature: [UInt8],
        _ signed: [UInt8],
        _ modulus: [UInt8],
        _ exponent: [UInt8],
        _ padding: _RSA.Signing.Padding
    ) -> Bool {
        guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent) else { return false }
        let signature = _RSA.Signing.RSASignature(rawRepresentation: signature)
        return key.isValidSignature(signature, for: SHA256.hash(data: signed), padding: padding)
    }
}
