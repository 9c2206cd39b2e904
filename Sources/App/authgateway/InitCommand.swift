import ArgumentParser
import GatewayRuntime

struct InitCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Write the first configuration of a folder.",
        discussion: """
            Examples:
              authgateway init
              authgateway init github
              authgateway init openai --secret env:MY_OPENAI_KEY
              authgateway init https://api.example.com --secret file:example.token

            On a terminal it asks what you call, and for the secret: paste it, or name an
            environment variable. A pasted secret is kept in a file with mode 0600 below
            ./state. Without a terminal and without a service it writes a configuration
            for `authgateway run --sandbox`. It never replaces a file.
            """
    )

    @Argument(help: "What you call: the name of a preset, or a URL.")
    var service: String?

    @Argument(help: "The name of the credential and the route; that of the preset if left out.")
    var name: String?

    @Option(name: .customLong("with"), help: ArgumentHelp("A parameter of the preset.", valueName: "name=value"))
    var parameters: [String] = []

    @Option(
        name: .customLong("secret"),
        help: ArgumentHelp(
            "Where a secret comes from: [VARIABLE=]env:NAME, file:PATH, systemd:NAME or -.",
            valueName: "source"
        )
    )
    var secrets: [String] = []

    @Option(
        help: ArgumentHelp(
            "A server of your own in the place of the service's, such as a test server.",
            valueName: "url"
        )
    )
    var upstream: String?

    @Option(help: "Port of the proxy listener. The status page uses the next port.")
    var port = 8080

    @OptionGroup var config: ConfigOption

    func validate() throws {
        guard (1...65_534).contains(port) else { throw ValidationError("--port is between 1 and 65534.") }
        if service == nil, !parameters.isEmpty || !secrets.isEmpty || upstream != nil {
            throw ValidationError("--with, --secret and --upstream need a service.")
        }
    }

    func run() throws {
        let operation = InitOperation(
            configuration: config.path(),
            service: service,
            name: name,
            parameters: parameters,
            secrets: secrets,
            upstream: upstream,
            port: port
        )
        Console.write(try operation.run())
    }
}
