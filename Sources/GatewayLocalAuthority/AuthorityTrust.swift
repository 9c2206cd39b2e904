import FoundationEssentials
package import GatewayHTTP

/// Who trusts the local authority, as far as this machine shows it.
package struct AuthorityTrust: Hashable, Sendable {
    package struct Root: Hashable, Sendable {
        package let name: String
        package let endsAt: UnixTime
        package let fingerprint: String

        package init(name: String, endsAt: UnixTime, fingerprint: String) {
            self.name = name
            self.endsAt = endsAt
            self.fingerprint = fingerprint
        }
    }

    /// A file with certificates that programs trust.
    package struct Place: Hashable, Sendable {
        package enum Kind: String, Sendable {
            case system
            case java
            /// A variable of the environment names it.
            case variable
        }

        package let kind: Kind
        /// The path, or the variable.
        package let name: String
        /// How many of the roots it has; nil when it cannot be read.
        package let trusted: Int?

        package init(_ kind: Kind, _ name: String, trusted: Int?) {
            self.kind = kind
            self.name = name
            self.trusted = trusted
        }
    }

    package var roots: [Root]
    package var places: [Place]

    package init(roots: [Root], places: [Place]) {
        self.roots = roots
        self.places = places
    }

    package func state(of place: Place) -> String {
        guard let trusted = place.trusted else { return "cannot be read" }
        if trusted == 0 { return "not trusted" }
        return trusted < roots.count ? "trusted in part: \(trusted) of \(roots.count)" : "trusted"
    }

    /// Some of its certificates were installed, and others were made since.
    package var isInstalledInPart: Bool {
        places.contains { $0.kind != .variable && ($0.trusted ?? 0) > 0 && ($0.trusted ?? 0) < roots.count }
    }

    package var isTrustedBySystem: Bool { places.contains { $0.kind == .system && $0.trusted == roots.count } }
}

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

/// Certificates as a trust store of Java: PKCS#12 (RFC 7292) without encryption, which Java reads without a password.
package enum JavaTrustStore {
    /// - Parameter certificates: In base64, as ``PEM/certificates(in:)`` gives them.
    package static func bytes(of certificates: [String]) -> [UInt8] {
        let bags = certificates.compactMap { Data(base64Encoded: $0) }.enumerated()
            .map { bag(Array($0.element), alias: "authgateway-\($0.offset)") }
        let safe = sequence([contentInfo(sequence(bags))])
        return sequence([[0x02, 0x01, 0x03], contentInfo(safe)])
    }

    private enum Identifier {
        static let data: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01]
        static let certificateBag: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x0C, 0x0A, 0x01, 0x03]
        static let x509: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, 0x16, 0x01]
        static let friendlyName: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, 0x14]
        /// 2.16.840.1.113894.746875.1.1: without it, Java takes a certificate for one of a key, and trusts it for nothing.
        static let trustedKeyUsage: [UInt8] = [0x60, 0x86, 0x48, 0x01, 0x86, 0xF9, 0x66, 0xAD, 0xCA, 0x7B, 0x01, 0x01]
        static let anyUsage: [UInt8] = [0x55, 0x1D, 0x25, 0x00]
    }

    /// Content that is neither signed nor encrypted.
    private static func contentInfo(_ content: [UInt8]) -> [UInt8] {
        sequence([identifier(Identifier.data), value(0xA0, value(0x04, content))])
    }

    private static func bag(_ certificate: [UInt8], alias: String) -> [UInt8] {
        let content = sequence([identifier(Identifier.x509), value(0xA0, value(0x04, certificate))])
        let name = value(0x1E, alias.utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] })
        let attributes = [
            sequence([identifier(Identifier.friendlyName), value(0x31, name)]),
            sequence([identifier(Identifier.trustedKeyUsage), value(0x31, identifier(Identifier.anyUsage))]),
        ]
        return sequence([
            identifier(Identifier.certificateBag), value(0xA0, content), value(0x31, Array(attributes.joined())),
        ])
    }

    private static func sequence(_ parts: [[UInt8]]) -> [UInt8] { value(0x30, Array(parts.joined())) }
    private static func identifier(_ bytes: [UInt8]) -> [UInt8] { value(0x06, bytes) }

    /// Tag, length and content (X.690 section 8.1).
    private static func value(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        guard content.count >= 0x80 else { return [tag, UInt8(content.count)] + content }
        var length: [UInt8] = []
        var rest = content.count
        while rest > 0 {
            length.insert(UInt8(rest & 0xFF), at: 0)
            rest >>= 8
        }
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }
}

/// Certificates in PEM, in one file: those that a program trusted before, then those of the local authority.
package enum TrustBundle {
    /// What stands between both. Readers skip what is no certificate.
    package static let mark = "# The local authority of AuthGateway:"

    /// - Parameters:
    ///   - earlier: The texts of files; what the local authority has added to one of them is left out.
    ///   - own: The certificates of the local authority.
    package static func merged(_ earlier: [String], own: String) -> String {
        let known = Set(PEM.certificates(in: own))
        var seen: Set<String> = known
        var text = ""
        for certificate in earlier.flatMap({ PEM.certificates(in: beforeMark($0)) })
        where seen.insert(certificate).inserted {
            text += PEM.text(ofCertificate: certificate)
        }
        return text + added(own)
    }

    /// The bundle with the present certificates of the local authority in place of its earlier ones; nil for a text that is no
    /// such bundle.
    package static func renewed(_ bundle: String, own: String) -> String? {
        guard bundle.contains(mark) else { return nil }
        return beforeMark(bundle) + added(own)
    }

    private static func beforeMark(_ text: String) -> String {
        text.firstRange(of: mark).map { String(text[..<$0.lowerBound]) } ?? text
    }

    private static func added(_ own: String) -> String {
        mark + "\n" + PEM.certificates(in: own).map(PEM.text).joined()
    }
}
