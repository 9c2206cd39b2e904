import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayProxy
import GatewayTokenClient
import GatewayTokens
import NIOPosix

/// What only `add mcp URL` takes.
struct MCPServerOptions: ParsableArguments {
    @Option(
        name: .customLong("client-id"),
        help: ArgumentHelp(
            "With mcp: a client that you have registered, or the URL of its metadata document; --secret says where its secret comes from.",
            valueName: "id"
        )
    )
    var clientID: String?

    @Option(
        name: .customLong("redirect-uri"),
        help: ArgumentHelp("With mcp: where the login ends, if that client needs a certain address.", valueName: "url")
    )
    var redirectURI: String?

    @Option(
        help: ArgumentHelp(
            "With mcp: the authorization server, instead of the first that the server names.",
            valueName: "url"
        )
    )
    var issuer: String?

    @Option(
        name: .customLong("name"),
        help: ArgumentHelp("With mcp: the name of the credential and the route.", valueName: "name")
    )
    var entryName: String?

    @Flag(name: .customLong("no-login"), help: "With mcp: only write the configuration.")
    var skipsLogin = false

    var isGiven: Bool { entryName != nil || isAboutLogin }
    var isAboutLogin: Bool { [clientID, redirectURI, issuer].contains { $0 != nil } || skipsLogin }

    static let loginNames = "--client-id, --redirect-uri, --issuer, --no-login"
    static let names = "--name, \(loginNames)"
}

/// `authgateway add mcp URL`: finds the authorization server, writes credential and route, and logs in.
struct MCPServerAddition: Sendable {
    /// Tools answer after a while, and streams of events are silent for longer.
    private static let timeouts = "timeouts: {response: 2m, idle: 10m}"

    private let path: String
    private let options: MCPServerOptions
    private let secretSources: ServiceArguments
    private let isConfirmed: Bool
    private let isDryRun: Bool
    private let server: AuthorityURL
    private let issuer: AuthorityURL?
    private let typedClient: LoginClient?
    private let name: String

    /// - Parameters:
    ///   - url: What a person typed, or what a preset says.
    ///   - name: The name of the credential and the route; nil makes one of the URL.
    init(_ command: AddCommand, _ path: String, url: String?, name standard: String? = nil) throws(CommandFailure) {
        self.path = path
        options = command.server
        secretSources = command.service
        (isConfirmed, isDryRun) = (command.yes.isGiven, command.isDryRun)
        guard let text = url else {
            let example = "authgateway add mcp https://mcp.example.com/mcp"
            throw CommandFailure(.usage, "say which server: \(example)")
        }
        guard command.service.parameters.isEmpty, command.service.upstream == nil else {
            throw CommandFailure(.usage, "--with and --upstream are for presets")
        }
        server = try Self.url(text, named: "the URL of the MCP server")
        do throws(UnusableInput) {
            _ = try UpstreamURL(text)
        } catch {
            throw CommandFailure(.usage, "the URL of the MCP server \(error.message)")
        }
        issuer = try options.issuer.map { text throws(CommandFailure) in try Self.url(text, named: "--issuer") }
        typedClient = try options.clientID.map { id throws(CommandFailure) in
            try Self.usable("--client-id") { () throws(UnusableInput) in try LoginClient(typed: id) }
        }
        guard typedClient != nil || secretSources.secrets.isEmpty && options.redirectURI == nil else {
            throw CommandFailure(
                .usage,
                "--secret and --redirect-uri belong to a client that you name with --client-id"
            )
        }
        name = options.entryName ?? standard ?? "\(ImportedName.made(fromURL: text))-mcp"
        guard ConfigName.isValid(name) else { throw CommandFailure(.usage, ConfigName.rule) }
    }

    private static func url(_ text: String, named name: String) throws(CommandFailure) -> AuthorityURL {
        do throws(AuthorityURL.Refusal) {
            return try AuthorityURL(text)
        } catch {
            throw CommandFailure(.usage, "\(name): \(error.message)")
        }
    }

    private static func usable<Value>(
        _ name: String,
        _ read: () throws(UnusableInput) -> Value
    ) throws(CommandFailure) -> Value {
        do throws(UnusableInput) {
            return try read()
        } catch {
            throw CommandFailure(.usage, "\(name): \(error.message)")
        }
    }

    // MARK: Steps

    func run() async throws(CommandFailure) {
        Console.write(try await add(asking: OutgoingHTTP(version: GatewayVersion.current)))
    }

    private func add(asking endpoint: OutgoingHTTP) async throws(CommandFailure) -> String {
        let editor = try ConfigurationEditor(path)
        let command = ["add", "mcp", server.description, "--name", "NAME"]
        try AddCommand.requireFree(name, [name], in: editor, otherwise: command)
        let discovery = LoginDiscovery(
            endpoint,
            DiscoveryRule(typed: [server] + [issuer].compactMap(\.self)),
            // Those who log in later go through it, too. A configuration that cannot be read here names none.
            through: (try? ConfigurationFile(path: path, consequence: ""))?.plan.proxy,
            isPublic: Self.isPublic
        )
        let findings = try await Self.asking { () async throws(UnusableInput) in
            try await discovery.findings(of: server, issuer: issuer)
        }
        Console.writeError(LoginSummary(server, findings, client: typedClient).text)
        guard !isDryRun else { return "Nothing was written.\n" }
        let place = findings.server.authorizeURL.origin.authority
        try Confirmation.require("Log in at \(place)?", isGiven: isConfirmed)
        var files = editor.secretFiles
        let client = try await client(findings, discovery, &files)
        let (written, advice) = try await write(client, findings, editor, files)
        // The notice is about secrets that a person has pasted.
        Console.write(written.text + (client.registrationURL == nil ? files.notice : "") + advice)
        guard !options.skipsLogin, written.gateway != .refuses else { return Self.later(name) }
        let progress = try await logIn()
        guard progress.token != nil else {
            throw CommandFailure(
                .failed,
                "\(LogText.clean(progress.problem ?? "The login failed."))\n\(Self.later(name))"
            )
        }
        return try LoginCommand.text(of: progress)
    }

    private static func asking<Value: Sendable>(
        _ question: () async throws(UnusableInput) -> Value
    ) async throws(CommandFailure) -> Value {
        do throws(UnusableInput) {
            return try await question()
        } catch {
            let lines = error.message.split(separator: "\n").map { LogText.clean(String($0)) }.joined(separator: "\n")
            throw CommandFailure(.failed, "\(lines)\nNothing was changed.")
        }
    }

    private static let isPublic: @Sendable (Origin) async -> Bool? = { origin in
        await Deadline.value(within: TokenRequest.longestCall) {
            await ServerName.isPublic(origin, on: MultiThreadedEventLoopGroup.singleton.next())
        } ?? nil
    }

    private static func later(_ name: String) -> String { "Log in: \(GatewayCommand.line("login", name))\n" }

    // MARK: The client

    /// The client of this login, and how the configuration writes it.
    private struct Client {
        let client: LoginClient
        /// Where it was registered just now; nil for one that a person named.
        var registrationURL: AuthorityURL?
        /// YAML of `client_secret`; nil without one.
        var secret: String?
        let redirect: String?
        /// Where the secret of a client that a person named is still missing.
        var advice = ""
    }

    private func client(
        _ findings: LoginDiscovery.Findings,
        _ discovery: LoginDiscovery,
        _ files: inout SecretFiles
    ) async throws(CommandFailure) -> Client {
        if let typedClient { return try typed(typedClient, findings, &files) }
        if findings.server.registrationURL != nil {
            // Authorization servers compare the port, too, although RFC 8252 section 7.3 has them accept any. Above those that systems
            // give to outgoing connections.
            let redirect = "http://127.0.0.1:\(Int.random(in: 61_000...65_535))/callback"
            return try await register(redirect, findings, discovery, &files)
        }
        let place = findings.server.authorizeURL.origin.authority
        guard ServiceArguments.canAsk else {
            let advice = "register one there, and add --client-id ID"
            throw CommandFailure(.usage, "\(place) does not register clients by itself: \(advice); nothing was changed")
        }
        Console.writeError("\(place) does not register clients by itself. Register one there, and type its ID: ")
        let id = (readLine() ?? "").filter { !$0.isWhitespace }
        guard !id.isEmpty else { throw CommandFailure(.failed, "nothing was changed") }
        let asked = try Self.usable("the client ID") { () throws(UnusableInput) in try LoginClient(typed: id) }
        return try typed(asked, findings, &files)
    }

    private func typed(
        _ client: LoginClient,
        _ findings: LoginDiscovery.Findings,
        _ files: inout SecretFiles
    ) throws(CommandFailure) -> Client {
        if let text = options.redirectURI, (try? LoginRedirect(text)) == nil {
            throw CommandFailure(
                .usage,
                "--redirect-uri: expected an absolute URI such as http://127.0.0.1:8765/callback"
            )
        }
        let method = findings.server.methods.first { $0 != .none } ?? .post
        guard !secretSources.secrets.isEmpty else {
            return Client(client: client, redirect: options.redirectURI)
        }
        let what = Preset.RequiredSecret(variable: Self.secretName, what: "The secret of the client", where: nil)
        let secrets = try secretSources.secrets(of: [what], for: name, mayAsk: false, files: &files)
        return Client(
            client: client.authenticating(by: method),
            secret: secrets.first?.yaml,
            redirect: options.redirectURI,
            advice: PresetAdvice(secrets, configuration: path, note: nil).text
        )
    }

    private static let secretName = "CLIENT_SECRET"

    private func register(
        _ redirect: String,
        _ findings: LoginDiscovery.Findings,
        _ discovery: LoginDiscovery,
        _ files: inout SecretFiles
    ) async throws(CommandFailure) -> Client {
        guard let url = findings.server.registrationURL else { throw CommandFailure(.failed, "nothing was changed") }
        let client = try await Self.asking { () async throws(UnusableInput) in
            let method = findings.server.methods.first ?? .none
            return try await discovery.register(at: url, as: method, scopes: findings.scopes, redirectingTo: redirect)
        }
        var secret: String?
        if let value = client.secret {
            let file = try files.add(value, as: "\(name).\(Self.secretName)", isSealed: true)
            secret = "{file: \(YAMLScalar.literal(file))}"
        }
        return Client(client: client, registrationURL: url, secret: secret, redirect: redirect)
    }

    // MARK: The configuration

    private func entry(_ client: Client, _ findings: LoginDiscovery.Findings) -> ConfigurationText.Entry {
        let lines = findings.credential(
            of: client.client,
            secret: client.secret,
            redirect: client.redirect,
            registrationURL: client.registrationURL
        )
        return .init(name, value: lines)
    }

    private func write(
        _ client: Client,
        _ findings: LoginDiscovery.Findings,
        _ editor: ConfigurationEditor,
        _ files: SecretFiles
    ) async throws(CommandFailure) -> (EditOutcome.Written, advice: String) {
        let route = [
            "upstream: \(YAMLScalar.literal(server.text))", "auth: \(YAMLScalar.text(name))", Self.timeouts,
        ]
        try editor.append(entry(client, findings), to: "credentials")
        try editor.append(.init(name, value: route), to: "routes")
        let advice = AddCommand.ensureProxy(in: editor) + client.advice
        let written = try await EditOutcome(editor: editor, path: path).apply(isConfirmed: true, with: files)
        return (written, advice)
    }

    // MARK: The login

    private func logIn() async throws(CommandFailure) -> LoginProgress {
        let command: LoginCommand
        do {
            command = try LoginCommand.parse([name, "--config", path])
        } catch {
            throw CommandFailure(.failed, Self.later(name))
        }
        return try await command.logIn()
    }
}

/// What a person sees before the login.
struct LoginSummary: Sendable {
    let text: String

    init(_ server: AuthorityURL, _ findings: LoginDiscovery.Findings, client: LoginClient?) {
        let found = findings.server
        let host = { (url: AuthorityURL) in url.origin.authority }
        var lines = [
            ("MCP server", server.description),
            ("Authorization server", "\(host(found.authorizeURL)) (\(found.issuer))"),
        ]
        // Its metadata may name the authorization server of somebody else, whose tokens it would get.
        if found.authorizeURL.origin.host != server.origin.host {
            let advice = "Continue only if you trust both."
            lines.append(("", "The MCP server is on another host and will receive the tokens issued here. \(advice)"))
        }
        if host(found.tokenURL) != host(found.authorizeURL) { lines.append(("Tokens come from", host(found.tokenURL))) }
        if findings.resource != server.text { lines.append(("Valid for", findings.resource)) }
        let scopes =
            findings.scopes.isEmpty ? "what the server grants by default" : findings.scopes.joined(separator: " ")
        lines.append(("Scopes", scopes))
        let registers =
            found.registrationURL == nil
            ? "one that you register" : "registered at \(found.registrationURL.map(host) ?? "")"
        lines.append(("Client", client?.id ?? registers))
        if client?.isDocument == true, !found.acceptsDocuments {
            lines.append(("", "The server does not say that it accepts the URL of a document."))
        }
        // All of it is visible ASCII, and no scope may be cut off.
        text = lines.map { "\(($0 + String(repeating: " ", count: 22)).prefix(22))\($1)\n" }.joined()
    }
}

extension LoginDiscovery.Findings {
    /// The credential, as lines of YAML.
    ///
    /// - Parameter secret: The value of `client_secret`, in YAML.
    func credential(
        of client: LoginClient,
        secret: String?,
        redirect: String?,
        registrationURL: AuthorityURL? = nil
    ) -> [String] {
        func line(_ key: String, _ value: String) -> String { "\(key): \(YAMLScalar.literal(value))" }
        var lines = [
            "strategy: oauth2_authorization_code", line("authorize_url", server.authorizeURL.text),
            line("token_url", server.tokenURL.text),
        ]
        if let url = server.revokeURL { lines.append(line("revoke_url", url.text)) }
        lines.append(line("client_id", client.id))
        if let secret { lines += ["client_secret: \(secret)", "client_auth: \(client.method.key)"] }
        if let registrationURL { lines.append(line("registration_url", registrationURL.text)) }
        if let redirect { lines.append(line("redirect_uri", redirect)) }
        if !scopes.isEmpty { lines.append("scopes: [\(scopes.map(YAMLScalar.literal).joined(separator: ", "))]") }
        lines.append(line("issuer", server.issuer))
        // An answer without it is accepted then, and one from elsewhere never is (the specification of MCP of 2026-07-28, "Authorization
        // Response Validation").
        if !server.namesIssuer { lines.append("issuer_required: false") }
        // RFC 8707 section 2: in the address of the page and in token requests, refreshes included.
        let resource = "{\(line("resource", resource))}"
        return lines + ["authorize_parameters: \(resource)", "parameters: \(resource)"]
    }
}
