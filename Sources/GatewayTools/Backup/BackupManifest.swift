import FoundationEssentials
package import GatewayHTTP

/// What a backup of a state directory holds: the file `manifest.json`, which is written last.
package struct BackupManifest: Hashable, Sendable, Codable {
    package struct File: Hashable, Sendable, Codable {
        /// As ``BackupFile`` writes it.
        package var name: String
        package var bytes: Int
        /// Hexadecimal digits.
        package var sha256: String

        package init(name: String, bytes: Int, sha256: String) {
            self.name = name
            self.bytes = bytes
            self.sha256 = sha256
        }
    }

    /// The versions of the databases' tables; nil for a database that is not in the backup.
    package struct Schemas: Hashable, Sendable, Codable {
        package var audit: Int?
        package var tokens: Int?

        package init(audit: Int? = nil, tokens: Int? = nil) {
            self.audit = audit
            self.tokens = tokens
        }
    }

    /// The version of this file's format. A change of meaning is a new one.
    package static let format = 1
    package static let fileName = "manifest.json"
    package static let maximumBytes = 1 << 20

    package var format = Self.format
    /// The version of the program that made it.
    package var version: String
    /// Which installation key it was made with; see the column `instance` of the audit log.
    package var instance: String
    /// RFC 3339.
    package var madeAt: String
    package var schemas = Schemas()
    /// The newest row of the audit log.
    package var lastAuditRow: Int64
    /// Whether the chain of the copied audit log was whole.
    package var isAuditVerified: Bool
    package var tokens: Int?
    /// Whether the token store has a key of its own, beside the installation key.
    package var hasStoreKey = false
    package var includesKeys: Bool
    package var files: [File]
    /// A code over all of this that only the installation key makes.
    package var authentication = ""

    package init(
        version: String,
        instance: String,
        madeAt: UnixTime,
        lastAuditRow: Int64,
        isAuditVerified: Bool,
        includesKeys: Bool,
        files: [File] = []
    ) {
        self.version = version
        self.instance = instance
        self.madeAt = madeAt.rfc3339
        self.lastAuditRow = lastAuditRow
        self.isAuditVerified = isAuditVerified
        self.includesKeys = includesKeys
        self.files = files
    }

    private enum CodingKeys: String, CodingKey {
        case format, version, instance, schemas, tokens, files, authentication
        case madeAt = "made_at"
        case lastAuditRow = "last_audit_row"
        case isAuditVerified = "audit_verified"
        case hasStoreKey = "has_store_key"
        case includesKeys = "includes_keys"
    }

    /// What ``authentication`` is made of.
    package var authenticatedBytes: [UInt8] {
        var unsigned = self
        unsigned.authentication = ""
        return unsigned.encoded(.sortedKeys)
    }

    package var text: [UInt8] { encoded([.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]) + Array("\n".utf8) }

    private func encoded(_ formatting: JSONEncoder.OutputFormatting) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = formatting
        return (try? encoder.encode(self)).map { Array($0) } ?? []
    }

    /// Why the content of `manifest.json` is not used.
    package enum Refusal: Error, Hashable, Sendable {
        case unreadable
        case newerFormat(Int)
        case newerSchema(of: String, found: Int, known: Int)
        case unknownFile(String)
        case missingFile(String)

        package var words: String {
            switch self {
            case .unreadable: "manifest.json does not belong to a backup"
            case .newerFormat(let format):
                "a newer version of authgateway made the backup (format \(format); this one knows "
                    + "\(BackupManifest.format)); restore it with that version"
            case .newerSchema(let file, let found, let known):
                "a newer version of authgateway made the backup (\(file) has schema \(found); this one knows \(known)); "
                    + "restore it with that version"
            case .unknownFile(let name): "manifest.json names a file that no backup has: \(name.singleLine(limit: 100))"
            case .missingFile(let name): "manifest.json does not name \(name)"
            }
        }
    }

    private struct FormatOnly: Codable { let format: Int }

    /// - Parameter known: The newest tables that this program can read.
    package init(json: [UInt8], known: Schemas) throws(Refusal) {
        let (data, decoder) = (Data(json), JSONDecoder())
        guard let format = (try? decoder.decode(FormatOnly.self, from: data))?.format else { throw .unreadable }
        // Before anything else: a later format may have other fields.
        guard format <= Self.format else { throw .newerFormat(format) }
        guard let manifest = try? decoder.decode(Self.self, from: data) else { throw .unreadable }
        self = manifest
        try require(schemas.audit, atMost: known.audit, .auditLog)
        try require(schemas.tokens, atMost: known.tokens, .tokenStore)
        let names = files.map { BackupFile($0.name) }
        for (file, name) in zip(files, names) where name == nil { throw .unknownFile(file.name) }
        guard Set(files.map(\.name)).count == files.count else { throw .unreadable }
        let needed: [BackupFile] = [.auditLog, .auditHead] + (schemas.tokens == nil ? [] : [.tokenStore])
        for file in needed where !names.contains(file) { throw .missingFile(file.name) }
    }

    private func require(_ found: Int?, atMost known: Int?, _ file: BackupFile) throws(Refusal) {
        guard let found, let known, found > known else { return }
        throw .newerSchema(of: file.name, found: found, known: known)
    }
}

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

    /// Files that may be there or not, whatever the configuration.
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
