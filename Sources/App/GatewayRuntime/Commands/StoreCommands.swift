import GatewayCore
import GatewayTokenStores

/// What `store …` does: works on the database that gateways share.
package struct StoreCommands: Sendable {
    private let settings: OperatorSettings
    private let asJSON: Bool

    /// - Parameter configuration: The path of `gateway.yaml`, for `tokens`.
    package init(configuration: String, asJSON: Bool) throws(CommandFailure) {
        settings = try OperatorSettings(configuration: configuration, readsDatabase: true)
        self.asJSON = asJSON
    }

    private struct Report: Encodable {
        let schema: Int64
        /// Absent when there were no tables.
        let before: Int64?
    }

    /// - Parameter url: Instead of the one in the configuration.
    /// - Returns: What is for standard output.
    package func migrate(_ url: String?) async throws(CommandFailure) -> String {
        guard var database = settings.plan.tokens.database else {
            throw CommandFailure(
                .failed,
                "tokens.store is not postgres; another store is brought up to date when the gateway starts"
            )
        }
        if let url { try replaceURL(of: &database, by: url) }
        let installation = try settings.installationKey()
        let keys: StoreKeys
        do throws(InstallationKeyError) {
            keys = try StoreKeys(settings.plan.tokens, installation: installation)
        } catch {
            throw CommandFailure(.failed, error.message)
        }
        let store = Storage.database(database, keys, makesTables: false)
        let result = await Self.migrate(store)
        await store.close()
        return try text(try result.get(), database)
    }

    private static func migrate(_ store: PostgreSQLTokenStore) async -> Result<Int64?, CommandFailure> {
        do throws(TokenStoreError) {
            return .success(try await store.migrate())
        } catch {
            return .failure(CommandFailure(.failed, error.reason))
        }
    }

    private func replaceURL(of database: inout PostgreSQLPlan, by text: String) throws(CommandFailure) {
        do throws(PostgreSQLURL.Mistake) {
            database.url = try PostgreSQLURL(text)
        } catch {
            throw CommandFailure(.usage, "--url: \(error.message)")
        }
        // It belongs to another role.
        database.password = nil
    }

    private func text(_ before: Int64?, _ database: PostgreSQLPlan) throws(CommandFailure) -> String {
        let schema = PostgreSQLTokenStore.schemaVersion
        if asJSON { return try JSONText.pretty(Report(schema: schema, before: before)) }
        let name = "The token database \(LogText.clean(database.url.description))"
        guard let before else { return "\(name) has its tables now (schema \(schema)).\n" }
        guard before == schema else { return "\(name) was brought from schema \(before) to schema \(schema).\n" }
        return "\(name) is up to date (schema \(schema)).\n"
    }
}
