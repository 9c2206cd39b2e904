import GatewayApp
import GatewayAudit
import GatewayConfiguration
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTokenStores
import GatewayTokens
import Glibc

/// Looks at the gateway's files. Locks none, creates none and writes to none: a gateway may be using them.
struct StorageProbe: Sendable {
    /// The newest rows of the audit log, which take milliseconds.
    private static let tailRows = 1000

    let plan: Plan

    // MARK: Files

    func fileFindings() -> [DoctorFinding] {
        var secrets: [String] = []
        for case .file(let path)? in [plan.tokens.key, plan.tokens.encryptionKey, plan.tokens.previousEncryptionKey] {
            secrets.append(path)
        }
        if plan.tokens.store == .sqlite { secrets.append(plan.tokens.path) }
        let seen = Self.look(at: plan.stateDirectory)
        return [FileRule.stateDirectory(plan.stateDirectory, seen, barrier: stateBarrier)]
            + secrets.compactMap { FileRule.secret($0, Self.look(at: $0)) }
    }

    private static func look(at path: String) -> FileRule.Observation? {
        FileStatus.mode(of: path).map { mode in
            FileRule.Observation(
                mode: mode.bits,
                isFolder: mode.isFolder,
                isOwn: FileStatus.owner(of: path) == geteuid()
            )
        }
    }

    /// What keeps the first start from creating the state directory; nil where it is there.
    private var stateBarrier: FileBarrier? {
        guard !Self.exists(plan.stateDirectory) else { return nil }
        return FileBarrier(toCreateFolder: plan.stateDirectory)
    }

    /// Why a file that cannot be seen says nothing about the gateway.
    private func unseen(_ path: String) -> StorageRule.Unseen? {
        if FileStatus.isHidden(path) { return .hidden }
        return path.hasPrefix(plan.stateDirectory + "/") && stateBarrier != nil ? .noStateDirectory : nil
    }

    // MARK: Store

    /// The keys that are there; nil when one is missing.
    private enum Keys {
        case keys(InstallationKey, StoreKeys)
        case missing(String)
        case unusable(String)
    }

    private var keyFiles: [String] {
        [plan.tokens.key, plan.tokens.encryptionKey].compactMap { key in
            if case .file(let path)? = key { path } else { nil }
        }
    }

    /// Whether its key, or what reaches it, is a secret of the configuration.
    var needsSecrets: Bool {
        let isElsewhere = plan.tokens.store == .postgres || plan.tokens.store == .command
        return isElsewhere || keyFiles.count < (plan.tokens.encryptionKey == nil ? 1 : 2)
    }

    private func keys() -> Keys {
        if let missing = keyFiles.first(where: { !Self.exists($0) }) { return .missing(missing) }
        do throws(StateError) {
            let installation: InstallationKey
            switch plan.tokens.key {
            case .value(let secret): installation = try InstallationKey(secret)
            case .file(let path):
                guard let key = try InstallationKey.load(path: path) else { return .missing(path) }
                installation = key
            }
            return .keys(installation, try StoreKeys(plan.tokens, installation: installation))
        } catch {
            return .unusable(error.description)
        }
    }

    /// What findings call the store.
    var storeName: String {
        plan.tokens.database?.url.description ?? plan.tokens.program?.command.first ?? plan.tokens.path
    }

    /// - Parameter isOffline: No other machine is asked.
    /// - Returns: What tokens can be read with, besides the finding.
    func store(isOffline: Bool) async -> (findings: [DoctorFinding], reader: StoredTokenReader?) {
        let name = storeName
        func found(_ store: StorageRule.Store) -> ([DoctorFinding], StoredTokenReader?) {
            ([StorageRule.store(store, name)], nil)
        }
        let paths = (plan.tokens.store == .sqlite ? [plan.tokens.path] : []) + keyFiles
        if plan.tokens.store != .memory, let reason = paths.lazy.compactMap(unseen).first {
            return found(.unseen(reason))
        }
        if plan.tokens.store == .sqlite, !Self.exists(name), let barrier = FileBarrier(toCreate: name) {
            return found(.barred(barrier))
        }
        switch (plan.tokens.store, keys()) {
        case (.memory, _): return ([StorageRule.store(.memory, "memory")], nil)
        case (.sqlite, .missing) where !Self.exists(plan.tokens.path): return found(.missing)
        case (.command, .missing): return found(.missing)
        case (.postgres, .missing(let key)):
            return found(.unusable("the key \(key) is missing; copy it from another gateway, or start the first one"))
        case (.sqlite, .missing(let key)): return found(.keyMissing(key))
        case (_, .unusable(let reason)): return found(.unusable(reason))
        case (.command, .keys(let key, _)):
            return ([StorageRule.store(.notAsked, name)], StoredTokenReader(program: plan.tokens.program, key: key))
        case (.postgres, .keys(let key, let keys)):
            guard let database = plan.tokens.database else { return found(.unusable("no url")) }
            guard !isOffline || database.url.hosts.allSatisfy(\.isLocal) else {
                return ([DoctorFinding(.store, .skipped, name, "not asked, because of --offline")], nil)
            }
            return await DatabaseProbe(database: database, keys: keys).look(key, name)
        case (.sqlite, .keys(let key, let keys)):
            guard Self.exists(plan.tokens.path) else { return found(.missing) }
            return store(name, key, keys)
        }
    }

    private func store(_ name: String, _ key: InstallationKey, _ keys: StoreKeys) -> (
        [DoctorFinding], StoredTokenReader?
    ) {
        do throws(TokenStoreError) {
            let reader = try SQLiteTokenReader(path: name, keys: keys.candidates.map(\.key))
            let problem = Self.writeProblem(name)
            let store: StorageRule.Store = problem.map { .unusable($0) } ?? .usable
            let room = DiskSpace(at: name).flatMap { FileRule.room(.store, name, free: $0.freeBytes) }
            let findings = [StorageRule.store(store, name)] + (room.map { [$0] } ?? [])
            return (findings, StoredTokenReader(reader, key: key))
        } catch {
            return ([StorageRule.store(.unusable(error.reason), name)], nil)
        }
    }

    // MARK: Audit log

    func auditFindings() async -> [DoctorFinding] {
        let path = plan.audit.path
        if let reason = unseen(path) { return [StorageRule.audit(.unseen(reason), path)] }
        let barrier = Self.exists(path) ? FileBarrier(toWrite: path) : FileBarrier(toCreate: path)
        if let barrier { return [StorageRule.audit(.barred(barrier), path)] }
        guard Self.exists(path) else {
            let loss = plan.audit.onMissing == .recreate ? nil : AuditReader.loss(at: path)
            return [StorageRule.audit(loss.map { .unusable($0) } ?? .missing, path)]
        }
        let audit: StorageRule.Audit
        switch keys() {
        // Another key than the installation's is of no use here.
        case .missing(let key): audit = .keyMissing(key)
        case .unusable(let reason): audit = .unusable(reason)
        case .keys(let key, _): audit = await tail(path, key)
        }
        let room = DiskSpace(at: path).flatMap { FileRule.room(.audit, path, free: $0.freeBytes) }
        return [StorageRule.audit(audit, path)] + (room.map { [$0] } ?? [])
    }

    private func tail(_ path: String, _ key: InstallationKey) async -> StorageRule.Audit {
        do throws(AuditError) {
            let result = try await AuditReader(path: path).verifyTail(keys: AuditKeys(key), rows: Self.tailRows)
            return result.breach.map { .broken($0.explanation) } ?? .intact(rows: result.rows)
        } catch {
            return .unusable(error.reason)
        }
    }

    private static func exists(_ path: String) -> Bool { FileStatus.owner(of: path) != nil }

    /// SQLite makes files beside the database.
    private static func writeProblem(_ path: String) -> String? {
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        for place in [path, folder.isEmpty ? "/" : folder] {
            if let reason = FileStatus.writeProblem(place) { return "this user may not write to \(place): \(reason)" }
        }
        return nil
    }
}

/// Looks at a token database that gateways share. Makes no tables, and writes nothing.
private struct DatabaseProbe: Sendable {
    /// Shorter than what `doctor` gives each thing.
    private static let limit: Duration = .seconds(3)
    /// How long the connection that listens for changes may take to begin.
    private static let listenLimit: Duration = .seconds(1)

    let database: PostgreSQLPlan
    let keys: StoreKeys

    func look(_ key: InstallationKey, _ name: String) async -> ([DoctorFinding], StoredTokenReader?) {
        let store = Storage.database(database, keys, makesTables: false, limit: Self.limit)
        do throws(TokenStoreError) {
            await store.waitForNotifications(within: Self.listenLimit)
            let report = try await store.inspect()
            return (
                DatabaseRule.findings(of: report, name) + (await gateways(store, name)),
                StoredTokenReader(store, key: key)
            )
        } catch {
            await store.close()
            return ([StorageRule.store(.unusable(error.reason), name)], nil)
        }
    }

    private func gateways(_ store: PostgreSQLTokenStore, _ name: String) async -> [DoctorFinding] {
        do throws(TokenStoreError) {
            let missing = try await store.missingFleetRights()
            let lacking = missing.isEmpty ? [] : [FleetRule.rights(missing, name)]
            guard !missing.contains("SELECT") else { return lacking }
            return lacking + FleetRule.findings(of: try await store.members(), name)
        } catch {
            return [FleetRule.unknown(error.reason, name)]
        }
    }
}
