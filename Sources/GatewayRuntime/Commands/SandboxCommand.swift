import ArgumentParser

struct SandboxTokenOption: ParsableArguments {
    @Option(help: ArgumentHelp("How long the sandbox's tokens live.", valueName: "seconds"))
    var tokenLifetime = 3600

    func validate() throws {
        guard (1...86_400).contains(tokenLifetime) else {
            throw ValidationError("--token-lifetime is between 1 and 86400 seconds.")
        }
    }
}

struct SandboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sandbox",
        abstract: "Run local authorities and upstreams to try things against, until a signal.",
        discussion: """
            Examples:
              authgateway sandbox                            print SANDBOX_ variables, serve
              authgateway sandbox --port 9100 --token-lifetime 5
              curl http://127.0.0.1:9100/_sandbox/state      what it has seen
            """
    )

    @Option(help: "The first of five ports; 0 takes any that are free.")
    var port = 0

    @OptionGroup var tokens: SandboxTokenOption
    @OptionGroup var json: JSONFlag

    func validate() throws {
        guard (0...65_531).contains(port) else { throw ValidationError("--port is between 0 and 65531.") }
    }

    func run() async throws {
        try await SandboxOperation.run(firstPort: port, tokenLifetime: tokens.tokenLifetime, asJSON: json.isOn) {
            Console.write($0)
        }
    }
}
