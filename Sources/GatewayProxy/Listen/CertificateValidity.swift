package import GatewayCore
import NIOSSL

/// When certificates end.
package enum CertificateValidity {
    /// From when to when a PEM file can be used: the certificate of the chain that ends first. nil when it cannot be read.
    package static func ofFile(_ path: String) -> (start: UnixTime, end: UnixTime)? {
        of((try? TLSFiles.certificates(path)) ?? [])
    }

    package static func ofText(_ pem: String) -> (start: UnixTime, end: UnixTime)? {
        of((try? NIOSSLCertificate.fromPEMBytes(Array(pem.utf8))) ?? [])
    }

    private static func of(_ chain: [NIOSSLCertificate]) -> (start: UnixTime, end: UnixTime)? {
        guard let first = chain.min(by: { $0.notValidAfter < $1.notValidAfter }) else { return nil }
        return (UnixTime(seconds: Int64(first.notValidBefore)), UnixTime(seconds: Int64(first.notValidAfter)))
    }
}
