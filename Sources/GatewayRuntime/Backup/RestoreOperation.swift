import Foundation
import GatewayAudit
import GatewayCore
import GatewayFiles
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
            throw StateError("\(folder) is no whole backup: \(path): \(error.message)")
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
            let verification = try await AuditReader(path: path).verify(keys: AuditKeys(key))
            outcome.breach = verification.breach?.explanation
            guard verification.breach == nil || !outcome.manifest.isAuditVerified else {
                throw StateError("the audit log of the backup is broken: \(outcome.breach ?? "")")
            }
            try await record(outcome, key, path)
            try staging.requireClosed()
        } catch {
            throw StateError(BackupOperation.failure(error).description)
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
