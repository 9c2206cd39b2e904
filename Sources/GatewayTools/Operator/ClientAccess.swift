import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority

/// What a program of this machine needs to use a gateway as its proxy.
struct ClientAccess: Sendable {
    let endpoint: ProxyEndpoint
    let proof: ClientEnvironment.Proof?
    let trust: ClientEnvironment.Trust?
    private let offer: ProxyOffer
    /// What tools get in place of their API keys.
    private let token: ToolVariables.Token
    /// The path of `gateway.yaml`, which may name presets; nil where it is not this user's.
    private let configuration: String?

    init(
        _ endpoint: ProxyEndpoint,
        of offer: ProxyOffer,
        proof: ClientEnvironment.Proof?,
        token: ToolVariables.Token,
        configuration: String,
        stateDirectory: String
    ) throws(CommandFailure) {
        self.endpoint = endpoint
        self.proof = proof
        self.offer = offer
        self.token = token
        self.configuration = configuration
        let earlier = ClientEnvironment.earlierBundles { Console.environment($0) }
        do throws(StateError) {
            trust = try ClientTrustFiles(stateDirectory: stateDirectory).write(adding: earlier)
        } catch {
            let advice = "run this as the gateway's user, or name its admin listener: --admin URL"
            throw CommandFailure(.failed, "\(error.description); \(advice)")
        }
    }

    /// Access to a gateway whose files this user cannot read.
    ///
    /// - Parameters:
    ///   - authority: The certificates of its local CA (PEM); nil where it has none.
    ///   - folder: A folder of this user, for the certificates.
    init(
        _ endpoint: ProxyEndpoint,
        of offer: ProxyOffer,
        proof: ClientEnvironment.Proof?,
        token: ToolVariables.Token,
        authority: String?,
        folder: String
    ) throws(CommandFailure) {
        self.endpoint = endpoint
        self.proof = proof
        self.offer = offer
        self.token = token
        configuration = nil
        guard let authority else {
            trust = nil
            return
        }
        let earlier = ClientEnvironment.earlierBundles { Console.environment($0) }
        do throws(StateError) {
            trust = try ClientTrustFiles(authorityFolder: folder).write(copying: authority, adding: earlier)
        } catch {
            throw CommandFailure(error)
        }
    }

    /// Access to the gateway that runs with this configuration.
    ///
    /// - Parameter isRun: Whether this process becomes the program.
    static func ofRunningGateway(
        configuration: String,
        source: ClientTokenSource,
        isRun: Bool,
        advice: String
    ) async throws(CommandFailure) -> ClientAccess {
        let settings = try OperatorSettings(running: configuration)
        let plan = settings.plan
        // Another program at the admin address of a gateway that does not run would get the token.
        guard StateDirectory.isHeld(plan.stateDirectory) else {
            throw CommandFailure(
                .unreachable,
                "no gateway runs with \(LogText.clean(configuration)); start it with: \(GatewayCommand.line("run"))\(advice)"
            )
        }
        let overview = try await settings.client.ask(AdminAPI.operations.overview)
        switch overview.proxy.choice {
        case .none(let reason): throw CommandFailure(.configuration, reason)
        case .endpoint(let endpoint):
            let proof = try source.proof(
                configuration: configuration,
                clients: overview.clients,
                isNeeded: endpoint.requiresClientToken
            )
            return try ClientAccess(
                endpoint,
                of: overview.proxy,
                proof: proof,
                token: isRun
                    ? await Self.token(of: settings.client, overview.proxy, endpoint, proof) : ToolVariables.Token(),
                configuration: configuration,
                stateDirectory: plan.stateDirectory
            )
        }
    }

    /// The token of the program that this process becomes or waits for. A gateway that makes none still puts the keys into requests.
    static func token(
        of client: AdminClient,
        _ offer: ProxyOffer,
        _ endpoint: ProxyEndpoint,
        _ proof: ClientEnvironment.Proof?
    ) async -> ToolVariables.Token {
        guard endpoint.origin.isLoopback, offer.services?.isEmpty == false, let process = ProcessMark.current else {
            return ToolVariables.Token()
        }
        let order = RunOrder(process: process, token: proof?.token)
        do throws(CommandFailure) {
            return ToolVariables.Token(known: try await client.ask(AdminAPI.operations.beginRun, with: order).secret)
        } catch {
            return ToolVariables.Token()
        }
    }

    /// What every program gets.
    var variables: [ClientEnvironment.Variable] {
        ClientEnvironment(endpoint, proof: proof, trust: trust, hosts: offer.hosts) { Console.environment($0) }
            .variables
    }

    /// What SDKs and tools get in place of their API keys.
    ///
    /// - Parameters:
    ///   - kept: The names of variables that stay as they are.
    ///   - usesPaths: The program does not use the proxy.
    func tools(keeping kept: Set<String> = [], usesPaths: Bool = false) -> ToolVariables {
        let isNeeded = offer.services?.isEmpty == false
        let library = configuration.map { isNeeded ? PresetLibrary(of: $0) : .builtIn } ?? .builtIn
        return ToolVariables(
            isNeeded ? library.presets : [],
            offer,
            at: endpoint,
            token: token,
            keeping: kept,
            usesPaths: usesPaths
        ) { Console.environment($0) }
    }
}

/// Which client a program is, and where `exec` and `env` have its token from: never from an argument, which every user of the
/// machine can read.
struct ClientTokenSource: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The client of access.clients that the program acts as. Its token is read from the configuration, if it is there.",
            valueName: "name"
        )
    )
    var client: String?

    @Option(
        help: ArgumentHelp("A file with the client's token; - reads it from standard input.", valueName: "file")
    )
    var clientTokenFile: String?

    @Option(
        help: ArgumentHelp("The environment variable with the client's token.", valueName: "variable")
    )
    var clientTokenEnv: String?

    func validate() throws {
        if clientTokenFile != nil, clientTokenEnv != nil {
            throw ValidationError("Name one place of the token: --client-token-file or --client-token-env.")
        }
    }

    /// - Parameters:
    ///   - configuration: The path of `gateway.yaml`, which may hold the token; nil where it is not this user's.
    ///   - clients: The names of `access.clients`.
    ///   - isNeeded: Whether the listener asks for a token.
    func proof(
        configuration: String?,
        clients: [String],
        isNeeded: Bool
    ) throws(CommandFailure) -> ClientEnvironment.Proof? {
        if let client, !clients.contains(client) { throw Self.unknown(client, among: clients) }
        if clientTokenFile != nil || clientTokenEnv != nil {
            return ClientEnvironment.Proof(client: client ?? "client", token: try named())
        }
        guard isNeeded || client != nil else { return nil }
        guard let configuration else {
            throw CommandFailure(
                .usage,
                "the gateway asks for your client token (access.clients), and its configuration is not read; say where the "
                    + "token is: --client-token-file FILE, or --client-token-env VARIABLE"
            )
        }
        if let client {
            return ClientEnvironment.Proof(client: client, token: try configured(client, in: configuration))
        }
        let example = LogText.clean(clients.sorted().first ?? "NAME")
        throw CommandFailure(
            .usage,
            "the listener asks for the token of a client (access.clients); name the client, and where its token is if the "
                + "configuration does not hold it:\n  --client \(ShellWord.quoted(example)) --client-token-file FILE"
        )
    }

    /// - Parameter clients: The names of `access.clients`.
    static func unknown(_ client: String, among clients: [String]) -> CommandFailure {
        let known =
            clients.isEmpty
            ? "names none" : "names \(clients.sorted().map { LogText.clean($0) }.joined(separator: ", "))"
        return CommandFailure(.usage, "there is no client \"\(LogText.clean(client))\"; access.clients \(known)")
    }

    private func named() throws(CommandFailure) -> Secret {
        if let variable = clientTokenEnv {
            guard let value = Console.environment(variable) else {
                throw CommandFailure(.usage, "the environment variable \(LogText.clean(variable)) is not set")
            }
            return try Self.token(Array(value.utf8), of: "the environment variable \(LogText.clean(variable))")
        }
        let path = clientTokenFile == "-" ? nil : clientTokenFile
        let bytes = try SecretInput.read(path, asking: "Token of the client: ")
        return try Self.token(bytes, of: path.map { LogText.clean($0) } ?? "standard input")
    }

    private func configured(_ client: String, in configuration: String) throws(CommandFailure) -> Secret {
        let secrets = SystemSecretSource()
        // Stands for variables that are not set here, and must not be taken for a token.
        let unset = Hexadecimal.random(bytes: 16)
        let loader = ConfigLoader(files: SystemConfigFiles(), placeholder: unset, size: .ofProcess) {
            secrets.environment($0)
        }
        let loading = loader.load(configuration)
        let advice = "name a file or a variable with it: --client-token-file FILE, --client-token-env NAME"
        let name = LogText.clean(client)
        guard let document = loading.document else {
            throw CommandFailure(.configuration, "the configuration cannot be read; \(advice)")
        }
        let context = ConfigContext(document: document, secrets: secrets)
        switch ConfiguredClientToken(of: client, in: document, context: context) {
        case .token(let token):
            let isKnown = token.withValue { !$0.contains(unset) }
            guard isKnown else {
                throw CommandFailure(.usage, "the token of \(name) is in a variable that is not set here; \(advice)")
            }
            return try token.withValue { (text) throws(CommandFailure) in
                try Self.token(Array(text.utf8), of: "access.clients.\(name).token")
            }
        case .digest:
            throw CommandFailure(.usage, "the configuration holds a digest of the token of \(name) only; \(advice)")
        case .none:
            let reason = context.diagnostics.first.map { ": \($0.message)" } ?? ""
            throw CommandFailure(
                .usage,
                "the token of \(name) cannot be read from the configuration\(reason); \(advice)"
            )
        }
    }

    /// Without white space around it. What a field cannot hold is no token.
    private static func token(_ bytes: [UInt8], of source: String) throws(CommandFailure) -> Secret {
        let text = String(decoding: bytes, as: UTF8.self).trimming { $0.isWhitespace }
        guard !text.isEmpty else { throw CommandFailure(.failed, "\(source) holds no token") }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw CommandFailure(.failed, "\(source) holds characters that no token has")
        }
        return Secret(text)
    }
}

extension String {
    fileprivate func trimming(_ isDropped: (Character) -> Bool) -> String {
        let start = drop(while: isDropped)
        guard let last = start.lastIndex(where: { !isDropped($0) }) else { return "" }
        return String(start[...last])
    }
}
