/// A file that a backup can hold.
package enum BackupFile: Hashable, Sendable {
    case auditLog
    /// The end of the copied log.
    case auditHead
    case tokenStore
    case locks
    case authorityKeys
    case authorityCertificates
    case installationKey
    case storeKey
    /// A file that a command wrote for a secret of the configuration.
    case secret(String)

    /// Those that are there or not, whatever the configuration.
    private static let fixed: [BackupFile] = [
        .auditLog, .auditHead, .tokenStore, .locks, .authorityKeys, .authorityCertificates, .installationKey, .storeKey,
    ]

    /// Relative to the folder of the backup.
    package var name: String {
        switch self {
        case .auditLog: "audit.sqlite"
        case .auditHead: "audit.sqlite.head"
        case .tokenStore: "tokens.sqlite"
        case .locks: "locks.json"
        case .authorityKeys: "ca/authority"
        case .authorityCertificates: "ca/ca.pem"
        case .installationKey: "keys/installation.key"
        case .storeKey: "keys/token-store.key"
        case .secret(let name): "secrets/\(name)"
        }
    }

    /// nil for a name that no backup has, such as one that leads out of its folder.
    package init?(_ name: String) {
        if let file = Self.fixed.first(where: { $0.name == name }) {
            self = file
            return
        }
        let prefix = "secrets/"
        guard name.hasPrefix(prefix), Self.isPlain(name.dropFirst(prefix.count)) else { return nil }
        self = .secret(String(name.dropFirst(prefix.count)))
    }

    /// Whether it is a secret in clear, which a backup has on request alone.
    package var isKey: Bool {
        switch self {
        case .installationKey, .storeKey: true
        default: false
        }
    }

    /// Whether a name is one of a file of the folder, and not that of another place.
    package static func isPlain(_ name: some StringProtocol) -> Bool {
        !name.isEmpty && name.utf8.count <= 255 && !name.hasPrefix(".")
            && name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "/") }
    }
}
