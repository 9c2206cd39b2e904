import ArgumentParser

/// Which client a program is, and where its token is.
struct ClientOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Which client of access.clients the program is. Its token is read from the configuration, where that holds it.",
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

    var source: ClientTokenSource {
        ClientTokenSource(client: client, file: clientTokenFile, variable: clientTokenEnv)
    }
}

struct ExecCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exec",
        abstract: "Run a program that uses the gateway as its proxy.",
        discussion: """
            Examples:
              authgateway exec -- curl https://api.example.com/v1/me
              authgateway exec --client laptop -- git clone https://git.example.com/x.git
              authgateway exec --ephemeral -- python3 program.py

            The program gets the environment of `authgateway env`: the proxy, and files
            with the certificates that the machine trusts and those of the local
            authority. It needs a listener on loopback with intercept: true.

            Requests to hosts without a route pass where the listener has
            connect: {unrouted: tunnel}. Otherwise they are refused.

            With --ephemeral it has a gateway of its own, with its own port and state
            directory. They are gone afterwards, and so is the audit log. Tokens are
            fetched anew: a credential that needs a login has none there.

            The exit code is that of the program; 127 when it is not found, 126 when it
            cannot be run. With --ephemeral, signals are passed on, and 128+N says that
            signal N has ended it. Before the program runs: 1 failed, 2 usage,
            3 configuration, 4 no gateway answers.
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var client: ClientOptions

    @Flag(help: "Run a gateway of its own for as long as the program runs.")
    var ephemeral = false

    @Argument(
        parsing: .postTerminator,
        help: ArgumentHelp("The program and its arguments, behind --.", valueName: "command")
    )
    var command: [String] = []

    func validate() throws {
        guard !command.isEmpty else {
            throw ValidationError(
                "Name the program behind --, as in: authgateway exec -- curl https://api.example.com/"
            )
        }
        if ephemeral, client.clientTokenFile != nil || client.clientTokenEnv != nil {
            throw ValidationError(
                "With --ephemeral the program gets a token that is made for it; name the client alone."
            )
        }
    }

    func run() async throws {
        let operation = ExecOperation(
            configuration: ephemeral ? config.path : try config.runningPath(),
            command: command,
            source: client.source,
            isEphemeral: ephemeral
        )
        Console.exit(code: try await operation.run())
    }
}

struct EnvCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "env",
        abstract: "Print the variables with which programs use the gateway.",
        discussion: """
            Examples:
              eval "$(authgateway env)"
              authgateway env --format dotenv > .env
              authgateway env --format docker > gateway.env

            They name the proxy, and a file with the certificates to trust: those of the
            machine, of the local authority, and those that variables such as
            SSL_CERT_FILE name now. Needs a running gateway with a listener on loopback
            that has intercept: true.

            With --client the token is part of the proxy's URL. Keep what is printed as
            you keep a token.
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var client: ClientOptions

    @Option(help: "sh, dotenv, docker or json.")
    var format = "sh"

    func run() async throws {
        let operation = try EnvOperation(
            configuration: config.runningPath(),
            source: client.source,
            format: format
        )
        Console.write(try await operation.run())
    }
}
