import GatewayAdmin
import GatewayCore

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
        let wish: JSONValue = .object([
            "credential": .string(order.credential), "way": .string(order.way.rawValue),
            "timeout_seconds": .number(.init(Double(order.timeout.wholeMilliseconds) / 1000)),
        ])
        return try await client.ask(AdminAPI.beginLogin, body: try? wish.bytes())
    }

    func answer(_ id: String, with text: String) async throws(CommandFailure) -> LoginProgress {
        let body: JSONValue = .object(["answer": .string(text)])
        return try await client.ask(AdminAPI.answerLogin, of: id, body: try? body.bytes())
    }

    func progress(_ id: String) async throws(CommandFailure) -> LoginProgress {
        try await client.ask(AdminAPI.login, of: id)
    }

    func cancel(_ id: String) async -> LoginProgress? {
        // What is not cancelled ends at its deadline.
        try? await client.ask(AdminAPI.cancelLogin, of: id)
    }

    func close() async {}
}
