package import Crypto
import GatewayAudit
import GatewayEvents
package import GatewayFiles
package import GatewayHTTP
package import GatewayTokenStores
import GatewayTokens
import Logging
import Synchronization

/// Replaces the key of the token store, and ends what a crash has left half done.
///
/// The order makes every instant safe: the next key is on the disk before a row is encrypted with it, and takes the old
/// one's place after the last row was.
package final class KeyRotation: Sendable {
    private let store: SQLiteTokenStore
    private let keys: StoreKeys
    private let audit: SQLiteAuditLog
    private let onAuditFailure: AuditPlan.OnFailure
    private let clock: any GatewayClock
    private let logger: Logger
    private let isBusy = Atomic(false)

    init(
        store: SQLiteTokenStore,
        keys: StoreKeys,
        audit: SQLiteAuditLog,
        onAuditFailure: AuditPlan.OnFailure,
        clock: any GatewayClock,
        logger: Logger
    ) {
        self.store = store
        self.keys = keys
        self.audit = audit
        self.onAuditFailure = onAuditFailure
        self.clock = clock
        self.logger = logger
    }

    /// At the start, before a token is read.
    func settle() async throws(StateError) {
        do {
            switch keys.candidates[store.keyIndex].role {
            case .current: discardPrepared()
            case .prepared:
                try await record(.keyRotated, .startup, ["resumed": "true"])
                try keys.file?.promote()
                logger.notice("Finished the replacement of the token store's key", metadata: file)
            case .previous:
                let count = try await encrypt(with: keys.candidates[0].key, .startup)
                try await record(.keyRotated, .startup, ["tokens": String(count)])
                logger.notice("Replaced the token store's key", metadata: ["tokens": "\(count)"])
                discardPrepared()
            }
        } catch {
            throw StateError(Self.problem(error).detail)
        }
    }

    private func discardPrepared() {
        for name in keys.file?.discardPrepared() ?? [] {
            logger.notice(
                "Removed what an interrupted replacement of the key left",
                metadata: ["file": "\(LogText.clean(name))"]
            )
        }
    }

    private var file: Logger.Metadata { ["file": "\(LogText.clean(keys.file?.path ?? ""))"] }

    /// Replaces the key when an operator asks for it.
    func rotate() async -> Result<KeyRotationReport, GatewayProblem> {
        guard let file = keys.file else { return .failure(Self.notOurs) }
        guard !isBusy.exchange(true, ordering: .sequentiallyConsistent) else {
            return .failure(GatewayProblem(.overloaded, "The key is being replaced already.", retryAfter: .seconds(1)))
        }
        defer { isBusy.store(false, ordering: .sequentiallyConsistent) }
        do {
            let prepared = try await onDisk { () throws(StateError) in try file.prepared() }
            if let prepared, store.isEncrypted(with: prepared.derived(for: .tokenStore)) {
                // The last rotation could not end: the folder was not writable, say.
                try await onDisk { () throws(StateError) in try file.promote() }
            }
            let next = try await onDisk { () throws(StateError) in try file.prepare() }
            let count = try await encrypt(with: next.derived(for: .tokenStore), .operator)
            // Before the old key goes: as long as both are there, the next start says so again.
            let recorded = await recorded(count)
            try await onDisk { () throws(StateError) in try file.promote() }
            if let recorded { return .failure(recorded) }
            return .success(KeyRotationReport(tokens: count, file: file.path))
        } catch {
            return .failure(Self.problem(error))
        }
    }

    /// On a thread of its own: the disk may take any time.
    private func onDisk<Value: Sendable>(
        _ work: @escaping @Sendable () throws(StateError) -> Value
    ) async throws(StateError) -> Value {
        switch await OwnThread.run(within: Self.diskLimit, { _ in Result(catching: work) }) {
        case .success(let result): return try result.get()
        case .failure: throw StateError("the disk that holds the key does not answer")
        }
    }

    private static let diskLimit: Duration = .seconds(10)

    private func encrypt(with key: SymmetricKey, _ trigger: TokenEvent.Trigger) async throws -> Int {
        try await record(.keyRotating, trigger)
        do throws(TokenStoreError) {
            return try await store.rotate(to: key)
        } catch {
            try? await record(.keyRotated, trigger, outcome: .failed)
            throw error
        }
    }

    private func record(
        _ name: TokenEvent.Name,
        _ trigger: TokenEvent.Trigger,
        _ detail: [String: String] = [:],
        outcome: TokenEvent.Outcome = .ok
    ) async throws(AuditError) {
        let event = TokenEvent(at: clock.now().wall, name: name, trigger: trigger, outcome: outcome, detail: detail)
        if let error = await audit.refusal(recording: event, onAuditFailure) { throw error }
    }

    /// nil when it is in the log.
    private func recorded(_ count: Int) async -> GatewayProblem? {
        do throws(AuditError) {
            try await record(.keyRotated, .operator, ["tokens": String(count)])
            return nil
        } catch {
            let detail = "The key of the token store was replaced, but that cannot be recorded: \(error.reason)."
            return GatewayProblem(.auditUnavailable, detail)
        }
    }

    private static func problem(_ error: any Error) -> GatewayProblem {
        switch error {
        case let error as AuditError:
            GatewayProblem(.auditUnavailable, "The event cannot be recorded: \(error.reason).")
        case TokenStoreError.unavailable(let reason), TokenStoreError.damaged(let reason):
            GatewayProblem(.internalError, "The key of the token store was not replaced: \(reason).")
        case let error as StateError:
            GatewayProblem(.internalError, "The key of the token store cannot be replaced: \(error.description).")
        default: GatewayProblem(.internalError, "The key of the token store cannot be replaced.")
        }
    }

    private static let notOurs = GatewayProblem(
        .requestRefused,
        "The key of the token store does not come from a file, so the gateway cannot replace it. Make a new one with "
            + "`openssl rand -hex 32`, put it where a secret reference finds it, name that as tokens.encryption_key and the "
            + "present one as tokens.previous_encryption_key, and restart the gateway: it re-encrypts the tokens when it "
            + "starts. Then remove tokens.previous_encryption_key and the old key."
    )

    package static let noStore = GatewayProblem(
        .requestRefused,
        "Only tokens.store: sqlite has a key that this command replaces; this gateway's tokens are kept elsewhere. For postgres "
            + "there is `authgateway store encrypt`."
    )
}

/// The keys that an SQLite token store may be encrypted with, and where the next one comes from.
package struct StoreKeys: Sendable {
    package enum Role {
        case current
        /// Made by a rotation that did not come to its end.
        case prepared
        case previous
    }

    package private(set) var candidates: [(role: Role, key: SymmetricKey)] = []
    /// What the rows of a database are named with: see ``InstallationKey/credentialKey(for:)``.
    let names: SymmetricKey
    /// nil when the gateway cannot write what the key comes from.
    let file: EncryptionKeyFile?

    /// - Parameter installation: Encrypts the store as long as that has no key of its own.
    package init(_ plan: TokenPlan, installation: InstallationKey) throws(StateError) {
        names = installation.derived(for: .credentialKey)
        switch (plan.encryptionKey, plan.key) {
        case (.file(let path), _):
            file = EncryptionKeyFile(path: path)
            add(.current, try file?.loadOrCreate())
        case (.value(let secret), _):
            file = nil
            add(.current, try InstallationKey(secret))
        case (nil, .file(let path)):
            file = EncryptionKeyFile(path: path + ".encryption")
            add(.current, try file?.current() ?? installation)
        case (nil, .value):
            file = nil
            add(.current, installation)
        }
        add(.prepared, try file?.prepared())
        switch plan.previousEncryptionKey {
        case nil: break
        case .value(let secret): add(.previous, try InstallationKey(secret))
        case .file(let path):
            guard let key = try InstallationKey.load(path: path) else {
                throw StateError("tokens.previous_encryption_key: there is no file \(path)")
            }
            add(.previous, key)
        }
    }

    private mutating func add(_ role: Role, _ key: InstallationKey?) {
        if let key { candidates.append((role, key.derived(for: .tokenStore))) }
    }
}
