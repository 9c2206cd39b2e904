import Foundation
import GatewayCore
import GatewayFiles

/// Moves the present files aside, and the copied files into their places. Nothing is deleted, and what is locked stays locked.
struct RestoreSwap: Sendable {
    static let prefix = "replaced-"

    private let staging: RestoreStaging
    /// The backup has no keys, so those that are there are used.
    private let keepsKeys: Bool
    /// What names the folder of what was there.
    private let stamp: String

    init(staging: RestoreStaging, keepsKeys: Bool, at now: UnixTime) {
        self.staging = staging
        self.keepsKeys = keepsKeys
        stamp = Self.prefix + now.rfc3339.filter { !":-.".contains($0) }
    }

    private var layout: StateLayout { staging.layout }
    private var state: String { layout.stateDirectory }

    /// The paths of what would be replaced.
    var occupied: [String] { entries.map { "\(state)/\($0)" } + outside.filter { FileIdentity($0) != nil } }

    /// What belongs to the state, of what is in its directory.
    private var entries: [String] {
        PrivateFile.names(beside: "\(state)/x").sorted().filter { name in
            let isOurs = name.hasPrefix(Self.prefix) || name.hasPrefix(RestoreStaging.prefix)
            let isOfProcess = name == "gateway.lock" || name == "restore.unfinished" || name.hasSuffix(".sock")
            guard name != StateDirectory.gitIgnore else { return false }
            return !isOurs && !isOfProcess && name != BackupFile.locks.name && !(keepsKeys && isKey(name))
        }
    }

    private func isKey(_ name: String) -> Bool {
        if name == "secrets" { return true }
        let keys = [BackupFile.installationKey, .storeKey].compactMap { layout.path(of: $0) }
        return keys.contains("\(state)/\(name)")
    }

    /// The files of the databases and keys that the configuration keeps elsewhere.
    private var outside: [String] {
        let databases = [layout.path(of: .auditLog), layout.path(of: .tokenStore)].compactMap(\.self)
        let keys = keepsKeys ? [] : [BackupFile.installationKey, .storeKey].compactMap { layout.path(of: $0) }
        let files = databases.flatMap { path in ["", "-wal", "-shm", ".head"].map { path + $0 } } + keys
        return files.filter { layout.relativePath(of: $0) == nil }
    }

    /// - Returns: Where what was there is now; nil when nothing was.
    func perform(_ manifest: BackupManifest) throws(StateError) -> String? {
        let (old, others) = (entries, outside.filter { FileIdentity($0) != nil })
        try RestoreMarker.set(in: state)
        let aside = "\(state)/\(stamp)"
        if !old.isEmpty {
            try makeFolder(aside)
            for name in old { try move("\(state)/\(name)", to: "\(aside)/\(name)") }
        }
        for path in others { try move(path, to: "\(path).\(stamp)") }
        let files = manifest.files.compactMap { BackupFile($0.name) }
        for file in files where file != .locks {
            // A key that the configuration takes from elsewhere has no file.
            guard let target = layout.path(of: file) else { continue }
            try makeFolder((target as NSString).deletingLastPathComponent)
            try move(staging.path(of: file), to: target)
        }
        if files.contains(.locks) { try addLocks() }
        RestoreMarker.remove(in: state)
        staging.remove()
        return old.isEmpty && others.isEmpty ? nil : old.isEmpty ? "\(others[0]).\(stamp)" : aside
    }

    /// What an operator has locked since the backup must not be used again because of a restore.
    private func addLocks() throws(StateError) {
        let path = CredentialLocks.path(in: state)
        let present = try StoredLocks(readFrom: path)
        let all = present.union(try StoredLocks(readFrom: staging.path(of: .locks)))
        if all != present { try StateFile.write(all.text, to: path) }
    }

    private func makeFolder(_ path: String) throws(StateError) {
        do {
            try FileManager.default.createDirectory(
                atPath: path,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw StateError("the folder \(path) cannot be made; \(Self.unfinished)")
        }
    }

    /// The new name is on the disk when this returns.
    private func move(_ path: String, to target: String) throws(StateError) {
        guard FileIdentity(target) == nil else { throw StateError("\(target) is there already; \(Self.unfinished)") }
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(target, by: path)
        } catch {
            throw StateError("\(path) cannot be moved to \(target): \(error.reason); \(Self.unfinished)")
        }
    }

    private static let unfinished = "mend that, and repeat the restore with --replace"
}
