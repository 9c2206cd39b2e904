/// A private key that has been opened: DER without encryption, PKCS#1 for RSA and SEC 1 for elliptic curves.
package struct PrivateKeyDER: Hashable, Sendable {
    /// The bytes in base64url. Also what tells two keys apart, whatever passphrase they were locked with.
    package let text: Secret

    package init(_ bytes: [UInt8]) { text = Secret(Base64.encodeURL(bytes)) }
}
