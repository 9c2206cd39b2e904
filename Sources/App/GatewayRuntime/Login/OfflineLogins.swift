import GatewayCore
import GatewayTokenClient
import GatewayTokenKeeper
import GatewayTokenStores
import Logging

/// A login without a running gateway: this process holds the state directory for as long as it lasts.
struct OfflineLogins: LoginDriver {
    private let storage: Storage
    private let endpoint: AsyncHTTPTokenEndpoint
    private let desk: LoginDesk
    private let keeping: Task<Void, Never>?

    /// - Throws: ``CommandFailure`` when there is no such credential, when its token would be lost with this process, or
    ///   when somebody else holds the state directory.
    init(configuration: String, credential name: String, output: LogOutput) async throws(CommandFailure) {
        let plan = try ConfigurationFile(path: configuration, consequence: "nothing was started").plan
        guard plan.tokens.store != .memory else {
            let advice = "tokens.store is memory, so its token would end with this command; start the gateway first"
            throw CommandFailure(.unreachable, "no gateway answers, and \(advice)")
        }
        guard let credential = plan.credentials.first(where: { $0.name == name }) else {
            throw CommandFailure(.failed, "there is no credential \(LogText.clean(name)) in \(configuration)")
        }
        let options = GatewayOptions(output: output, logLevel: .error)
        let clock = SystemClock()
        storage = try Storage(plan: plan, clock: clock, logger: options.logger("audit"))
        do throws(AsyncHTTPTokenEndpoint.TrustRootsError) {
            endpoint = try AsyncHTTPTokenEndpoint(version: GatewayVersion.current)
        } catch {
            await storage.close()
            throw CommandFailure(.failed, error.message)
        }
        let parts = CredentialSources.Parts(
            key: storage.key,
            store: storage.tokens,
            endpoint: endpoint,
            programs: SystemProgramRunner(),
            audit: storage.audit,
            onAuditFailure: plan.audit.onFailure,
            feed: AuditFeed(audit: storage.audit, metrics: options.metrics, logger: options.logger("audit")),
            locks: storage.locks,
            clock: clock,
            logger: options.logger("tokens")
        )
        let keeper = CredentialSources(credentials: [credential], parts: parts).keepers.first
        keeping = keeper.map { keeper in Task { try? await keeper.run() } }
        desk = LoginDesk(
            parts: LoginDesk.Parts(
                keeper: { _ in
                    keeper.map { .success($0) } ?? .failure(.init(.noRoute, "The credential \(name) is static."))
                },
                endpoint: endpoint,
                audit: storage.audit,
                clock: clock,
                logger: options.logger("logins")
            )
        )
    }

    func begin(_ order: LoginOrder) async throws(CommandFailure) -> LoginInvitation {
        switch await desk.begin(order) {
        case .success(let invitation): return invitation
        case .failure(let problem):
            throw CommandFailure(.failed, problem.detail + (problem.command.map { "\nrun: \($0)" } ?? ""))
        }
    }

    func answer(_ id: String, with text: String) async throws(CommandFailure) -> LoginProgress {
        try known(await desk.answer(id, with: text))
    }

    func progress(_ id: String) async throws(CommandFailure) -> LoginProgress { try known(await desk.progress(id)) }

    private func known(_ progress: LoginProgress?) throws(CommandFailure) -> LoginProgress {
        guard let progress else { throw CommandFailure(.failed, "there is no such login any more") }
        return progress
    }

    func cancel(_ id: String) async { await desk.cancel(id) }

    func close() async {
        await desk.close()
        keeping?.cancel()
        await keeping?.value
        await endpoint.shutdown()
        await storage.close()
    }
}
