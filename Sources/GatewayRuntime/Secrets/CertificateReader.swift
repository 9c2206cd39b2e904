import GatewayCore
import NIOSSL

/// Tries certificates with BoringSSL before anything depends on them.
enum CertificateReader {
    /// - Returns: false for what is not PEM, or holds no certificate.
    static func holdsCertificates(_ pem: String) -> Bool {
        let certificates = try? NIOSSLCertificate.fromPEMBytes(Array(pem.utf8))
        return !(certificates ?? []).isEmpty
    }

    static func fits(_ tls: ClientTLS) -> Bool {
        do {
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.certificateChain = try NIOSSLCertificate.fromPEMBytes(Array(tls.certificates.utf8)).map {
                .certificate($0)
            }
            let key = tls.privateKey.text.withValue { Base64.decodeURL($0) } ?? []
            configuration.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: key, format: .der))
            _ = try NIOSSLContext(configuration: configuration)
            return true
        } catch {
            return false
        }
    }
}

/// Opens private keys with BoringSSL: the strategies only ever see them without their encryption.
enum PrivateKeyOpener {
    static func open(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        let phrase = passphrase?.withValue { Array($0.utf8) } ?? []
        // Always with a callback: without one BoringSSL asks the terminal.
        let key = pem.withValue { text in
            try? NIOSSLPrivateKey(bytes: Array(text.utf8), format: .pem) { $0(phrase) }
        }
        return (try? key?.derBytes).map { PrivateKeyDER($0) }
    }
}
