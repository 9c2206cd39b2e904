import GatewayAdmin
import GatewayCore

/// What `token …` does: asks the running gateway, or works on its store when none runs.
package struct TokenCommands: Sendable {
    /// What needs no more than to be named.
    package enum Verb: String, Sendable {
        case refresh
        case revoke
        case clear
        case lock
        case unlock

        var operation: AdminAPI.Operation<OperationReport> {
            switch self {
            case .refresh: AdminAPI.refresh
            case .revoke: AdminAPI.revoke
            case .clear: AdminAPI.clear
            case .lock: AdminAPI.lock
            case .unlock: AdminAPI.unlock
            }
        }
    }

    private let configuration: String
    let client: AdminClient
    let asJSON: Bool

    /// - Parameter configuration: The path of `gateway.yaml`, for the admin address and the state directory.
    package init(configuration: String, asJSON: Bool) throws(CommandFailure) {
        client = try OperatorSettings(running: configuration).client
        self.configuration = configuration
        self.asJSON = asJSON
    }

    package init(_ named: NamedAdmin, asJSON: Bool) {
        client = AdminClient(named)
        configuration = ""
        self.asJSON = asJSON
    }

    package func list() async throws(CommandFailure) -> String {
        let tokens = try await reaching { (gateway) throws(CommandFailure) in try await gateway.ask(AdminAPI.tokens) }
        if asJSON { return try JSONText.pretty(tokens) }
        guard !tokens.isEmpty else { return "The configuration has no credential.\n" }
        return TokenText.table(of: tokens, .current)
    }

    package func show(_ name: String) async throws(CommandFailure) -> String {
        let (token, routes) = try await reaching { (gateway) throws(CommandFailure) in
            (try await gateway.ask(AdminAPI.token, of: name), try await gateway.ask(AdminAPI.routes))
        }
        if asJSON { return try JSONText.pretty(token) }
        return TokenText.list(of: token, routes: routes.filter { $0.credential == name }.map(\.name))
    }

    /// The access token and nothing else.
    package func get(_ name: String) async throws(CommandFailure) -> String {
        try text(await client.ask(AdminAPI.reveal, of: name))
    }

    /// A weaker token and nothing else. Only a running gateway makes one: it has the token that is exchanged.
    package func downscope(
        _ name: String,
        scopes: [String],
        resource: String?
    ) async throws(CommandFailure) -> String {
        var options: [String: JSONValue] = ["scopes": .array(scopes.map { .string($0) })]
        if let resource { options["resource"] = .string(resource) }
        guard let body = try? JSONValue.object(options).bytes() else {
            throw CommandFailure(.usage, "the scopes cannot be written as JSON")
        }
        return try text(await client.ask(AdminAPI.downscope, of: name, body: body))
    }

    /// What `token get` and `token downscope` print: the one place where a token reaches standard output.
    private func text(_ token: RevealedTokenBody) throws(CommandFailure) -> String {
        asJSON ? try JSONText.pretty(token) : token.accessToken + "\n"
    }

    package func perform(_ verb: Verb, on name: String) async throws(CommandFailure) -> String {
        // A gateway renews by itself when it starts.
        if verb == .refresh { return try text(await client.ask(AdminAPI.refresh, of: name)) }
        let report = try await reaching(mayBegin: verb == .lock) { (gateway) throws(CommandFailure) in
            try await gateway.ask(verb.operation, of: name)
        }
        return try text(report)
    }

    /// Stops the credential first, then has the authority forget its token.
    package func destroy(_ name: String) async throws(CommandFailure) -> String {
        let locked = try await perform(.lock, on: name)
        do throws(CommandFailure) {
            return try await perform(.revoke, on: name)
        } catch {
            if !asJSON { Console.writeError(locked) }
            throw error
        }
    }

    /// - Parameter bytes: What ``ImportedToken`` reads.
    package func `import`(_ bytes: [UInt8], for name: String) async throws(CommandFailure) -> String {
        do throws(UnusableInput) {
            _ = try ImportedToken(reading: bytes)
        } catch {
            throw CommandFailure(.failed, "that is no token: \(error.message)")
        }
        let report = try await reaching(mayBegin: true) { (gateway) throws(CommandFailure) in
            try await gateway.ask(AdminAPI.importToken, of: name, body: bytes)
        }
        return try text(report)
    }

    private func text(_ report: OperationReport) throws(CommandFailure) -> String {
        asJSON ? try JSONText.pretty(report) : LogText.clean(report.message) + "\n"
    }

    /// Where an operation is asked for: over the admin listener, or in this process, which holds the files of a gateway that does
    /// not run.
    enum Backend: Sendable {
        case running(AdminClient)
        case offline(OfflineTokens)

        func ask<Answer>(
            _ operation: AdminAPI.Operation<Answer>,
            of name: String = "",
            body: [UInt8]? = nil
        ) async throws(CommandFailure) -> Answer {
            switch self {
            case .running(let client): return try await client.ask(operation, of: name, body: body)
            case .offline(let tokens):
                return try AdminClient.value(
                    of: await operation.perform(tokens.control, AdminCall(name: name, body: body))
                )
            }
        }
    }

    /// Asks the running gateway; works on its store when none runs.
    ///
    /// - Parameter mayBegin: Whether it makes sense before there was ever a gateway.
    func reaching<Value: Sendable>(
        mayBegin: Bool = false,
        _ work: (Backend) async throws(CommandFailure) -> Value
    ) async throws(CommandFailure) -> Value {
        do throws(CommandFailure) {
            return try await work(.running(client))
        } catch {
            // An address says nothing of the gateway's files, which could be read instead.
            guard error.status == .unreachable, client.named == nil, !client.isAnswered(error) else { throw error }
            let offline = try await OfflineTokens(configuration: configuration, mayBegin: mayBegin, after: error)
            let value: Value
            do throws(CommandFailure) {
                value = try await work(.offline(offline))
            } catch {
                await offline.close()
                throw error
            }
            await offline.close()
            return value
        }
    }
}
