import GatewayCore
import Synchronization

/// Remembers which secret files were asked for, so that a mended one is noticed.
final class RecordingSecretSource: SecretSource {
    private let source: SystemSecretSource
    private let files: RecordingConfigFiles

    init(_ source: SystemSecretSource, in files: RecordingConfigFiles) {
        self.source = source
        self.files = files
    }

    func environment(_ name: String) -> String? { source.environment(name) }

    func file(_ path: String) throws(SecretSourceError) -> Secret {
        // Before it is read: what is written in between is then a change.
        files.note(secret: path)
        return try source.file(path)
    }

    func program(_ arguments: [String], timeout: Duration) throws(SecretSourceError) -> Secret {
        try source.program(arguments, timeout: timeout)
    }

    func systemdCredential(_ name: String) throws(SecretSourceError) -> Secret { try source.systemdCredential(name) }
    func userID(ofName name: String) -> UInt32? { source.userID(ofName: name) }

    func certificates(_ path: String) throws(SecretSourceError) -> String {
        files.note(secret: path)
        return try source.certificates(path)
    }

    func fits(_ tls: ClientTLS) -> Bool { source.fits(tls) }

    func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        source.openPrivateKey(pem, passphrase: passphrase)
    }
}
