package import GatewayCore
import NIOSSL

/// A PEM file of certificates.
package enum CertificateFile {
    /// From when to when it can be used: the certificate of the chain that ends first. nil when it cannot be read.
    package static func validity(of path: String) -> (start: UnixTime, end: UnixTime)? {
        let chain = (try? NIOSSLCertificate.fromPEMFile(path)) ?? []
        guard let first = chain.min(by: { $0.notValidAfter < $1.notValidAfter }) else { return nil }
        return (UnixTime(seconds: Int64(first.notValidBefore)), UnixTime(seconds: Int64(first.notValidAfter)))
    }
}
