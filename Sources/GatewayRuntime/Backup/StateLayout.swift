import GatewayCore
import GatewayFiles
import GatewayLocalAuthority
import GatewayTokenStores

/// Where the files of a gateway are that a backup holds.
struct StateLayout: Sendable {
    let places: Storage.Places

    var stateDirectory: String { places.stateDirectory }

    /// nil for a file that this configuration does not have: the key may come from the environment, say.
    func path(of file: BackupFile) -> String? {
        switch file {
        case .auditLog: places.audit.path
        case .auditHead: places.audit.path + ".head"
        case .tokenStore: places.tokens.store == .sqlite ? places.tokens.path : nil
        case .locks: CredentialLocks.path(in: stateDirectory)
        case .authorityKeys: "\(stateDirectory)/ca/authority"
        case .authorityCertificates: LocalAuthority.bundlePath(in: stateDirectory)
        case .installationKey: Self.path(of: places.tokens.key)
        case .storeKey:
            switch (places.tokens.encryptionKey, places.tokens.key) {
            case (.file(let path), _): path
            case (nil, .file(let path)): EncryptionKeyFile(path: path + ".encryption").path
            default: nil
            }
        case .secret(let name): "\(secretFolder)/\(name)"
        }
    }

    private var secretFolder: String { "\(stateDirectory)/secrets" }

    /// The files that commands wrote for secrets of the configuration.
    var secrets: [BackupFile] {
        PrivateFile.names(beside: "\(secretFolder)/x").sorted().filter(BackupFile.isPlain).map { .secret($0) }
    }

    private static func path(of key: TokenPlan.Key) -> String? {
        if case .file(let path) = key { path } else { nil }
    }

    func isThere(_ file: BackupFile) -> Bool { path(of: file).map { FileIdentity($0) != nil } ?? false }

    /// The state directory, where the file is below it: nil for a database that the configuration keeps elsewhere.
    func relativePath(of path: String) -> String? {
        let prefix = stateDirectory.hasSuffix("/") ? stateDirectory : stateDirectory + "/"
        return path.hasPrefix(prefix) ? String(path.dropFirst(prefix.count)) : nil
    }
}

extension InstallationKey {
    static func read(_ key: TokenPlan.Key) throws(StateError) -> InstallationKey? {
        switch key {
        case .value(let secret): try InstallationKey(secret)
        case .file(let path): try InstallationKey.load(path: path)
        }
    }
}
