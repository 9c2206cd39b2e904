import Crypto
import GatewayCore

/// What `x5t#S256` holds (RFC 7515 §4.1.8).
enum CertificateThumbprint {
    /// The SHA-256 digest of the first certificate in DER, in base64url; nil when there is none.
    static func sha256(ofFirstIn pem: String) -> String? {
        guard let der = PEM.certificates(in: pem).first.flatMap({ Base64.decode($0) }) else { return nil }
        return Base64.encodeURL(SHA256.hash(data: der))
    }
}

extension ConfigFields {
    /// The thumbprint of the certificate behind `key`, whose key the signer has; nil after a mistake.
    func thumbprint(_ key: String, of signer: JWTSigner) -> String? {
        guard let pem = certificates(key), let privateKey = signer.privateKey else { return nil }
        guard context.secrets.fits(ClientTLS(certificates: pem, privateKey: privateKey)) else {
            error(key, "does not belong to the private key")
            return nil
        }
        guard let thumbprint = CertificateThumbprint.sha256(ofFirstIn: pem) else {
            error(key, "holds no certificate that can be read")
            return nil
        }
        return thumbprint
    }
}
