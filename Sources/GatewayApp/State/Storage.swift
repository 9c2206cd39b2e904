import Foundation
package import GatewayAudit
package import GatewayEvents
package import GatewayFiles
package import GatewayHTTP
package import GatewayLocalAuthority
package import GatewayTokenStores
package import GatewayTokens
package import Logging
import Synchronization

/// The files of a gateway: its locked directory, its key, its locked audit log, its locked tokens.
package struct Storage: Sendable {
    package let directory: StateDirectory
    package let key: InstallationKey
    package let audit: SQLiteAuditLog
    /// Takes events that have to be recorded before something is done: `audit`, and with `audit.store: postgres` the database, too.
    package let recorder: any AuditLog
    /// nil where the log is not copied to a database.
    let shipper: AuditShipper?
    /// nil without `audit.anchor`.
    package let anchor: AuditAnchor?
    let chainCheck: AuditChainCheck
    package let authority: LocalAuthority
    package let tokens: any TokenStore
    /// nil for a store without a key of its own.
    private let keyRotation: KeyRotation?
    let adminToken: Secret
    package let locks: CredentialLocks
    /// The phantoms of captured logins.
    package let captures: CaptureStore
    /// Held until the databases are closed.
    private let databaseLocks: DatabaseLocks
    /// nil when the installation key is no file.
    private let keyPath: String?

    /// How long a start waits for the token database.
    private static let databaseLimit: Duration = .seconds(6)

    /// Where everything is; the rest of a configuration does not matter here.
    package struct Places {
        package let stateDirectory: String
        package let audit: AuditPlan
        package let tokens: TokenPlan

        package init(stateDirectory: String, audit: AuditPlan, tokens: TokenPlan) {
            self.stateDirectory = stateDirectory
            self.audit = audit
            self.tokens = tokens
        }
    }

    /// - Parameter observer: Told of events once they are committed; must return at once.
    /// - Throws: ``StateError`` that says which file is wrong and what to do.
    package init(
        _ places: Places,
        clock: any GatewayClock,
        logger: Logger,
        observer: (@Sendable ([AuditRow]) -> Void)? = nil
    ) async throws(StateError) {
        directory = try StateDirectory(path: places.stateDirectory)
        try RestoreMarker.requireNone(in: places.stateDirectory)
        var databases = try DatabaseLocks(existingOf: places)
        try Self.requireKeys(of: places)
        key = try Self.installationKey(places.tokens.key)
        try databases.createMissing(of: places)
        databaseLocks = databases
        keyPath = if case .file(let path) = places.tokens.key { path } else { nil }
        let audit = try Self.openAudit(places, key, keyPath, clock, logger, observer)
        self.audit = audit
        anchor = places.audit.anchor.map { AuditAnchor($0, log: audit, clock: clock, logger: logger) }
        chainCheck = AuditChainCheck(path: places.audit.path, keys: AuditKeys(key), clock: clock, logger: logger)
        authority = LocalAuthority(
            stateDirectory: places.stateDirectory,
            key: key.derived(for: .localAuthority),
            clock: clock
        )
        let patience = ContinuousClock.now.advanced(by: Self.databaseLimit)
        if places.tokens.store == .sqlite {
            let keys = try StoreKeys(places.tokens, installation: key)
            let store = try Self.openTokens(places.tokens, keys)
            tokens = store
            keyRotation = KeyRotation(
                store: store,
                keys: keys,
                audit: audit,
                onAuditFailure: places.audit.onFailure,
                clock: clock,
                logger: logger
            )
        } else if let database = places.tokens.database {
            tokens = try await Self.openDatabase(
                database,
                try StoreKeys(places.tokens, installation: key),
                logger,
                until: patience
            )
            keyRotation = nil
        } else {
            tokens = Self.otherTokens(places.tokens, key)
            keyRotation = nil
        }
        locks = try CredentialLocks(in: places.stateDirectory, shared: tokens.sharedLocks)
        await locks.begin(until: patience)
        captures = CaptureStore(in: places.stateDirectory, logger: logger)
        adminToken = try AdminToken.create(in: places.stateDirectory)
        try await keyRotation?.settle()
        shipper = Self.shipper(of: audit, places, clock, logger)
        recorder = Self.recorder(audit, shipper, places.audit)
    }

    /// Replaces the key of the token store when an operator asks for it.
    package func rotateKey() async -> Result<KeyRotationReport, GatewayProblem> {
        await keyRotation?.rotate() ?? .failure(KeyRotation.noStore)
    }

    package func close() async {
        await anchor?.finish()
        await shipper?.finish()
        await audit.close()
        await tokens.close()
    }

    /// A new key would open neither database, and would look like the one that is missing.
    private static func requireKeys(of places: Places) throws(StateError) {
        let tokens = places.tokens
        let files = [places.audit.path] + (tokens.store == .sqlite ? [tokens.path] : [])
        if case .file(let path) = tokens.key, FileIdentity(path) == nil,
            let written = files.first(where: { FileIdentity($0) != nil })
        {
            throw StateError(
                "the installation key \(path) is missing, but \(written) was written with it; restore the key from its "
                    + "copy, or move \(files.joined(separator: " and ")) away to start over"
            )
        }
        if case .file(let path)? = tokens.encryptionKey, tokens.previousEncryptionKey == nil,
            FileIdentity(path) == nil, FileIdentity(tokens.path) != nil
        {
            throw StateError(
                "the encryption key \(path) is missing, but \(tokens.path) is there; restore the key from its copy, name "
                    + "the key that the store was encrypted with as tokens.previous_encryption_key, or move "
                    + "\(tokens.path) away to start over"
            )
        }
    }

    /// How the files are doing, as far as is known without asking the disk. Never waits.
    var health: StorageHealth {
        let audit = audit.health
        var health = StorageHealth(room: audit.room)
        health.auditFailure = audit.failure?.reason
        health.auditDamage = audit.damage
        health.unrecorded = audit.unrecorded
        health.auditLoss = audit.loss.map { StorageHealth.Loss(lostTo: $0.lostTo, at: $0.at) }
        health.auditBreach = chainCheck.result?.breach?.explanation
        health.missingKey = audit.isKeyMissing ? keyPath : nil
        health.tokenFailure = tokens.failure?.reason
        health.unshipped = shipper?.trouble
        return health
    }

    /// Finds out how they are doing. A file that does not answer keeps no other from being looked at.
    func look() async {
        await withDiscardingTaskGroup { tasks in
            tasks.addTask { await audit.look() }
            tasks.addTask { await locks.storeAgain() }
            await self.tokens.look()
        }
    }

    private static func installationKey(_ source: TokenPlan.Key) throws(StateError) -> InstallationKey {
        switch source {
        case .file(let path): try InstallationKey.loadOrCreate(path: path)
        case .value(let secret): try InstallationKey(secret)
        }
    }

    private static func openAudit(
        _ places: Places,
        _ key: InstallationKey,
        _ keyPath: String?,
        _ clock: any GatewayClock,
        _ logger: Logger,
        _ observer: (@Sendable ([AuditRow]) -> Void)?
    ) throws(StateError) -> SQLiteAuditLog {
        let plan = places.audit
        var options = SQLiteAuditLog.Options(
            path: plan.path,
            instance: key.instanceName,
            retention: plan.retention,
            recordsUsage: plan.usage != .none
        )
        options.keyPath = keyPath
        options.onMissing = plan.onMissing
        options.maximumBytes = plan.maximumBytes
        options.isShipped = places.tokens.store == .postgres && plan.ships
        do throws(AuditError) {
            return try SQLiteAuditLog(
                options: options,
                keys: AuditKeys(key),
                clock: clock,
                logger: logger,
                observer: observer
            )
        } catch {
            throw StateError(error.reason)
        }
    }

    private static func otherTokens(_ plan: TokenPlan, _ key: InstallationKey) -> any TokenStore {
        guard let program = plan.program else { return MemoryTokenStore() }
        return CommandTokenStore(program: program, runner: SystemProgramRunner(), key: key.derived(for: .tokenStore))
    }

    private static func openTokens(_ plan: TokenPlan, _ keys: StoreKeys) throws(StateError) -> SQLiteTokenStore {
        do throws(TokenStoreError) {
            return try SQLiteTokenStore(path: plan.path, keys: keys.candidates.map(\.key), ownsFile: true)
        } catch {
            throw StateError(error.reason)
        }
    }

    /// A gateway also starts while the database cannot be reached, and uses it once it can be.
    ///
    /// - Parameter deadline: The database is not waited for any longer.
    /// - Throws: When another key or a newer program has written the database.
    static func openDatabase(
        _ plan: PostgreSQLPlan,
        _ keys: StoreKeys,
        _ logger: Logger,
        until deadline: ContinuousClock.Instant
    ) async throws(StateError) -> PostgreSQLTokenStore {
        let store = database(plan, keys)
        let failure = await Deadline.value(within: deadline - .now) { () async -> TokenStoreError? in
            do throws(TokenStoreError) {
                try await store.prepare()
                return nil
            } catch {
                return error
            }
        }
        switch failure ?? .unavailable("the token database did not answer in time") {
        case nil: break
        case .damaged(let reason)?:
            await store.close()
            throw StateError(reason)
        case .unavailable(let reason)?:
            logger.warning(
                "The token store cannot be used; the gateway tries again",
                metadata: ["reason": "\(LogText.clean(reason))"]
            )
        }
        return store
    }

    package static func database(
        _ plan: PostgreSQLPlan,
        _ keys: StoreKeys,
        makesTables: Bool = true,
        limit: Duration = .seconds(5)
    ) -> PostgreSQLTokenStore {
        PostgreSQLTokenStore(
            options(plan.url, plan),
            listening: plan.listenURL.map { options($0, plan) },
            keys: keys.candidates.map(\.key),
            names: keys.names,
            makesTables: makesTables,
            limit: limit
        )
    }

    package static func options(_ url: PostgreSQLURL, _ plan: PostgreSQLPlan) -> PostgreSQLOptions {
        PostgreSQLOptions(url, password: plan.password, authorities: plan.authorities)
    }

    // MARK: Audit log

    static func shipper(
        of log: SQLiteAuditLog,
        _ places: Places,
        _ clock: any GatewayClock,
        _ logger: Logger
    ) -> AuditShipper? {
        guard let database = places.tokens.database, places.audit.ships else { return nil }
        return AuditShipper(
            log,
            to: options(database.url, database),
            host: ProcessInfo.processInfo.hostName,
            isRequired: places.audit.store == .postgres,
            clock: clock,
            logger: logger
        )
    }

    static func recorder(_ log: SQLiteAuditLog, _ shipper: AuditShipper?, _ plan: AuditPlan) -> any AuditLog {
        guard plan.store == .postgres, let shipper else { return log }
        return ConfirmedAuditLog(log, shipper: shipper)
    }

    /// Records that the state is about to be copied. With `audit.on_failure: block` nothing is copied without it.
    package func noteBackup(
        includesKeys: Bool,
        onFailure: AuditPlan.OnFailure,
        at now: UnixTime
    ) async -> Result<BackupNote, GatewayProblem> {
        var event = TokenEvent(at: now, name: .stateBackedUp, trigger: .operator)
        event.detail = ["keys": includesKeys ? "included" : "left out"]
        if let error = await recorder.refusal(recording: event, onFailure) {
            let detail = "Nothing was copied: the event cannot be recorded: \(error.reason)."
            return .failure(GatewayProblem(.auditUnavailable, detail))
        }
        return .success(BackupNote(instance: key.instanceName))
    }
}

extension Storage.Places {
    package init(_ plan: Plan) {
        self.init(stateDirectory: plan.stateDirectory, audit: plan.audit, tokens: plan.tokens)
    }
    package init(_ plan: OperatorPlan) {
        self.init(stateDirectory: plan.stateDirectory, audit: plan.audit, tokens: plan.tokens)
    }
}

extension AuditLog {
    /// Records an event before what it tells of is done.
    ///
    /// - Returns: Why that must not be done: it cannot be recorded, and nothing is done without a record (`audit.on_failure: block`).
    func refusal(recording event: TokenEvent, _ onFailure: AuditPlan.OnFailure) async -> AuditError? {
        do throws(AuditError) {
            try await record(event)
            return nil
        } catch {
            return onFailure == .block ? error : nil
        }
    }
}

/// Records nothing: used where nothing begins that has to be recorded, and the log may belong to a running gateway.
package struct NoAuditLog: AuditLog {

    package init() {}
    package func record(_ event: TokenEvent) async throws(AuditError) {}
    package func recordSoon(_ event: TokenEvent) async -> AuditError? { nil }
    package func count(_ use: TokenUse) {}
    package func keep(_ requests: [RequestUse]) -> Int { 0 }
}

/// Recomputes the whole chain of the audit log while the gateway runs: soon after the start, and once a day.
///
/// A look at the newest rows cannot show that an older one was edited.
final class AuditChainCheck: Sendable {
    /// A gateway that runs for a moment only does without.
    static let delay: Duration = .seconds(30)
    static let interval: Duration = .seconds(86_400)
    /// A disk that does not answer must not delay the stop.
    static let limit: Duration = .seconds(600)

    struct Result: Hashable, Sendable {
        let at: UnixTime
        /// nil for an intact chain.
        let breach: AuditVerification.Breach?
    }

    private let path: String
    private let keys: AuditKeys
    private let clock: any GatewayClock
    private let logger: Logger
    private let latest = Mutex<Result?>(nil)

    init(path: String, keys: AuditKeys, clock: any GatewayClock, logger: Logger) {
        (self.path, self.keys, self.clock, self.logger) = (path, keys, clock, logger)
    }

    /// nil before the first one.
    var result: Result? { latest.withLock { $0 } }

    func run() async {
        var pause = Self.delay
        while (try? await clock.sleep(for: pause)) != nil {
            await verify()
            pause = Self.interval
        }
    }

    func verify() async {
        let (path, keys) = (path, keys)
        let found = await Deadline.value(within: Self.limit) { () async -> AuditVerification? in
            // What cannot be read is reported by what writes it.
            try? await AuditReader(path: path).verify(keys: keys)
        }
        guard let verification = found ?? nil else { return }
        let result = Result(at: clock.now().wall, breach: verification.breach)
        let before = latest.withLock { latest in
            defer { latest = result }
            return latest?.breach
        }
        guard let breach = result.breach, breach != before else { return }
        logger.warning(
            "The audit log is broken",
            metadata: [
                "fault": "\(breach.fault.rawValue)", "row": "\(breach.row.map(String.init) ?? "-")",
                "explanation": "\(breach.explanation)", "command": "authgateway audit verify",
            ]
        )
    }
}

/// The databases of a gateway, locked: two state directories may name the same file.
package struct DatabaseLocks: Sendable {
    fileprivate enum Database: CaseIterable {
        case audit
        case tokens

        var name: String { self == .audit ? "the audit log" : "the token store" }
        var key: String { self == .audit ? "audit.path" : "tokens.path" }
    }

    private var locks: [Database: FileLock] = [:]

    /// Locks the files that are there and creates none.
    ///
    /// - Throws: ``StateError`` when another process holds one of the files, or both keys name one file.
    package init(existingOf places: Storage.Places) throws(StateError) {
        for database in Database.allCases {
            guard let path = places.path(of: database), FileIdentity(path) != nil else { continue }
            try lock(database, path)
        }
    }

    /// Locks the others, too, which are created.
    mutating func createMissing(of places: Storage.Places) throws(StateError) {
        for database in Database.allCases where locks[database] == nil {
            guard let path = places.path(of: database) else { continue }
            try lock(database, path)
        }
    }

    private mutating func lock(_ database: Database, _ path: String) throws(StateError) {
        try StateError.explaining(
            "\(database.name) \(path) cannot be opened",
            try PrivateFile.ensure(path, keepsMode: database == .audit)
        )
        if let identity = FileIdentity(path), locks.values.contains(where: { $0.identity == identity }) {
            throw StateError("audit.path and tokens.path name the same file, \(path); set one of them to another file")
        }
        do throws(FileLock.Failure) {
            locks[database] = try FileLock(path)
        } catch {
            switch error {
            case .held:
                throw StateError(
                    "another gateway uses \(database.name) \(path); stop it, or set \(database.key) to another file. This"
                        + " names its process:\n  fuser \(path)"
                )
            case .other(let code):
                throw StateError("\(database.name) \(path) cannot be locked: \(SystemError.text(code))")
            }
        }
    }
}

extension Storage.Places {
    /// nil where the database is not a file.
    fileprivate func path(of database: DatabaseLocks.Database) -> String? {
        switch database {
        case .audit: audit.path
        case .tokens: tokens.store == .sqlite ? tokens.path : nil
        }
    }
}

extension AuditKeys {
    package init(_ key: InstallationKey) {
        self.init(chain: key.derived(for: .auditChain), fingerprint: key.derived(for: .tokenFingerprint))
    }
}
