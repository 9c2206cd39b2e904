import Crypto
import Foundation
import GatewayApp
import GatewayAudit
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority
import GatewayTokenStores
import GatewayTokens

/// `state backup`: copies the state of a gateway, while it runs or not.
///
/// The databases are copied by SQLite, never as files. The manifest is written last: a folder without it is no backup.
struct BackupOperation: Sendable {
    let layout: StateLayout
    /// Where the backup is made.
    let folder: String
    let includesKeys: Bool
    let key: InstallationKey
    var progress: ProgressLine?

    /// - Parameters:
    ///   - note: Records the event. Nothing is copied when it throws.
    ///   - now: Goes into the manifest.
    func run(
        at now: UnixTime,
        noting note: () async throws(CommandFailure) -> Void
    ) async throws(CommandFailure) -> BackupManifest {
        try requireSource()
        let isNew = try prepareFolder()
        var made: [String] = []
        do throws(CommandFailure) {
            try await note()
            return try await copyAll(at: now, &made)
        } catch {
            for path in made { _ = PrivateFile.remove(path) }
            for name in ["ca", "keys", "secrets"] { _ = unsafe rmdir("\(folder)/\(name)") }
            if isNew { _ = unsafe rmdir(folder) }
            throw error
        }
    }

    private func requireSource() throws(CommandFailure) {
        guard layout.isThere(.auditLog) else {
            throw CommandFailure(
                .failed,
                "there is nothing to back up: there is no audit log at \(layout.places.audit.path); has the gateway run "
                    + "with this configuration?"
            )
        }
    }

    /// - Returns: Whether it was made.
    private func prepareFolder() throws(CommandFailure) -> Bool {
        let full = URL(fileURLWithPath: folder).standardizedFileURL.path
        let state = URL(fileURLWithPath: layout.stateDirectory).standardizedFileURL.path
        guard full != state, !full.hasPrefix(state + "/") else {
            throw CommandFailure(.usage, "\(folder) is in the state directory; name a folder elsewhere")
        }
        if unsafe mkdir(folder, 0o700) == 0 { return true }
        let reason = errno
        guard reason == EEXIST else {
            throw CommandFailure(.failed, "the folder \(folder) cannot be made: \(SystemError.text(reason))")
        }
        guard let mode = FileStatus.mode(of: folder), mode.isFolder else {
            throw CommandFailure(.failed, "\(folder) is not a folder")
        }
        guard mode.bits & 0o022 == 0 else {
            throw CommandFailure(.failed, "others may write to \(folder); run: chmod 700 \(folder)")
        }
        guard PrivateFile.names(beside: "\(folder)/x").isEmpty else {
            throw CommandFailure(.failed, "\(folder) is not empty; name a new folder")
        }
        return false
    }

    private func copyAll(at now: UnixTime, _ made: inout [String]) async throws(CommandFailure) -> BackupManifest {
        do {
            let (audit, isVerified) = try await copyAudit(&made)
            let tokens = try copyTokens(&made)
            var manifest = BackupManifest(
                version: GatewayVersion.current,
                instance: key.instanceName,
                madeAt: now,
                lastAuditRow: audit.lastRow,
                isAuditVerified: isVerified,
                includesKeys: includesKeys
            )
            manifest.schemas = BackupManifest.Schemas(audit: audit.schema, tokens: tokens?.schema)
            manifest.tokens = tokens?.tokens
            manifest.hasStoreKey =
                tokens != nil && (layout.places.tokens.encryptionKey != nil || layout.isThere(.storeKey))
            let databases: [BackupFile] = [.auditLog, .auditHead] + (tokens == nil ? [] : [.tokenStore])
            progress?.step("Computing checksums")
            for file in databases {
                manifest.files.append(try BackupCopy.digest(of: path(file), as: file))
            }
            for file in others where layout.isThere(file) {
                guard let source = layout.path(of: file) else { continue }
                made.append(path(file))
                manifest.files.append(try BackupCopy.copy(source, to: path(file), as: file))
            }
            manifest.authentication = manifest.code(by: key)
            made.append(path(BackupManifest.fileName))
            try PrivateFile.createNew(path(BackupManifest.fileName), content: manifest.text)
            return manifest
        } catch {
            throw CommandFailure(Self.stateError(error))
        }
    }

    private func path(_ file: BackupFile) -> String { path(file.name) }
    private func path(_ name: String) -> String { "\(folder)/\(name)" }

    /// What is copied as a file: none of them is changed in place.
    private var others: [BackupFile] {
        let secret: [BackupFile] = [.installationKey, .storeKey] + layout.secrets
        return [.locks, .authorityKeys, .authorityCertificates] + (includesKeys ? secret : [])
    }

    private func copyAudit(_ made: inout [String]) async throws -> (AuditSnapshot, isVerified: Bool) {
        let target = path(.auditLog)
        made += [target, path(.auditHead)]
        let keys = AuditKeys(key)
        progress?.step("Copying the audit log")
        let copy = try AuditSnapshot.make(layout.places.audit.path, to: target, keys: keys)
        let counter = progress?.counter("Verifying the copy of the audit log")
        let verification = try await AuditReader(path: target).verify(keys: keys, onRows: counter)
        if let breach = verification.breach, breach.fault == .foreignKey {
            throw StateError("\(layout.places.audit.path): \(breach.explanation)")
        }
        return (copy, verification.breach == nil)
    }

    /// nil when the tokens are kept elsewhere, or there are none yet.
    private func copyTokens(_ made: inout [String]) throws -> SQLiteTokenStore.Copy? {
        guard layout.isThere(.tokenStore), let source = layout.path(of: .tokenStore) else { return nil }
        let target = path(.tokenStore)
        made.append(target)
        progress?.step("Copying the tokens")
        let tokens = layout.places.tokens
        let own = tokens.encryptionKey ?? layout.path(of: .storeKey).map { .file(path: $0) }
        let storeKey = try own.flatMap { try InstallationKey.read($0) } ?? key
        return try SQLiteTokenStore.copy(source, to: target, keys: [storeKey.derived(for: .tokenStore)])
    }

    /// What the parts of the state throw, in the words of the one who copies them.
    static func stateError(_ error: any Error) -> StateError {
        switch error {
        case let error as StateError: error
        case let error as AuditError: StateError(error.reason)
        case let error as TokenStoreError: StateError(error.reason)
        case let error as PrivateFile.Failure: StateError(error.reason)
        default: StateError("the state cannot be copied")
        }
    }
}

/// Copies and digests the files of a backup.
enum BackupCopy {
    /// Copies a file to `target`, which must not exist, with mode 0600. The copy is on the disk when this returns.
    static func copy(_ source: String, to target: String, as file: BackupFile) throws(StateError) -> BackupManifest.File
    {
        var (digest, size) = (SHA256(), 0)
        do {
            try CopiedFile.copy(source, to: target) { piece in
                digest.update(data: piece)
                size += piece.count
            }
        } catch {
            throw StateError("\(source) cannot be copied to \(target): \(error.reason)")
        }
        return BackupManifest.File(name: file.name, bytes: size, sha256: Hexadecimal.text(of: digest.finalize()))
    }

    static func digest(of path: String, as file: BackupFile) throws(StateError) -> BackupManifest.File {
        var (digest, size) = (SHA256(), 0)
        do {
            try CopiedFile.readPieces(path) { (piece) throws(PrivateFile.Failure) in
                digest.update(data: piece)
                size += piece.count
            }
        } catch {
            throw StateError("\(path) cannot be read: \(error.reason)")
        }
        return BackupManifest.File(name: file.name, bytes: size, sha256: Hexadecimal.text(of: digest.finalize()))
    }
}

extension BackupManifest {
    func code(by key: InstallationKey) -> String {
        let code = HMAC<SHA256>.authenticationCode(
            for: authenticatedBytes,
            using: key.derived(for: .backupManifest)
        )
        return Hexadecimal.text(of: code)
    }

    func isAuthentic(for key: InstallationKey) -> Bool {
        guard let code = Hexadecimal.bytes(of: authentication) else { return false }
        return HMAC<SHA256>.isValidAuthenticationCode(
            code,
            authenticating: authenticatedBytes,
            using: key.derived(for: .backupManifest)
        )
    }
}

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
