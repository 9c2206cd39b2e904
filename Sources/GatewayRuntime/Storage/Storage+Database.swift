import Foundation
import GatewayAudit
import GatewayCore
import GatewayFiles
import GatewayTokenStores
import Logging

extension Storage {
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

    static func database(
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

    static func options(_ url: PostgreSQLURL, _ plan: PostgreSQLPlan) -> PostgreSQLOptions {
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
}
