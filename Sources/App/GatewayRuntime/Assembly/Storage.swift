import GatewayAudit
import GatewayCore
import GatewayTokenStores
import Logging

/// The files of a gateway: its locked directory, its key, its audit log, its tokens.
struct Storage: Sendable {
    let directory: StateDirectory
    let key: InstallationKey
    let audit: SQLiteAuditLog
    let tokens: any TokenStore
    let adminToken: Secret

    /// - Throws: ``CommandFailure`` that says which file is wrong and what to do.
    init(plan: Plan, clock: any GatewayClock, logger: Logger) throws(CommandFailure) {
        directory = try Self.translate { () throws(StateError) in try StateDirectory(path: plan.stateDirectory) }
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
        guard plan.store == .sqlite else { return MemoryTokenStore() }
        do throws(TokenStoreError) {
            return try SQLiteTokenStore(path: plan.path, key: key.derived(for: .tokenStore))
        } catch {
            switch error {
            case .unavailable(let reason), .damaged(let reason): throw CommandFailure(.failed, reason)
            }
        }
    }
}
