import GatewayAdmin
import GatewayCore
import GatewayFiles
import GatewayTokenStores

/// What `fleet` does: asks the running gateway, or the database when none runs here.
package struct FleetCommands: Sendable {
    private let client: AdminClient
    /// The path of `gateway.yaml`; nil for a gateway of another machine.
    private let configuration: String?
    private let asJSON: Bool

    /// - Parameter configuration: The path of `gateway.yaml`, for the admin address and `tokens`.
    package init(configuration: String, asJSON: Bool) throws(CommandFailure) {
        client = try OperatorSettings(running: configuration).client
        self.configuration = configuration
        self.asJSON = asJSON
    }

    package init(_ named: NamedAdmin, asJSON: Bool) {
        client = AdminClient(named)
        configuration = nil
        self.asJSON = asJSON
    }

    /// - Returns: What is for standard output.
    package func list() async throws(CommandFailure) -> String {
        let report = try await report()
        return asJSON ? try JSONText.pretty(report) : FleetText.table(of: report, .current)
    }

    private func report() async throws(CommandFailure) -> FleetReport {
        do throws(CommandFailure) {
            return try await client.ask(AdminAPI.fleet)
        } catch {
            guard let configuration, error.status == .unreachable, !client.isAnswered(error) else { throw error }
            return try await Self.ofDatabase(configuration, after: error)
        }
    }

    private static func ofDatabase(
        _ configuration: String,
        after failure: CommandFailure
    ) async throws(CommandFailure) -> FleetReport {
        let settings = try OperatorSettings(configuration: configuration, readsDatabase: true)
        guard settings.plan.tokens.store == .postgres else {
            throw CommandFailure(.failed, "\(failure.description)\n\(FleetInquiry.notShared.detail)")
        }
        Console.writeError("No gateway runs here; the database is asked.\n")
        let store = try settings.openDatabase()
        let answer = await FleetInquiry(store, clock: SystemClock())?.report()
        await store.close()
        switch answer {
        case .success(let report)?: return report
        case .failure(let error)?: throw CommandFailure(.failed, error.reason)
        case nil: throw CommandFailure(.failed, FleetInquiry.notShared.detail)
        }
    }
}

extension OperatorSettings {
    /// The database of `tokens.store: postgres`. It gets no tables.
    func openDatabase() throws(CommandFailure) -> PostgreSQLTokenStore {
        guard let database = plan.tokens.database else { throw CommandFailure(.failed, FleetInquiry.notShared.detail) }
        let installation = try installationKey()
        do throws(StateError) {
            let keys = try StoreKeys(plan.tokens, installation: installation)
            return Storage.database(database, keys, makesTables: false)
        } catch {
            throw CommandFailure(error)
        }
    }
}
