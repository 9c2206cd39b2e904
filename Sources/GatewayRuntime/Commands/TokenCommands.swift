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

        var operation: TokenOperation {
            switch self {
            case .refresh: .refresh
            case .revoke: .revoke
            case .clear: .clear
            case .lock: .lock
            case .unlock: .unlock
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
        let tokens = try await reaching { () throws(CommandFailure) in
            try await client.tokens()
        } otherwise: { (offline) throws(CommandFailure) in
            await offline.control.tokens()
        }
        if asJSON { return try JSONText.pretty(tokens) }
        guard !tokens.isEmpty else { return "The configuration has no credential.\n" }
        return TokenText.table(of: tokens, .current)
    }

    package func show(_ name: String) async throws(CommandFailure) -> String {
        let (token, routes) = try await reaching { () throws(CommandFailure) in
            (try await client.token(name), try await client.routes())
        } otherwise: { (offline) throws(CommandFailure) in
            (try AdminClient.value(of: await offline.control.token(name)), await offline.control.routes())
        }
        if asJSON { return try JSONText.pretty(token) }
        return TokenText.list(of: token, routes: routes.filter { $0.credential == name }.map(\.name))
    }

    /// The access token and nothing else.
    package func get(_ name: String) async throws(CommandFailure) -> String {
        let token = try await client.reveal(name)
        return asJSON ? try token.json() : token.line
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
        let token = try await client.downscope(name, body)
        return asJSON ? try token.json() : token.line
    }

    package func perform(_ verb: Verb, on name: String) async throws(CommandFailure) -> String {
        // A gateway renews by itself when it starts.
        if verb == .refresh { return try text(await client.perform(verb.rawValue, on: name)) }
        return try await perform(verb.rawValue, verb.operation, on: name)
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
        let token: ImportedToken
        do throws(ImportedTokenError) {
            token = try ImportedToken(reading: bytes)
        } catch {
            throw CommandFailure(.failed, "that is no token: \(error.reason)")
        }
        return try await perform("import", .import(token), on: name, body: bytes)
    }

    private func perform(
        _ verb: String,
        _ operation: TokenOperation,
        on name: String,
        body: [UInt8]? = nil
    ) async throws(CommandFailure) -> String {
        let begins = verb == "import" || verb == "lock"
        return try text(
            await reaching(mayBegin: begins) { () throws(CommandFailure) in
                try await client.perform(verb, on: name, body: body)
            } otherwise: { (offline) throws(CommandFailure) in
                try AdminClient.value(of: await offline.control.perform(operation, on: name))
            }
        )
    }

    private func text(_ report: OperationReport) throws(CommandFailure) -> String {
        asJSON ? try JSONText.pretty(report) : LogText.clean(report.message) + "\n"
    }

    /// - Parameter mayBegin: Whether it makes sense before there was ever a gateway.
    func reaching<Value: Sendable>(
        mayBegin: Bool = false,
        _ online: () async throws(CommandFailure) -> Value,
        otherwise: (OfflineTokens) async throws(CommandFailure) -> Value
    ) async throws(CommandFailure) -> Value {
        do throws(CommandFailure) {
            return try await online()
        } catch {
            // An address says nothing of the gateway's files, which could be read instead.
            guard error.status == .unreachable, client.named == nil, !client.isAnswered(error) else { throw error }
            let offline = try await OfflineTokens(configuration: configuration, mayBegin: mayBegin, after: error)
            let value: Value
            do throws(CommandFailure) {
                value = try await otherwise(offline)
            } catch {
                await offline.close()
                throw error
            }
            await offline.close()
            return value
        }
    }
}
