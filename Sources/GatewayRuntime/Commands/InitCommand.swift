import ArgumentParser

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
            ./state, which git ignores. Without a terminal and without a service it also
            writes sandbox.yaml: local services for `authgateway run --sandbox`, which are
            absent without --sandbox. It never replaces a file.

            Then add services with `authgateway add NAME`, and run programs with built-in
            https:// URLs with `authgateway exec -- PROGRAM`.
            """
    )

    @Argument(help: "What you call: the name of a preset, or a URL.")
    var service: String?

    @OptionGroup var details: ServiceArguments

    @Option(help: "Port of the proxy listener. The status page uses the next port.")
    var port = 8080

    @OptionGroup var config: ConfigOption

    func validate() throws {
        guard (1...65_534).contains(port) else { throw ValidationError("--port is between 1 and 65534.") }
        if service == nil, !details.parameters.isEmpty || !details.secrets.isEmpty || details.upstream != nil {
            throw ValidationError("--with, --secret and --upstream need a service.")
        }
    }

    func run() throws {
        let operation = InitOperation(
            configuration: config.path,
            service: service,
            options: details.options,
            port: port
        )
        Console.write(try operation.run())
    }
}
