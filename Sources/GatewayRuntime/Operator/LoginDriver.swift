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
        return try await client.login("POST", "", body: wish)
    }

    func answer(_ id: String, with text: String) async throws(CommandFailure) -> LoginProgress {
        try await client.login("POST", "/\(id)/answer", body: .object(["answer": .string(text)]))
    }

    func progress(_ id: String) async throws(CommandFailure) -> LoginProgress {
        try await client.login("GET", "/\(id)", body: nil)
    }

    func cancel(_ id: String) async -> LoginProgress? {
        // What is not cancelled ends at its deadline.
        try? await client.login("DELETE", "/\(id)", body: nil)
    }

    func close() async {}
}

extension AdminClient {
    fileprivate func login<Answer: Decodable>(
        _ method: String,
        _ path: String,
        body: JSONValue?
    ) async throws(CommandFailure) -> Answer {
        let bytes = body.flatMap { try? $0.bytes() }
        let (status, answer) = try await sendAuthorized(method, "/api/logins\(path)", body: bytes)
        guard status == 200 else { throw refusal(answer) }
        return try decode(answer)
    }
}
