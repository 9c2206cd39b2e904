import ArgumentParser

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

    func commands() throws -> TokenCommands { try gateway.tokenCommands() }
}

/// One token or all of them, for the commands that need no more than that.
struct TokenSelection: ParsableArguments {
    @Argument(help: "The credential, as `token list` names it.")
    var name: String?

    @Flag(name: .customLong("all"), help: "Every credential that has a token; asks nothing.")
    var isAll = false

    @OptionGroup var gateway: RunningGatewayOptions

    func validate() throws {
        if name != nil, isAll { throw ValidationError("A name and --all exclude each other: which one is meant?") }
        if name == nil, !isAll { throw ValidationError("Name a credential, or say --all.") }
    }

    /// - Parameter locks: Lock first.
    func perform(_ verb: TokenCommands.Verb, locking locks: Bool = false) async throws {
        let commands = try gateway.tokenCommands()
        if let name {
            Console.write(locks ? try await commands.destroy(name) : try await commands.perform(verb, on: name))
            return
        }
        let (output, failed) = try await commands.performOnAll(verb, locking: locks)
        Console.write(output)
        try CommandFailure.require(noneOf: failed)
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

    func run() async throws {
        Console.write(try await gateway.tokenCommands().list())
    }
}

struct TokenShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show what there is to know about one token; never the token itself.",
        discussion: """
            Examples:
              authgateway token show box-service
              authgateway token show 'box-service[user:42]' --json
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().show(options.name))
    }
}

struct TokenGetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print the access token. Recorded in the audit log before it is shown.",
        discussion: """
            Examples:
              authgateway token get box-service
              curl -H "Authorization: Bearer $(authgateway token get box-service)" URL

            Obtains one when there is none. Prints nothing else, so that it can stand in
            a pipe. The token that renews is never shown. Nothing is shown when the audit
            log cannot be written (audit.on_failure: block).
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().get(options.name))
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
            scopes say (RFC 8693; at Box, its downscope). Prints nothing else, so that it
            can stand in a pipe. The token is not kept: it cannot be renewed, and ends by
            itself. Nothing is shown when the audit log cannot be written
            (audit.on_failure: block).

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

    func run() async throws {
        Console.write(try await options.commands().downscope(options.name, scopes: scopes, resource: resource))
    }
}

struct TokenRefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Renew a token now, whatever its age.",
        discussion: """
            Examples:
              authgateway token refresh box-service
              authgateway token refresh --all      those that can be renewed

            When the authority refuses, a token that has not expired is still used.
            """
    )

    @OptionGroup var selection: TokenSelection

    func run() async throws { try await selection.perform(.refresh) }
}

struct TokenRevokeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Have the authority forget a token, then forget it here.",
        discussion: """
            Examples:
              authgateway token revoke box-service
              authgateway token revoke box-service --lock   until `token unlock`
              authgateway token revoke --all                each credential with a token
              authgateway token revoke --all --lock         locks all of them first

            What comes after depends on the strategy: box_ccg gets a new token with the
            next request; a login or a new developer token is needed where a person
            brought the first. When the authority cannot be reached, the token is kept
            so that you can try again (duke_session forgets it all the same), and the
            exit code is 1. Nothing stored: nothing to do, exit code 0.

            With --all there is a line for each credential, weaker tokens before those
            that they were made from. One failure does not stop the rest; the exit code is
            1 then.
            """
    )

    @Flag(name: .customLong("lock"), help: "Lock the credential first: what the Box SDK calls destroy.")
    var locks = false

    @OptionGroup var selection: TokenSelection

    func run() async throws { try await selection.perform(.revoke, locking: locks) }
}

struct TokenClearCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear",
        abstract: "Forget a token here and in the store; the authority is not told.",
        discussion: """
            Examples:
              authgateway token clear box-service
              authgateway token clear --all

            The next request gets a new one. Tokens that stand in the configuration
            count again, so that this is also the way back after they were revoked or
            replaced.
            """
    )

    @OptionGroup var selection: TokenSelection

    func run() async throws { try await selection.perform(.clear) }
}

struct TokenImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Give the gateway a token in the place of the one it has.",
        discussion: """
            Examples:
              authgateway token import devbox        asks for it, and does not show it
              authgateway token import devbox < token.txt
              pass show box/oauth | authgateway token import box-user
              authgateway token import campus --file pair.json

            It is the access token in one line, or JSON as an authority answers it:
              {"access_token": "…", "refresh_token": "…", "expires_in": 3600}
            session_token stands for refresh_token (Duke), and expires_at for
            expires_in. A token that can be renewed is renewed at once; when the
            authority refuses it, nothing is imported and the earlier one is kept.
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

    func run() async throws {
        let commands = try options.commands()
        let bytes = try SecretInput.read(file, asking: "Token for \(options.name) (not shown; Enter ends it): ")
        Console.write(try await commands.import(bytes, for: options.name))
    }
}

struct TokenLockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Stop using a credential: it is neither injected nor renewed, over restarts too.",
        discussion: """
            Examples:
              authgateway token lock box-service
              authgateway token lock openai

            An API key or a password of the configuration can be locked, too. All
            credentials with the same secret are locked with it.
            Requests that need it are answered with 503 (locked) until `token unlock`.
            The token itself is kept, and is still good at the authority: see
            `token revoke --lock`.
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().perform(.lock, on: options.name))
    }
}

struct TokenUnlockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: "Use a locked credential again.",
        discussion: """
            Examples:
              authgateway token unlock box-service
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws {
        Console.write(try await options.commands().perform(.unlock, on: options.name))
    }
}
