import ArgumentParser
import GatewayRuntime

struct AuditTailCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tail",
        abstract: "Show the newest events, and with -f those that come.",
        discussion: """
            Examples:
              authgateway audit tail
              authgateway audit tail -f -n 50 --credential box-service
              authgateway audit tail -f --json | jq -r .event
            """
    )

    @Flag(name: [.short, .long], help: "Go on with new events, across restarts of the gateway.")
    var follow = false

    @Option(name: [.customShort("n"), .long], help: "How many to begin with.")
    var number = 20

    @OptionGroup var source: AuditSource
    @OptionGroup var output: AuditOutput
    @OptionGroup var rows: AuditFilterOptions

    func validate() throws {
        guard number >= 0 else { throw ValidationError("-n is not negative.") }
    }

    func run() async throws {
        let commands = try source.commands(output.style)
        try await commands.tail(number, filter: rows.filter, follow: follow) { Console.write($0) }
    }
}
