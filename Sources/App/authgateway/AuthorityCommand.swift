import ArgumentParser
import GatewayRuntime

struct AuthorityCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ca",
        abstract: "Show the certificates of the local authority.",
        subcommands: [AuthorityShowCommand.self]
    )
}

struct AuthorityShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Print the certificates that clients have to trust.",
        discussion: """
            Examples:
              authgateway ca show > ca.pem
              curl --cacert "$(authgateway ca show --path)" \\
                -x http://127.0.0.1:8080 https://api.example.com/

            A gateway with intercept: true (listeners.proxy) makes the authority at its
            start. It can sign for the hosts of its routes alone.

            Exit codes: 0 shown, 1 there is none, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption
    @Flag(help: "Print where the file is instead.")
    var path = false

    func run() async throws {
        Console.write(try AuthorityCommands(configuration: config.runningPath()).show(path: path))
    }
}
