import GatewayCore
import GatewayFiles
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
        let database = try database(url)
        let before = try await with(database) { (store) throws(TokenStoreError) in try await store.migrate() }
        return try text(before, database)
    }

    /// - Returns: What is for standard output.
    package func encrypt(_ url: String?) async throws(CommandFailure) -> String {
        guard settings.plan.tokens.encryptionKey != nil, settings.plan.tokens.previousEncryptionKey != nil else {
            throw CommandFailure(
                .failed,
                "name the new key as tokens.encryption_key and the present one as tokens.previous_encryption_key, on all "
                    + "gateways; restart them, and then run this once"
            )
        }
        let database = try database(url)
        let count = try await with(database) { (store) throws(TokenStoreError) in try await store.encrypt() }
        if asJSON { return try JSONText.pretty(["tokens": count]) }
        return
            "\(count) \(count == 1 ? "token was" : "tokens were") encrypted anew. Now remove tokens.previous_encryption_key "
            + "on all gateways.\n"
    }

    private func database(_ url: String?) throws(CommandFailure) -> PostgreSQLPlan {
        guard var database = settings.plan.tokens.database else {
            throw CommandFailure(
                .failed,
                "tokens.store is not postgres; another store is brought up to date when the gateway starts"
            )
        }
        if let url { try replaceURL(of: &database, by: url) }
        return database
    }

    private func with<Value: Sendable>(
        _ database: PostgreSQLPlan,
        _ body: (PostgreSQLTokenStore) async throws(TokenStoreError) -> Value
    ) async throws(CommandFailure) -> Value {
        let installation = try settings.installationKey()
        let keys: StoreKeys
        do throws(StateError) {
            keys = try StoreKeys(settings.plan.tokens, installation: installation)
        } catch {
            throw CommandFailure(error)
        }
        let store = Storage.database(database, keys, makesTables: false)
        let result: Result<Value, CommandFailure>
        do throws(TokenStoreError) {
            result = .success(try await body(store))
        } catch {
            result = .failure(CommandFailure(.failed, error.reason))
        }
        await store.close()
        return try result.get()
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
