import Foundation
import GatewayCore
import GatewayFiles
import GatewayTokenStores

/// Where a backup is copied to before its files take their places: a folder of the state directory. A database that the
/// configuration keeps elsewhere is copied to its own folder, so that it can be renamed into its place.
struct RestoreStaging: Sendable {
    static let prefix = "restoring-"

    let layout: StateLayout
    private let id: String

    init(layout: StateLayout) {
        self.layout = layout
        id = Self.prefix + Hexadecimal.random(bytes: 4)
    }

    var folder: String { "\(layout.stateDirectory)/\(id)" }

    func path(of file: BackupFile) -> String {
        if file == .auditHead { return path(of: .auditLog) + ".head" }
        guard let target = layout.path(of: file), layout.relativePath(of: target) == nil else {
            return "\(folder)/\(file.name)"
        }
        return "\(target).\(id)"
    }

    /// - Throws: ``StateError`` when a file is not as the manifest says.
    func copy(_ manifest: BackupManifest, from source: String) throws(StateError) {
        for expected in manifest.files {
            guard let file = BackupFile(expected.name) else { continue }
            let found = try BackupCopy.copy("\(source)/\(file.name)", to: path(of: file), as: file)
            guard found == expected else {
                throw StateError("\(source)/\(file.name) was changed after the backup; restore another one")
            }
        }
    }

    /// nil when it is nowhere.
    func installationKey(_ manifest: BackupManifest) throws(StateError) -> InstallationKey? {
        try key(.installationKey, manifest, layout.places.tokens.key)
    }

    func storeKey(_ manifest: BackupManifest) throws(StateError) -> InstallationKey? {
        let configured = layout.places.tokens.encryptionKey
        return try key(.storeKey, manifest, configured ?? layout.path(of: .storeKey).map { .file(path: $0) })
    }

    /// That of the backup, or else the present one.
    private func key(
        _ file: BackupFile,
        _ manifest: BackupManifest,
        _ configured: TokenPlan.Key?
    ) throws(StateError) -> InstallationKey? {
        do throws(InstallationKeyError) {
            let isIncluded = manifest.files.contains { $0.name == file.name }
            if isIncluded, layout.path(of: file) != nil { return try InstallationKey.load(path: path(of: file)) }
            guard let configured else { return nil }
            return try InstallationKey.read(configured)
        } catch {
            throw StateError(error.message)
        }
    }

    /// - Throws: ``StateError`` when a database is not whole in its file: a part is in its write-ahead log.
    func requireClosed() throws(StateError) {
        for path in [path(of: .auditLog), path(of: .tokenStore)] where FileIdentity(path + "-wal") != nil {
            throw StateError("\(path) cannot be closed: its disk does not answer; repeat the restore")
        }
    }

    /// Removes what was copied.
    func remove() {
        try? FileManager.default.removeItem(atPath: folder)
        let files: [BackupFile] = [.auditLog, .auditHead, .tokenStore, .installationKey, .storeKey]
        for path in files.map(path(of:)) {
            for suffix in ["", "-wal", "-shm"] { _ = PrivateFile.remove(path + suffix) }
        }
    }
}
