/// How a system is told to trust a certificate, and no longer to.
package enum SystemTrust: String, CaseIterable, Sendable {
    /// Debian, Ubuntu, Alpine.
    case updateCACertificates = "update-ca-certificates"
    /// Fedora, Red Hat, Arch.
    case trust
    /// macOS.
    case security

    /// A root of the local authority.
    package struct Root: Hashable, Sendable {
        /// Hexadecimal digits that tell it from all others.
        package let fingerprint: String
        /// A file with it, in PEM.
        package let path: String

        package init(fingerprint: String, path: String) {
            self.fingerprint = fingerprint
            self.path = path
        }

        package var alias: String { "authgateway-\(fingerprint.prefix(16))" }
    }

    package enum Step: Hashable, Sendable {
        case copy(from: String, to: String)
        case remove(String)
        case run([String])
    }

    /// The first of them that the machine has.
    package static func present(_ hasProgram: (String) -> Bool) -> SystemTrust? {
        allCases.first { hasProgram($0.rawValue) }
    }

    package func install(_ roots: [Root]) -> [Step] {
        switch self {
        case .updateCACertificates:
            return roots.map { .copy(from: $0.path, to: Self.debianPath($0)) } + [.run([rawValue])]
        case .trust: return roots.map { .run([rawValue, "anchor", "--store", $0.path]) }
        case .security:
            return roots.map {
                .run([rawValue, "add-trusted-cert", "-d", "-r", "trustRoot", "-k", Self.keychain, $0.path])
            }
        }
    }

    package func uninstall(_ roots: [Root]) -> [Step] {
        switch self {
        case .updateCACertificates: return roots.map { .remove(Self.debianPath($0)) } + [.run([rawValue, "--fresh"])]
        case .trust: return roots.map { .run([rawValue, "anchor", "--remove", $0.path]) }
        case .security: return roots.map { .run([rawValue, "remove-trusted-cert", "-d", $0.path]) }
        }
    }

    /// For a trust store of Java that does not follow the system.
    package static func installInJava(_ root: Root, store: String) -> [String] {
        ["keytool", "-importcert", "-noprompt", "-alias", root.alias, "-file", root.path] + java(store)
    }

    package static func uninstallFromJava(_ root: Root, store: String) -> [String] {
        ["keytool", "-delete", "-alias", root.alias] + java(store)
    }

    /// The password is the one that every Java comes with; it protects nothing.
    private static func java(_ store: String) -> [String] { ["-keystore", store, "-storepass", "changeit"] }

    private static func debianPath(_ root: Root) -> String { "/usr/local/share/ca-certificates/\(root.alias).crt" }
    private static let keychain = "/Library/Keychains/System.keychain"
}
