import ArgumentParser

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Serve the routes of the configuration until a signal.",
        discussion: """
            Examples:
              authgateway run
              authgateway run --sandbox --token-lifetime 30
              authgateway run --config /etc/authgateway/gateway.yaml --log-level debug

            With --sandbox and without a gateway.yaml here, one is written first, with a
            sandbox.yaml that it includes only then.

            A change of the configuration is picked up by itself; SIGHUP and `authgateway
            reload` ask for it at once. SIGTERM and SIGINT stop it gracefully: requests
            under way are finished within limits.drain. A second signal ends it at once.

            On a terminal it also stops when the terminal is closed; with nohup it goes
            on. Logs go to standard error, as text on a terminal and as JSON otherwise.
            """
    )

    @OptionGroup var config: ConfigOption

    @OptionGroup var strictModes: StrictModesFlag

    @Flag(
        help: "Also start local authorities and upstreams; the configuration reaches them through SANDBOX_ variables."
    )
    var sandbox = false

    @OptionGroup var tokens: SandboxTokenOption

    @Option(help: "trace, debug, info, notice, warning, error or critical.")
    var logLevel = "info"

    @Flag(help: "Log one line per finished request.")
    var accessLog = false

    func run() async throws {
        let operation = try RunOperation(
            configuration: config.path,
            strictModes: strictModes.isOn,
            logLevel: logLevel,
            logsAccess: accessLog
        )
        let emit: @Sendable (String) -> Void = { Console.write($0) }
        if sandbox {
            let isNamed = config.isNamed
            try await operation.runWithSandbox(tokenLifetime: tokens.tokenLifetime, writesStarter: !isNamed, emit: emit)
        } else {
            try await operation.run(emit: emit)
        }
    }
}
