import GatewayCore
import NIOSSL

extension ClientTLS {
    /// `common` with a certificate of our own.
    func configuration(_ common: TLSConfiguration) throws -> TLSConfiguration {
        var configuration = common
        configuration.certificateChain = try NIOSSLCertificate.fromPEMBytes(Array(certificates.utf8)).map {
            .certificate($0)
        }
        let key = privateKey.text.withValue { Base64.decodeURL($0) } ?? []
        configuration.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: key, format: .der))
        if let authorities {
            configuration.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(authorities.utf8)))
        }
        return configuration
    }
}
