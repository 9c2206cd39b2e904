package import Crypto
import Foundation
package import GatewayFiles
package import GatewayHTTP
package import GatewayTokens

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
        case clientSecret = "client-secret"
        case capturedAccount = "captured-account"
    }

    package static let byteCount = 32

    private let root: SymmetricKey
    /// Derived once, because a configuration with many credentials and routes needs them for each.
    private let credentialKeys: SymmetricKey
    private let configurationDigests: SymmetricKey

    private init(root: SymmetricKey) {
        self.root = root
        credentialKeys = Self.key(derivedFrom: root, for: .credentialKey)
        configurationDigests = Self.key(derivedFrom: root, for: .configurationDigest)
    }

    package init(bytes: [UInt8]) throws(StateError) {
        guard bytes.count == Self.byteCount else {
            throw StateError("the installation key has \(bytes.count) bytes and must have \(Self.byteCount)")
        }
        self.init(root: SymmetricKey(data: bytes))
    }

    /// Takes the key as text, as an environment variable or a systemd credential holds it: 64 hexadecimal digits, or
    /// base64 of 32 bytes. White space around it is ignored.
    package init(_ secret: Secret) throws(StateError) {
        let bytes = secret.withValue { Self.bytes(from: $0) }
        guard let bytes else {
            throw StateError(
                "the installation key must be 64 hexadecimal digits or base64 of 32 bytes; "
                    + "make one with `openssl rand -hex 32`"
            )
        }
        self.init(root: SymmetricKey(data: bytes))
    }

    /// HKDF-SHA256 (RFC 5869) without salt.
    package func derived(for purpose: Purpose) -> SymmetricKey { Self.key(derivedFrom: root, for: purpose) }

    private static func key(derivedFrom root: SymmetricKey, for purpose: Purpose) -> SymmetricKey {
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
        CredentialKey(digest: Self.hexDigest(of: identity.canonicalBytes, key: credentialKeys, digits: 32))
    }

    /// Tells nothing about `bytes`, not even to a guesser.
    package func configurationDigest(of bytes: [UInt8]) -> String {
        Self.hexDigest(of: bytes, key: configurationDigests, digits: 64)
    }

    /// Eight hexadecimal digits that name this installation in the audit log, the same after every restart.
    package var instanceName: String { Self.hexDigest(of: [], key: derived(for: .instanceName), digits: 8) }

    private static func hexDigest(of bytes: [UInt8], key: SymmetricKey, digits: Int) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: bytes, using: key)
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

// MARK: - Its file

/// The file that the key is kept in.
extension InstallationKey {
    /// Reads the key file at `path`, or creates it with 32 random bytes and mode 0600 when it is not there.
    ///
    /// Two processes that create it at the same time end up with the same key. A file that others may read, a symbolic
    /// link or a file of another user is refused: such a key may be known to somebody, or be somebody's.
    package static func loadOrCreate(path: String) throws(StateError) -> InstallationKey {
        if let key = try load(path: path) { return key }
        try StateError.explaining(
            "the key file \(path) cannot be created",
            try PrivateFile.create(path, content: randomBytes())
        )
        guard let key = try load(path: path) else {
            throw StateError("the key file \(path) was removed while it was being created; try again")
        }
        return key
    }

    /// - Returns: nil when there is no file.
    package static func load(path: String) throws(StateError) -> InstallationKey? {
        let content = try StateError.explaining(
            "the key file \(path) cannot be used",
            try PrivateFile.readSecret(path, limit: 64 << 10)
        )
        guard let content else { return nil }
        let bytes = content.count == byteCount ? content : bytes(from: String(decoding: content, as: UTF8.self))
        guard let bytes else {
            throw StateError(
                "the key file \(path) has \(content.count) bytes and must hold \(byteCount) random bytes; restore it "
                    + "from a backup, or remove it together with the token store and the audit log that it protects"
            )
        }
        return try InstallationKey(bytes: bytes)
    }

    private static func randomBytes() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<byteCount).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }
}

/// The file with the key of the token store. While the store is being encrypted with a new key, a second file beside
/// it holds the new key.
///
/// The store records which key it is encrypted with, so a crash during the change loses nothing.
package struct EncryptionKeyFile: Sendable {
    package let path: String
    /// A name that no person would choose: what it names is removed when a rotation is undone.
    var preparedPath: String { path + ".authgateway-rotation" }

    package init(path: String) { self.path = path }

    package var isThere: Bool { FileIdentity(path) != nil }

    package func current() throws(StateError) -> InstallationKey? { try InstallationKey.load(path: path) }

    package func loadOrCreate() throws(StateError) -> InstallationKey {
        try InstallationKey.loadOrCreate(path: path)
    }

    /// nil outside of a rotation.
    package func prepared() throws(StateError) -> InstallationKey? {
        try InstallationKey.load(path: preparedPath)
    }

    /// Makes the next key, on the disk before this returns.
    package func prepare() throws(StateError) -> InstallationKey {
        let key = try InstallationKey.loadOrCreate(path: preparedPath)
        try StateError.explaining(
            "the key file \(preparedPath) may not survive a crash",
            try PrivateFile.synchronizeDirectory(of: preparedPath)
        )
        return key
    }

    /// Replaces the current key with the prepared one. The old key is then gone.
    package func promote() throws(StateError) {
        try StateError.explaining(
            "\(preparedPath) cannot replace \(path)",
            try PrivateFile.replace(path, by: preparedPath)
        )
    }

    /// Forgets a key that was prepared and never used, and what a crash has left of making one; nothing else.
    ///
    /// - Returns: The names of the files that were removed.
    package func discardPrepared() -> [String] {
        let folder = (path as NSString).deletingLastPathComponent
        let prepared = (preparedPath as NSString).lastPathComponent
        return PrivateFile.names(beside: path).sorted().filter { name in
            guard name == prepared || PrivateFile.isTemporary(name, of: prepared) else { return false }
            return PrivateFile.remove((folder as NSString).appendingPathComponent(name))
        }
    }
}
