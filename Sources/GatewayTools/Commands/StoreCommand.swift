import ArgumentParser
import GatewayApp
import GatewayFiles
import GatewayHTTP
import GatewayTokenStores
import GatewayTokens

struct StoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Prepare the database that gateways share.",
        discussion: """
            Examples:
              authgateway store migrate
              authgateway store encrypt
            """,
        subcommands: [StoreMigrateCommand.self, StoreEncryptCommand.self]
    )
}

struct StoreMigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Make the tables of tokens.store: postgres, or bring them up to date.",
        discussion: """
            Examples:
              authgateway store migrate
              PGPASSWORD=… authgateway store migrate \\
                --url postgresql://owner@db.example.com/authgateway

            The first gateway on an empty database makes the tables itself, if its role
            may. With this command, a role of the owner makes them, so that gateways need
            no such right (docs/fleet.md names what they need). Gateways keep serving
            meanwhile. Tables of a newer authgateway are left as they are.

            Exit codes: 0 done, 1 failed or refused, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag
    @OptionGroup var database: DatabaseURLOption

    func run() async throws(CommandFailure) {
        let settings = try database.settings(config)
        let plan = try database.plan(settings)
        let label = "Bringing the tables up to date"
        let before = try await ProgressLine.during(label, unless: json.isOn) { _ async throws(CommandFailure) in
            try await settings.with(plan) { (store) throws(TokenStoreError) in try await store.migrate() }
        }
        let report = Report(schema: PostgreSQLTokenStore.schemaVersion, before: before)
        Console.write(try json.text(of: report, or: Self.text(of: report, plan)))
    }

    private struct Report: Encodable {
        let schema: Int64
        /// Absent when there were no tables.
        let before: Int64?
    }

    private static func text(of report: Report, _ database: PostgreSQLPlan) -> String {
        let schema = report.schema
        let name = "The token database \(LogText.clean(database.url.description))"
        guard let before = report.before else { return "\(name) has its tables now (schema \(schema)).\n" }
        guard before == schema else { return "\(name) was brought from schema \(before) to schema \(schema).\n" }
        return "\(name) is up to date (schema \(schema)).\n"
    }
}

struct StoreEncryptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "encrypt",
        abstract: "Encrypt the tokens of tokens.store: postgres with another key.",
        discussion: """
            Example:
              authgateway store encrypt --url postgresql://owner@db.example.com/authgateway

            First give all gateways the new key as tokens.encryption_key and the present
            one as tokens.previous_encryption_key, and restart them: both keys open the
            tokens then. This command encrypts all of them with the new key, while the
            gateways go on. Then remove tokens.previous_encryption_key. After a crash,
            run it again.

            Exit codes: 0 done, 1 failed or refused, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag
    @OptionGroup var database: DatabaseURLOption

    func run() async throws(CommandFailure) {
        let settings = try database.settings(config)
        let tokens = settings.plan.tokens
        guard tokens.encryptionKey != nil, tokens.previousEncryptionKey != nil else {
            throw CommandFailure(
                .failed,
                "name the new key as tokens.encryption_key and the present one as tokens.previous_encryption_key, on all "
                    + "gateways; restart them, and then run this once"
            )
        }
        let plan = try database.plan(settings)
        let label = "Encrypting the tokens"
        let count = try await ProgressLine.during(label, unless: json.isOn) { _ async throws(CommandFailure) in
            try await settings.with(plan) { (store) throws(TokenStoreError) in try await store.encrypt() }
        }
        let text =
            "\(count) \(count == 1 ? "token was" : "tokens were") re-encrypted. Now remove tokens.previous_encryption_key "
            + "on all gateways.\n"
        Console.write(try json.text(of: ["tokens": count], or: text))
    }
}

/// Which database is meant.
struct DatabaseURLOption: ParsableArguments {
    @Option(
        name: .customLong("url"),
        help: ArgumentHelp(
            "Connect with this URL instead of tokens.url. Give a password as PGPASSWORD or in a password file.",
            valueName: "url"
        )
    )
    var url: String?

    func settings(_ config: ConfigOption) throws(CommandFailure) -> OperatorSettings {
        try OperatorSettings(configuration: config.runningPath(), readsDatabase: true)
    }

    func plan(_ settings: OperatorSettings) throws(CommandFailure) -> PostgreSQLPlan {
        guard var database = settings.plan.tokens.database else {
            throw CommandFailure(
                .failed,
                "tokens.store is not postgres; another store is brought up to date when the gateway starts"
            )
        }
        guard let url else { return database }
        do throws(PostgreSQLURL.Mistake) {
            database.url = try PostgreSQLURL(url)
        } catch {
            throw CommandFailure(.usage, "--url: \(error.message)")
        }
        // It belongs to another role.
        database.password = nil
        return database
    }
}

extension OperatorSettings {
    /// The database of `tokens.store: postgres`. It gets no tables.
    func open(_ database: PostgreSQLPlan) throws(CommandFailure) -> PostgreSQLTokenStore {
        let installation = try installationKey()
        do throws(StateError) {
            let keys = try StoreKeys(plan.tokens, installation: installation)
            return Storage.database(database, keys, makesTables: false)
        } catch {
            throw CommandFailure(error)
        }
    }

    fileprivate func with<Value: Sendable>(
        _ database: PostgreSQLPlan,
        _ body: (PostgreSQLTokenStore) async throws(TokenStoreError) -> Value
    ) async throws(CommandFailure) -> Value {
        let store = try open(database)
        let result: Result<Value, CommandFailure>
        do throws(TokenStoreError) {
            result = .success(try await body(store))
        } catch {
            result = .failure(CommandFailure(.failed, error.reason))
        }
        await store.close()
        return try result.get()
    }
}
