import ArgumentParser
import GatewayRuntime

struct AuditStatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Sum up events, calls, latencies and failures per credential, or requests by something else.",
        discussion: """
            Examples:
              authgateway audit stats
              authgateway audit stats --by client --last 1h
              authgateway audit stats --by upstream --last 7d --json

            With --by: requests that carried a credential, those answered with 400
            or more or not at all, their bytes, and calls for tokens. The log has
            routes, not upstreams: a route's upstream is the one that the
            configuration names now.
            """
    )

    @OptionGroup var source: AuditSource
    @OptionGroup var json: JSONFlag

    @Option(help: ArgumentHelp("One of client, route, credential, upstream.", valueName: "what"))
    var by: String?

    @Option(
        help: ArgumentHelp("Only what is not older: 30m, 2h, 7d. Requests count by the minute.", valueName: "duration")
    )
    var last: String?

    func run() async throws {
        let commands = try source.commands(AuditCommands.Style(asJSON: json.isOn))
        Console.write(try await commands.stats(by: by, last: last))
    }
}
