/// Where the decoder gets secrets and environment variables from; the core touches neither files nor processes.
package protocol SecretSource: Sendable {
    func environment(_ name: String) -> String?

    /// - Parameter path: Absolute. One trailing newline of the content is not part of the secret.
    func file(_ path: String) throws(SecretSourceError) -> Secret

    /// Runs a program without a shell and takes its standard output.
    func program(_ program: SecretProgram) throws(SecretSourceError) -> Secret

    /// A file of `$CREDENTIALS_DIRECTORY` (systemd.exec, `LoadCredential=`).
    func systemdCredential(_ name: String) throws(SecretSourceError) -> Secret

    /// Opens a private key in PEM: PKCS#8, PKCS#1 or SEC 1, encrypted or not.
    ///
    /// - Returns: nil when the key is damaged, of an unknown kind, or when the passphrase does not open it.
    func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER?

    /// Reads certificates in PEM, which others may read too.
    ///
    /// - Parameter path: Absolute.
    func certificates(_ path: String) throws(SecretSourceError) -> String

    /// Reads a file that holds no secret, and that others may read too.
    ///
    /// - Parameter path: Absolute.
    func publicText(_ path: String) throws(SecretSourceError) -> String

    /// Whether the private key belongs to the first certificate.
    func fits(_ tls: ClientTLS) -> Bool

    /// The uid of a user of this machine; nil when no user has the name.
    func userID(ofName name: String) -> UInt32?

    /// Whether what it gives only stands for the secrets: then nothing can be said about their values.
    var areUnread: Bool { get }
}

extension SecretSource {
    package var areUnread: Bool { false }
    package func userID(ofName name: String) -> UInt32? { nil }
    package func publicText(_ path: String) throws(SecretSourceError) -> String {
        throw SecretSourceError("\(path): no such file")
    }
    package func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? { nil }
}

/// Why a secret could not be read; says what to do and never holds any of it.
package struct SecretSourceError: Error, Hashable, Sendable {
    package let message: String
    package init(_ message: String) { self.message = message }
}
