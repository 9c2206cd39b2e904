import GatewayAudit
import GatewayCore
import GatewayProxy
import GatewayTokenStores
import Logging

/// The files of a gateway: its locked directory, its key, its audit log, its tokens.
struct Storage: Sendable {
    let directory: StateDirectory
    let key: InstallationKey
    let audit: SQLiteAuditLog
    let tokens: any TokenStore
    let adminToken: Secret
    let locks: CredentialLocks

    /// - Throws: ``CommandFailure`` that says which file is wrong and what to do.
    init(plan: Plan, clock: any GatewayClock, logger: Logger) throws(CommandFailure) {
        directory = try Self.translate { () throws(StateError) in try StateDirectory(path: plan.stateDirectory) }
        try Self.requireKey(of: plan)
        locks = try Self.translate { () throws(StateError) in try CredentialLocks(in: plan.stateDirectory) }
        key = try Self.installationKey(plan.tokens.key)
        audit = try Self.openAudit(plan.audit, key, clock, logger)
        tokens = try Self.openTokens(plan.tokens, key)
        adminToken = try Self.translate { () throws(StateError) in try AdminToken.create(in: plan.stateDirectory) }
    }

    func close() async {
        await audit.close()
        if let tokens = tokens as? SQLiteTokenStore { await tokens.close() }
    }

    private static func translate<Value>(_ body: () throws(StateError) -> Value) throws(CommandFailure) -> Value {
        do {
            return try body()
        } catch {
            throw CommandFailure(.failed, error.description)
        }
    }

    /// A new key would open neither database, and would look like the one that is missing.
    private static func requireKey(of plan: Plan) throws(CommandFailure) {
        guard case .file(let path) = plan.tokens.key, FileIdentity(path) == nil else { return }
        let files = [plan.audit.path] + (plan.tokens.store == .sqlite ? [plan.tokens.path] : [])
        guard let written = files.first(where: { FileIdentity($0) != nil }) else { return }
        throw CommandFailure(
            .failed,
            "the installation key \(path) is missing, but \(written) was written with it; restore the key from its "
                + "copy, or move \(files.joined(separator: " and ")) away to begin anew"
        )
    }

    /// What is wrong with the files at the moment, and whether requests suffer.
    func troubles(_ plan: Plan, rotating: [String]) async -> (reasons: [String], blocks: Bool) {
        var reasons: [String] = []
        var blocks = false
        if let failure = await audit.currentFailure() {
            let isBlocked = plan.audit.onFailure == .block
            blocks = isBlocked
            let effect = isBlocked ? "no new token is used" : "tokens are used without a record (on_failure: degrade)"
            reasons.append("the audit log cannot be written, so \(effect): \(failure.reason)")
        }
        if let tokens = tokens as? SQLiteTokenStore, let failure = await tokens.currentFailure() {
            blocks = blocks || !rotating.isEmpty
            let effect = rotating.isEmpty ? "" : ", so \(rotating.joined(separator: ", ")) cannot be renewed"
            reasons.append("the token store cannot be written\(effect): \(Self.words(for: failure))")
        }
        return (reasons, blocks)
    }

    private static func installationKey(_ source: TokenPlan.Key) throws(CommandFailure) -> InstallationKey {
        do throws(InstallationKeyError) {
            switch source {
            case .file(let path): return try InstallationKey.loadOrCreate(path: path)
            case .value(let secret): return try InstallationKey(secret)
            }
        } catch {
            throw CommandFailure(.failed, error.message)
        }
    }

    private static func openAudit(
        _ plan: AuditPlan,
        _ key: InstallationKey,
        _ clock: any GatewayClock,
        _ logger: Logger
    ) throws(CommandFailure) -> SQLiteAuditLog {
        let options = SQLiteAuditLog.Options(
            path: plan.path,
            instance: key.instanceName,
            retention: plan.retention,
            recordsUsage: plan.usage != .none
        )
        do throws(AuditError) {
            return try SQLiteAuditLog(options: options, keys: AuditKeys(key), clock: clock, logger: logger)
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
    }

    private static func openTokens(_ plan: TokenPlan, _ key: InstallationKey) throws(CommandFailure) -> any TokenStore {
        if let program = plan.program {
            let runner = SystemProgramRunner()
            return CommandTokenStore(program: program, runner: runner, key: key.derived(for: .tokenStore))
        }
        guard plan.store == .sqlite else { return MemoryTokenStore() }
        do throws(TokenStoreError) {
            return try SQLiteTokenStore(path: plan.path, key: key.derived(for: .tokenStore))
        } catch {
            throw CommandFailure(.failed, words(for: error))
        }
    }

    private static func words(for error: TokenStoreError) -> String {
        switch error {
        case .unavailable(let reason), .damaged(let reason): reason
        }
    }
}
