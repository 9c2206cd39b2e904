/// Stands for all secrets where none is read: a configuration is checked on a machine that has none of them.
///
/// Each place gets a value of its own, so that two secrets never look like the same one. What a decoder says about such
/// a value is left out (``ConfigContext``).
package struct UnreadSecrets: SecretSource {
    package init() {}

    package var areUnread: Bool { true }

    package func environment(_ name: String) -> String? { "unread env \(name)" }
    package func file(_ path: String) throws(SecretSourceError) -> Secret { Secret("unread file \(path)") }

    package func program(_ program: SecretProgram) throws(SecretSourceError) -> Secret {
        // What it prints may depend on its variables, whose values may be secrets.
        Secret("unread exec \(program.environment.hashValue) \(program.command.joined(separator: " "))")
    }

    package func systemdCredential(_ name: String) throws(SecretSourceError) -> Secret {
        Secret("unread systemd_credential \(name)")
    }

    package func certificates(_ path: String) throws(SecretSourceError) -> String { "unread file \(path)" }
    package func fits(_ tls: ClientTLS) -> Bool { true }

    /// The users of this machine are not those of the machine that the configuration is for.
    package func userID(ofName name: String) -> UInt32? { .max }
}
