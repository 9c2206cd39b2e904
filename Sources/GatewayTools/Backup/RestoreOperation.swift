import Foundation
import GatewayApp
import GatewayAudit
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTokenStores
import Logging

/// `state restore`: puts a backup into the place of a gateway's state.
///
/// Everything is copied into a folder beside, compared with its digests, and opened with the key there. Only then are files put
/// into their places. The lock of the state directory is held from the beginning to the end.
struct RestoreOperation: Sendable {
    /// What came of it.
    struct Outcome: Sendable {
        let manifest: BackupManifest
        /// How many tokens have a refresh token that may have been spent since.
        var marked = 0
        /// What is wrong with the copied audit log, as it was with the log itself.
        var breach: String?
        /// The names of credentials that are locked by now.
        var locked: Set<String> = []
        /// Where what was there before is now; nil when nothing was.
        var replaced: String?
    }

    let layout: StateLayout
    let folder: String
    let mayReplace: Bool
    let clock: any GatewayClock
    let logger: Logger
    var progress: ProgressLine?

    func run() async throws(StateError) -> Outcome {
        let manifest = try readManifest()
        // Held until the end: no gateway starts on what is being replaced.
        let directory = try StateDirectory(path: layout.stateDirectory)
        let databases = try DatabaseLocks(existingOf: layout.places)
        defer { withExtendedLifetime((directory, databases)) {} }
        let staging = RestoreStaging(layout: layout)
        let swap = RestoreSwap(staging: staging, keepsKeys: !manifest.includesKeys, at: clock.now().wall)
        let occupied = swap.occupied
        guard mayReplace || occupied.isEmpty else {
            let names = occupied.prefix(5).joined(separator: ", ")
            throw StateError(
                "\(layout.stateDirectory) is not empty (\(names)); --replace moves what is there aside and keeps it"
            )
        }
        // One that cannot be read is said before anything is changed.
        let locks = CredentialLocks.path(in: layout.stateDirectory)
        _ = try StoredLocks(readFrom: locks)
        var outcome = Outcome(manifest: manifest)
        do throws(StateError) {
            progress?.step("Copying the backup")
            try staging.copy(manifest, from: folder)
            let key = try requireKey(for: manifest, staging)
            try await open(&outcome, key, staging)
        } catch {
            staging.remove()
            throw error
        }
        outcome.replaced = try swap.perform(manifest)
        outcome.locked = try StoredLocks(readFrom: locks).names
        return outcome
    }

    private func readManifest() throws(StateError) -> BackupManifest {
        let path = "\(folder)/\(BackupManifest.fileName)"
        let content: BoundedFile
        do throws(BoundedFile.Failure) {
            content = try BoundedFile.read(path, limit: BackupManifest.maximumBytes)
        } catch {
            throw StateError("\(folder) is not a complete backup: \(path): \(error.message)")
        }
        let known = BackupManifest.Schemas(audit: AuditSchema.version, tokens: SQLiteTokenStore.schemaVersion)
        let manifest: BackupManifest
        do throws(BackupManifest.Refusal) {
            manifest = try BackupManifest(json: content.bytes, known: known)
        } catch {
            throw StateError("\(folder) cannot be restored: \(error.words)")
        }
        guard manifest.schemas.tokens == nil || layout.path(of: .tokenStore) != nil else {
            throw StateError(
                "the backup has a token store of tokens.store: sqlite, and the configuration keeps tokens elsewhere "
                    + "(\(layout.places.tokens.store.rawValue))"
            )
        }
        return manifest
    }

    private func requireKey(
        for manifest: BackupManifest,
        _ staging: RestoreStaging
    ) throws(StateError) -> InstallationKey {
        guard let key = try staging.installationKey(manifest) else {
            throw StateError(
                "the backup has no keys. It needs the installation key of instance \(manifest.instance.singleLine(limit: 64)); "
                    + "put it at \(layout.path(of: .installationKey) ?? "") (mode 0600) and repeat this"
            )
        }
        guard key.instanceName == manifest.instance else {
            let place = layout.path(of: .installationKey) ?? "the configuration (tokens.key)"
            throw StateError(
                "the backup was made with another installation key: it needs that of instance "
                    + "\(manifest.instance.singleLine(limit: 64)), and the key of \(place) is that of instance \(key.instanceName)"
            )
        }
        guard manifest.isAuthentic(for: key) else {
            throw StateError("\(folder)/\(BackupManifest.fileName) was changed after the backup; restore another one")
        }
        return key
    }

    /// Opens the databases, marks the tokens and records the event, all in the copies.
    private func open(
        _ outcome: inout Outcome,
        _ key: InstallationKey,
        _ staging: RestoreStaging
    ) async throws(StateError) {
        do {
            if outcome.manifest.schemas.tokens != nil {
                outcome.marked = try await markTokens(outcome.manifest, key, staging)
            }
            let path = staging.path(of: .auditLog)
            let counter = progress?.counter("Verifying the audit log of the backup")
            let verification = try await AuditReader(path: path).verify(keys: AuditKeys(key), onRows: counter)
            outcome.breach = verification.breach?.explanation
            guard verification.breach == nil || !outcome.manifest.isAuditVerified else {
                throw StateError("the audit log of the backup is broken: \(outcome.breach ?? "")")
            }
            try await record(outcome, key, path)
            try staging.requireClosed()
        } catch {
            throw BackupOperation.stateError(error)
        }
    }

    private func markTokens(
        _ manifest: BackupManifest,
        _ key: InstallationKey,
        _ staging: RestoreStaging
    ) async throws -> Int {
        let own = manifest.hasStoreKey ? try staging.storeKey(manifest) : nil
        guard own != nil || !manifest.hasStoreKey else {
            throw StateError(
                "the backup has no keys, and its token store has one of its own (after a `key rotate`, "
                    + "token.key.encryption); put that at \(layout.path(of: .storeKey) ?? "") (mode 0600) and repeat this"
            )
        }
        let keys = [own ?? key].map { $0.derived(for: .tokenStore) }
        let store = try SQLiteTokenStore(path: staging.path(of: .tokenStore), keys: keys, ownsFile: true)
        let marked = try await store.markRestored(at: clock.now().wall)
        await store.close()
        return marked
    }

    private func record(_ outcome: Outcome, _ key: InstallationKey, _ path: String) async throws {
        var options = SQLiteAuditLog.Options(path: path, instance: key.instanceName)
        options.maximumBytes = layout.places.audit.maximumBytes
        options.takesNewChainName = true
        let log = try SQLiteAuditLog(options: options, keys: AuditKeys(key), clock: clock, logger: logger)
        var event = TokenEvent(at: clock.now().wall, name: .stateRestored, trigger: .operator)
        event.detail = [
            "made_at": outcome.manifest.madeAt, "last_row": String(outcome.manifest.lastAuditRow),
            "refresh_tokens": String(outcome.marked),
        ]
        try await log.record(event)
        await log.close()
    }
}

/// Where a backup is copied to before its files take their places: a folder of the state directory. A database that the
/// configuration keeps elsewhere is copied to its own folder, so that it can be renamed into its place.
private struct RestoreStaging: Sendable {
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
        let isIncluded = manifest.files.contains { $0.name == file.name }
        if isIncluded, layout.path(of: file) != nil { return try InstallationKey.load(path: path(of: file)) }
        guard let configured else { return nil }
        return try InstallationKey.read(configured)
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

/// Moves the present files aside, and the copied files into their places. Nothing is deleted, and what is locked stays locked.
private struct RestoreSwap: Sendable {
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

    private static let unfinished = "fix that, and repeat the restore with --replace"
}
