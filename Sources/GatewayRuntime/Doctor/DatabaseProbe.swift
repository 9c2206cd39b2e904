import GatewayCore
import GatewayTokenStores

/// Looks at a token database that gateways share. Makes no tables, and writes nothing.
struct DatabaseProbe: Sendable {
    /// Shorter than what `doctor` gives each thing.
    private static let limit: Duration = .seconds(3)
    /// For the connection that listens, which begins beside the other one.
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
