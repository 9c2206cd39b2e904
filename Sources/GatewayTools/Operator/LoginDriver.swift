import GatewayApp
import GatewayHTTP
import GatewayTokens
import Logging

/// Where the command's login is carried out: in the running gateway, or in this process when none runs.
enum LoginDriver: Sendable {
    case running(AdminClient)
    case offline(OfflineLogins)

    func begin(_ order: LoginOrder) async throws(CommandFailure) -> LoginInvitation {
        try await ask(AdminAPI.operations.beginLogin, with: order)
    }

    func answer(_ id: String, with text: String) async throws(CommandFailure) -> LoginProgress {
        try await ask(AdminAPI.operations.answerLogin, of: id, with: PastedAnswer(text))
    }

    func progress(_ id: String) async throws(CommandFailure) -> LoginProgress {
        try await ask(AdminAPI.operations.login, of: id, with: NoInput())
    }

    /// - Returns: How the login ended, which may have been just before; nil when it is unknown.
    func cancel(_ id: String) async -> LoginProgress? {
        // What is not cancelled ends at its deadline.
        try? await ask(AdminAPI.operations.cancelLogin, of: id, with: NoInput())
    }

    /// Gives back what the login held.
    func close() async {
        if case .offline(let logins) = self { await logins.close() }
    }

    private func ask<Input, Answer>(
        _ operation: AdminOperation<any LoginControl, Input, Answer>,
        of id: String = "",
        with input: Input
    ) async throws(CommandFailure) -> Answer {
        switch self {
        case .running(let client): try await client.ask(operation, of: id, with: input)
        case .offline(let logins): try AdminClient.value(of: await operation.perform(logins.desk, id, input))
        }
    }
}

/// A login without a running gateway: this process holds the state directory for as long as it lasts.
struct OfflineLogins: Sendable {
    private let tokens: OfflineTokens
    fileprivate let desk: LoginDesk
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
                audit: tokens.storage.recorder,
                onAuditFailure: tokens.onAuditFailure,
                clock: SystemClock(),
                logger: LogOutput.standardError.logger("authgateway.logins", level: .error)
            )
        )
    }

    func close() async {
        await desk.close()
        // Not cancelled: it may have begun a renewal that spends the refresh token.
        keeper?.retire()
        await keeping?.value
        await tokens.close()
    }
}
