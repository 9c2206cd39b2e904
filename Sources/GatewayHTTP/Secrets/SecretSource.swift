/// Where the decoder gets secrets and environment variables from; the core touches neither files nor processes.
package protocol SecretSource: Sendable {
    func environment(_ name: String) -> String?

    /// What is said of a variable that ``environment(_:)`` does not have.
    func unset(_ name: String) -> String

    /// - Parameter path: Absolute. One trailing newline of the content is not part of the secret.
    func file(_ path: String) throws(UnusableInput) -> Secret

    /// Runs a program without a shell and takes its standard output.
    func program(_ program: SecretProgram) throws(UnusableInput) -> Secret

    /// A file of `$CREDENTIALS_DIRECTORY` (systemd.exec, `LoadCredential=`).
    func systemdCredential(_ name: String) throws(UnusableInput) -> Secret

    /// Opens a private key in PEM: PKCS#8, PKCS#1 or SEC 1, encrypted or not.
    ///
    /// - Returns: nil when the key is damaged, of an unknown kind, or when the passphrase does not open it.
    func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER?

    /// Reads certificates in PEM, which others may read too.
    ///
    /// - Parameter path: Absolute.
    func certificates(_ path: String) throws(UnusableInput) -> String

    /// Reads a file that holds no secret, and that others may read too.
    ///
    /// - Parameter path: Absolute.
    func publicText(_ path: String) throws(UnusableInput) -> String

    /// Whether the private key belongs to the first certificate.
    func fits(_ tls: ClientTLS) -> Bool

    /// The uid of a user of this machine; nil when no user has the name.
    func userID(ofName name: String) -> UInt32?

    /// Whether what it gives only stands for the secrets: then nothing can be said about their values.
    var areUnread: Bool { get }
}

/// Defaults for a source that only reads secrets.
extension SecretSource {
    package var areUnread: Bool { false }
    package func unset(_ name: String) -> String { "the environment variable \(name) is not set" }
    package func userID(ofName name: String) -> UInt32? { nil }
    package func publicText(_ path: String) throws(UnusableInput) -> String {
        throw UnusableInput("\(path): no such file")
    }
    package func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? { nil }
}

/// Stands for all secrets where none is read: a configuration is checked on a machine that has none of them.
///
/// Each place gets a value of its own, so that two secrets never look like the same one. What a decoder says about such
/// a value is left out (``ConfigContext``).
package struct UnreadSecrets: SecretSource {
    package init() {}

    package var areUnread: Bool { true }

    package func environment(_ name: String) -> String? { "unread env \(name)" }
    package func file(_ path: String) throws(UnusableInput) -> Secret { Secret("unread file \(path)") }

    package func program(_ program: SecretProgram) throws(UnusableInput) -> Secret {
        // What it prints may depend on its variables, whose values may be secrets.
        Secret("unread exec \(program.environment.hashValue) \(program.command.joined(separator: " "))")
    }

    package func systemdCredential(_ name: String) throws(UnusableInput) -> Secret {
        Secret("unread systemd_credential \(name)")
    }

    package func certificates(_ path: String) throws(UnusableInput) -> String { "unread file \(path)" }
    package func fits(_ tls: ClientTLS) -> Bool { true }

    /// The users of this machine are not those of the machine that the configuration is for.
    package func userID(ofName name: String) -> UInt32? { .max }
}

/// A program that prints a secret of the configuration: `{exec: [program, argument], environment: {…}, timeout: 5s}`.
package struct SecretProgram: Hashable, Sendable {
    /// The program and its arguments; no shell.
    package var command: [String]
    /// Beside the few variables that every program is given (``ProgramEnvironment``).
    package var environment: [String: Secret]
    package var timeout: Duration
    /// How long what it printed is good for; nil is until the next reload.
    package var ttl: Duration?

    package init(
        _ command: [String],
        environment: [String: Secret] = [:],
        timeout: Duration,
        ttl: Duration? = nil
    ) {
        self.command = command
        self.environment = environment
        self.timeout = timeout
        self.ttl = ttl
    }

    /// For messages: the arguments may hold secrets.
    package var name: String { command.first ?? "" }
}

/// What the gateway's programs see of its environment, which may hold secrets.
package enum ProgramEnvironment {
    /// What programs commonly need.
    package static let inherited: Set = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
        "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
    ]

    package static func inherited(from variables: [String: String]) -> [String: String] {
        variables.filter { inherited.contains($0.key) }
    }
}

/// What a client shows in a TLS handshake to say who it is (RFC 8446 §4.4.2), and whom it trusts there.
package struct ClientTLS: Hashable, Sendable {
    /// PEM: the client's own, then those that lead to an authority that the server knows.
    package let certificates: String
    package let privateKey: PrivateKeyDER
    /// PEM: the authorities that the server's certificate must come from; nil trusts the system's.
    package let authorities: String?

    package init(certificates: String, privateKey: PrivateKeyDER, authorities: String? = nil) {
        self.certificates = certificates
        self.privateKey = privateKey
        self.authorities = authorities
    }
}

/// A private key that has been opened: DER without encryption, PKCS#1 for RSA and SEC 1 for elliptic curves.
package struct PrivateKeyDER: Hashable, Sendable {
    /// The bytes in base64url. Also what tells two keys apart, whatever passphrase they were locked with.
    package let text: Secret

    package init(_ bytes: [UInt8]) { text = Secret(Base64.encodeURL(bytes)) }
}
