import GatewayCore
import NIOSSL

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
