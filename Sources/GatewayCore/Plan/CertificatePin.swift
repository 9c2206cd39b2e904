import FoundationEssentials

/// The SHA-256 of the public key (SubjectPublicKeyInfo) that a server's certificate must have (RFC 7469 §2.4).
package struct CertificatePin: Hashable, Sendable, CustomStringConvertible {
    package let digest: [UInt8]

    package init(digest: [UInt8]) { self.digest = digest }

    /// Reads `sha256/BASE64`, and `sha256//BASE64` as curl writes it; nil when it is anything else.
    package init?(_ text: String) {
        for prefix in ["sha256//", "sha256/"] where text.hasPrefix(prefix) {
            // The standard alphabet begins with a slash once in 64 times, too: the length tells.
            let encoded = String(text.dropFirst(prefix.count))
            guard encoded.utf8.count == 44, let data = Data(base64Encoded: encoded), data.count == 32 else { continue }
            self.init(digest: Array(data))
            return
        }
        return nil
    }

    package var description: String { "sha256/\(Base64.encode(digest))" }
}
