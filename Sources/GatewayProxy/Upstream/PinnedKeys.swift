import GatewayCore
import NIOSSL

/// A certificate that is trusted, with another key than the route names.
struct PinMismatch: Error {
    let seen: CertificatePin
}

/// The keys of which an upstream's certificate must have one, beyond being trusted.
///
/// The server's own certificate counts, not those that it comes from: the TLS library shows no more.
struct PinnedKeys: Sendable {
    let pins: [CertificatePin]
    let sha256: @Sendable ([UInt8]) -> [UInt8]

    func check(_ certificate: NIOSSLCertificate) throws {
        guard !pins.isEmpty else { return }
        let seen = CertificatePin(digest: sha256(try certificate.extractPublicKey().toSPKIBytes()))
        guard pins.contains(seen) else { throw PinMismatch(seen: seen) }
    }
}
