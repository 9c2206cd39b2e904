package import Crypto
import Foundation
package import GatewayCore

/// The secret of one installation: 32 bytes from which every other key is derived, each for one purpose.
///
/// It encrypts the token store and keys the audit chain and all digests. Without it, the stored tokens cannot be read
/// and the audit log cannot be verified. Nothing else is lost.
package struct InstallationKey: Sendable, CustomStringConvertible, CustomReflectable {
    package enum Purpose: String, CaseIterable, Sendable {
        case tokenStore = "token-store"
        case auditChain = "audit-chain"
        case tokenFingerprint = "token-fingerprint"
        case credentialKey = "credential-key"
        case instanceName = "instance-name"
        case configurationDigest = "configuration-digest"
        case localAuthority = "local-authority"
        case engineGeneration = "engine-generation"
        case backupManifest = "backup-manifest"
    }

    package static let byteCount = 32

    private let root: SymmetricKey

    package init(bytes: [UInt8]) throws(InstallationKeyError) {
        guard bytes.count == Self.byteCount else {
            throw InstallationKeyError("the installation key has \(bytes.count) bytes and must have \(Self.byteCount)")
        }
        root = SymmetricKey(data: bytes)
    }

    /// Takes the key as text, as an environment variable or a systemd credential holds it: 64 hexadecimal digits, or
    /// base64 of 32 bytes. White space around it is ignored.
    package init(_ secret: Secret) throws(InstallationKeyError) {
        let bytes = secret.withValue { Self.bytes(from: $0) }
        guard let bytes else {
            throw InstallationKeyError(
                "the installation key must be 64 hexadecimal digits or base64 of 32 bytes; "
                    + "make one with `openssl rand -hex 32`"
            )
        }
        root = SymmetricKey(data: bytes)
    }

    /// HKDF-SHA256 (RFC 5869) without salt.
    package func derived(for purpose: Purpose) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: root,
            info: Array("authgateway \(purpose.rawValue)".utf8),
            outputByteCount: 32
        )
    }

    /// HMAC-SHA256 with the key that is derived for `purpose`.
    package func authenticator(for purpose: Purpose) -> @Sendable ([UInt8]) -> [UInt8] {
        let key = derived(for: purpose)
        return { Array(HMAC<SHA256>.authenticationCode(for: $0, using: key)) }
    }

    /// What names the token of `identity` in the store: reveals no input of the grant, not even to a guesser.
    package func credentialKey(for identity: GrantIdentity) -> CredentialKey {
        CredentialKey(digest: hexDigest(of: identity.canonicalBytes, for: .credentialKey, digits: 32))
    }

    /// Tells nothing about `bytes`, not even to a guesser.
    package func configurationDigest(of bytes: [UInt8]) -> String {
        hexDigest(of: bytes, for: .configurationDigest, digits: 64)
    }

    /// Eight hexadecimal digits that name this installation in the audit log, the same after every restart.
    package var instanceName: String { hexDigest(of: [], for: .instanceName, digits: 8) }

    private func hexDigest(of bytes: [UInt8], for purpose: Purpose, digits: Int) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: bytes, using: derived(for: purpose))
        return String(Hexadecimal.text(of: code).prefix(digits))
    }

    package var description: String { "‹installation key›" }
    package var customMirror: Mirror { Mirror(self, children: []) }

    static func bytes(from text: String) -> [UInt8]? {
        let text = text.trimmingCharacters(in: .whitespacesAndNewlines)
        if text.utf8.count == 2 * byteCount { return Hexadecimal.bytes(of: text) }
        var standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        while standard.utf8.count % 4 != 0 { standard += "=" }
        guard let data = Data(base64Encoded: standard), data.count == byteCount else { return nil }
        return Array(data)
    }
}

/// Says what is wrong with the installation key and what to do; holds none of it.
package struct InstallationKeyError: Error, Hashable, Sendable {
    package let message: String
    package init(_ message: String) { self.message = message }
}
