import ArgumentParser
import GatewayApp
import GatewayHTTP
import GatewayTokens

struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "See, renew, replace, revoke and lock the tokens of the gateway.",
        discussion: """
            Examples:
              authgateway token list
              authgateway token show box-service
              authgateway token revoke box-service --lock
              authgateway token revoke --all
              authgateway token import devbox < token.txt
              authgateway token get box-service | wl-copy

            All of it goes through the running gateway and into its audit log. When no
            gateway runs, everything but get, downscope and refresh works on its state
            directory, with the same configuration and environment.

            Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 configuration,
            4 gateway not reachable.
            """,
        subcommands: [
            TokenListCommand.self,
            TokenShowCommand.self,
            TokenGetCommand.self,
            TokenDownscopeCommand.self,
            TokenRefreshCommand.self,
            TokenRevokeCommand.self,
            TokenClearCommand.self,
            TokenImportCommand.self,
            TokenLockCommand.self,
            TokenUnlockCommand.self,
        ]
    )
}

/// What every command on one token is given.
struct TokenOptions: ParsableArguments {
    @Argument(help: "The credential, as `token list` names it.")
    var name: String

    @OptionGroup var gateway: RunningGatewayOptions

    /// Performs an operation that needs only the name of the credential.
    ///
    /// - Parameter mayBegin: Whether it makes sense before there was ever a gateway.
    func perform(
        _ operation: AdminAPI.Operation<OperationReport>,
        mayBegin: Bool = false
    ) async throws(CommandFailure) {
        let report = try await TokenGateway(gateway).ask(operation, of: name, mayBegin: mayBegin)
        Console.write(try gateway.json.text(of: report, or: report.line))
    }

    /// What `token get` and `token downscope` print: the one place where a token reaches standard output.
    func write(_ token: RevealedTokenBody) throws(CommandFailure) {
        Console.write(try gateway.json.text(of: token, or: token.accessToken + "\n"))
    }
}

struct TokenListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the credentials: state, generation, countdown, last acceptance; never the token itself.",
        discussion: """
            Examples:
              authgateway token list
              authgateway token list --json | jq '.[] | select(.state == "expired")'
            """
    )

    @OptionGroup var gateway: RunningGatewayOptions

    func run() async throws(CommandFailure) {
        let tokens = try await TokenGateway(gateway).reach { (gateway) throws(CommandFailure) in
            try await gateway.ask(AdminAPI.operations.tokens)
        }
        let none = "The configuration has no credential."
        try gateway.json.write(tokens, none: none, or: TokenText.table(of: tokens, .current))
    }
}

struct TokenShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show everything known about one token, except the token itself.",
        discussion: """
            Examples:
              authgateway token show box-service
              authgateway token show 'box-service[user:42]' --json
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws(CommandFailure) {
        let name = options.name
        let (token, routes) = try await TokenGateway(options.gateway).reach { (gateway) throws(CommandFailure) in
            (
                try await gateway.ask(AdminAPI.operations.token, of: name),
                try await gateway.ask(AdminAPI.operations.routes)
            )
        }
        let names = routes.filter { $0.credential == name }.map(\.name)
        Console.write(try options.gateway.json.text(of: token, or: TokenText.list(of: token, routes: names)))
    }
}

struct TokenGetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print the access token. Recorded in the audit log before it is shown.",
        discussion: """
            Examples:
              authgateway token get box-service
              printf 'Authorization: Bearer %s\\n' "$(authgateway token get box-service)" |
                curl -H @- URL

            Obtains one when there is none. Prints nothing else, so it can be piped. The
            refresh token is never shown. Nothing is shown when the audit log cannot be
            written (audit.on_failure: block).
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws(CommandFailure) {
        try options.write(try await TokenGateway(options.gateway).ask(AdminAPI.operations.reveal, of: options.name))
    }
}

struct TokenDownscopeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "downscope",
        abstract: "Print a weaker token, for a browser widget or an app; audited first.",
        discussion: """
            Examples:
              authgateway token downscope box-service --scope base_preview item_download
              authgateway token downscope box-service --scope item_preview \\
                --resource https://api.box.com/2.0/files/1

            The credential's own token is exchanged for one that can do no more than the
            scopes say (RFC 8693; at Box, its downscope). Prints nothing else, so it can
            be piped. The token is not kept: it cannot be renewed, and it expires. Nothing
            is shown when the audit log cannot be written (audit.on_failure: block).

            Clients that should get such tokens without an operator: `vend` of the
            credential, and POST /tokens/NAME on the admin listener.
            """
    )

    // First, because a name behind the scopes would be taken for one of them.
    @OptionGroup var options: TokenOptions

    @Option(
        name: .customLong("scope"),
        parsing: .upToNextOption,
        help: ArgumentHelp("What the token may do; one or more.", valueName: "scope")
    )
    var scopes: [String]

    @Option(help: ArgumentHelp("The one file or folder that it is for, as the URL of its resource.", valueName: "url"))
    var resource: String?

    func run() async throws(CommandFailure) {
        let tokens = try TokenGateway(options.gateway)
        let wish = DownscopeOptions(scopes: scopes, resource: resource)
        try options.write(try await tokens.ask(AdminAPI.operations.downscope, of: options.name, with: wish))
    }
}

struct TokenRefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: AdminAPI.operations.refresh.summary,
        discussion: """
            Examples:
              authgateway token refresh box-service
              authgateway token refresh --all      those that can be renewed

            When the authorization server refuses, a token that has not expired is still
            used.
            """
    )

    @OptionGroup var selection: TokenSelection

    func run() async throws(CommandFailure) { try await selection.perform(AdminAPI.operations.refresh) }
}

struct TokenRevokeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: AdminAPI.operations.revoke.summary,
        discussion: """
            Examples:
              authgateway token revoke box-service
              authgateway token revoke box-service --lock   until `token unlock`
              authgateway token revoke --all                each credential with a token
              authgateway token revoke --all --lock         locks all of them first

            What comes after depends on the strategy: box_ccg gets a new token with the
            next request; a login or a new developer token is needed where a person
            brought the first. When the authorization server cannot be reached, the token
            is kept so that you can try again (duke_session forgets it anyway), and the
            exit code is 1. When nothing is stored, there is nothing to do: exit code 0.

            With --all there is a line for each credential, weaker tokens before those
            that they were made from. One failure does not stop the rest; the exit code is
            1 then.
            """
    )

    @Flag(name: .customLong("lock"), help: "Lock the credential first: what the Box SDK calls destroy.")
    var locks = false

    @OptionGroup var selection: TokenSelection

    func run() async throws(CommandFailure) { try await selection.perform(AdminAPI.operations.revoke, locking: locks) }
}

struct TokenClearCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear",
        abstract: AdminAPI.operations.clear.summary,
        discussion: """
            Examples:
              authgateway token clear box-service
              authgateway token clear --all

            The next request gets a new one. A token in the configuration is used again,
            so this also undoes its revocation or replacement.
            """
    )

    @OptionGroup var selection: TokenSelection

    func run() async throws(CommandFailure) { try await selection.perform(AdminAPI.operations.clear) }
}

struct TokenImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Give the gateway a token to use instead of the one it has.",
        discussion: """
            Examples:
              authgateway token import devbox        asks for it, and does not show it
              authgateway token import devbox < token.txt
              pass show box/oauth | authgateway token import box-user
              authgateway token import campus --file pair.json

            It is the access token in one line, or JSON as a token endpoint returns it:
              {"access_token": "…", "refresh_token": "…", "expires_in": 3600}
            session_token stands for refresh_token (Duke), and expires_at for
            expires_in. A token that can be renewed is renewed at once; when the
            authorization server refuses it, nothing is imported and the earlier one is
            kept.
            """
    )

    @Option(
        name: [.customShort("f"), .customLong("file")],
        help: ArgumentHelp("Where the token is; otherwise it comes from standard input.", valueName: "file")
    )
    var file: String?

    @OptionGroup var options: TokenOptions

    @Argument(help: .hidden)
    var others: [String] = []

    func validate() throws {
        guard others.isEmpty else {
            throw ValidationError(
                "A token is not given as an argument, where other users and the shell's history see it. Pipe it in, or "
                    + "use --file."
            )
        }
    }

    func run() async throws(CommandFailure) {
        let tokens = try TokenGateway(options.gateway)
        let bytes = try SecretInput.read(file, asking: "Token for \(options.name) (not shown; press Enter when done): ")
        let token: TokenToImport
        do throws(UnusableInput) {
            token = try TokenToImport(reading: bytes)
        } catch {
            throw CommandFailure(.failed, "invalid token: \(error.message)")
        }
        let report = try await tokens.ask(
            AdminAPI.operations.importToken,
            of: options.name,
            with: token,
            mayBegin: true
        )
        Console.write(try options.gateway.json.text(of: report, or: report.line))
    }
}

struct TokenLockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: AdminAPI.operations.lock.summary,
        discussion: """
            Examples:
              authgateway token lock box-service
              authgateway token lock openai

            An API key or a password of the configuration can be locked, too. All
            credentials with the same secret are locked with it.
            Requests that need it are answered with 503 (locked) until `token unlock`.
            The token itself is kept, and is still valid at the authorization server: see
            `token revoke --lock`.
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws(CommandFailure) { try await options.perform(AdminAPI.operations.lock, mayBegin: true) }
}

struct TokenUnlockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: AdminAPI.operations.unlock.summary,
        discussion: """
            Examples:
              authgateway token unlock box-service
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws(CommandFailure) { try await options.perform(AdminAPI.operations.unlock) }
}

/// Where operations on tokens are asked for: in the running gateway, or on its store when none runs.
struct TokenGateway: Sendable {
    let client: AdminClient
    /// The path of `gateway.yaml`; nil where `--admin` names the gateway.
    private let configuration: String?

    init(_ options: RunningGatewayOptions) throws(CommandFailure) {
        (client, configuration) = try options.gateway()
    }

    func ask<Answer>(
        _ operation: AdminAPI.Operation<Answer>,
        of name: String,
        mayBegin: Bool = false
    ) async throws(CommandFailure) -> Answer {
        try await ask(operation, of: name, with: NoInput(), mayBegin: mayBegin)
    }

    /// Asks the running gateway. If none runs, works on its store, unless the operation needs a running gateway.
    ///
    /// - Parameter mayBegin: Whether it makes sense before there was ever a gateway.
    func ask<Input, Answer>(
        _ operation: AdminAPI.InputOperation<Input, Answer>,
        of name: String,
        with input: Input,
        mayBegin: Bool = false
    ) async throws(CommandFailure) -> Answer {
        if operation.needsRunningGateway { return try await client.ask(operation, of: name, with: input) }
        return try await reach(mayBegin: mayBegin) { (gateway) throws(CommandFailure) in
            try await gateway.ask(operation, of: name, with: input)
        }
    }

    /// Over the admin listener, or in this process, which holds the files of a gateway that does
    /// not run.
    enum Backend: Sendable {
        case running(AdminClient)
        case offline(OfflineTokens)

        func ask<Answer>(
            _ operation: AdminAPI.Operation<Answer>,
            of name: String = ""
        ) async throws(CommandFailure) -> Answer {
            try await ask(operation, of: name, with: NoInput())
        }

        func ask<Input, Answer>(
            _ operation: AdminAPI.InputOperation<Input, Answer>,
            of name: String = "",
            with input: Input
        ) async throws(CommandFailure) -> Answer {
            switch self {
            case .running(let client): return try await client.ask(operation, of: name, with: input)
            case .offline(let tokens):
                return try AdminClient.value(of: await operation.perform(tokens.control, name, input))
            }
        }
    }

    /// Asks the running gateway; works on its store when none runs.
    ///
    /// - Parameter mayBegin: Whether it makes sense before there was ever a gateway.
    func reach<Value: Sendable>(
        mayBegin: Bool = false,
        _ work: (Backend) async throws(CommandFailure) -> Value
    ) async throws(CommandFailure) -> Value {
        try await client.reach { () async throws(CommandFailure) in
            try await work(.running(client))
        } orOffline: { (failure) async throws(CommandFailure) in
            guard let configuration else { throw failure }
            let offline = try await OfflineTokens(configuration: configuration, mayBegin: mayBegin, after: failure)
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

extension OperationReport {
    /// For people.
    var line: String { LogText.clean(message) + "\n" }
}
