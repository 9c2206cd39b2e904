import GatewayApp
import GatewayHTTP
import GatewayTokens
import Logging

/// Where the command's login is carried out: in the running gateway, or in this process when none runs.
protocol LoginDriver: Sendable {
    func begin(_ order: LoginOrder) async throws(CommandFailure) -> LoginInvitation
    func answer(_ id: String, with text: String) async throws(CommandFailure) -> LoginProgress
    func progress(_ id: String) async throws(CommandFailure) -> LoginProgress
    /// - Returns: How the login ended, which may have been just before; nil when it is unknown.
    func cancel(_ id: String) async -> LoginProgress?
    /// Gives back what the login held.
    func close() async
}

/// Through the admin listener of the running gateway.
struct GatewayLogins: LoginDriver {
    let client: AdminClient

    func begin(_ order: LoginOrder) async throws(CommandFailure) -> LoginInvitation {
        try await client.ask(AdminAPI.operations.beginLogin, body: try? order.json.bytes())
    }

    func answer(_ id: String, with text: String) async throws(CommandFailure) -> LoginProgress {
        let body: JSONValue = .object(["answer": .string(text)])
        return try await client.ask(AdminAPI.operations.answerLogin, of: id, body: try? body.bytes())
    }

    func progress(_ id: String) async throws(CommandFailure) -> LoginProgress {
        try await client.ask(AdminAPI.operations.login, of: id)
    }

    func cancel(_ id: String) async -> LoginProgress? {
        // What is not cancelled ends at its deadline.
        try? await client.ask(AdminAPI.operations.cancelLogin, of: id)
    }

    func close() async {}
}

/// A login without a running gateway: this process holds the state directory for as long as it lasts.
struct OfflineLogins: LoginDriver {
    private let tokens: OfflineTokens
    private let desk: LoginDesk
    private let keeper: TokenKeeper?
    private let keeping: Task<Void, Never>?

    /// - Parameter failure: Why the gateway could not be asked.
    /// - Throws: ``CommandFailure`` when the token would be lost with this process, or when somebody else holds the state
    ///   directory.
    init(configuration: String, credential: String, after failure: CommandFailure) async throws(CommandFailure) {
        let tokens = try await OfflineTokens(configuration: configuration, mayBegin: true, after: failure)
        self.tokens = tokens
        let keeper = try? tokens.control.keeper(of: credential).get()
        self.keeper = keeper
        keeper?.runOffline()
        keeping = keeper.map { keeper in Task { try? await keeper.run() } }
        desk = LoginDesk(
            parts: LoginDesk.Parts(
                keeper: { tokens.control.keeper(of: $0) },
                endpoint: tokens.endpoint,
                audit: tokens.storage.recorder,
                onAuditFailure: tokens.onAuditFailure,
                clock: SystemClock(),
                logger: LogOutput.standardError.logger("authgateway.logins", level: .error)
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

    func cancel(_ id: String) async -> LoginProgress? {
        await desk.cancel(id)
        return await desk.progress(id)
    }

    func close() async {
        await desk.close()
        // Not cancelled: it may have begun a renewal that spends the refresh token.
        keeper?.retire()
        await keeping?.value
        await tokens.close()
    }
}
