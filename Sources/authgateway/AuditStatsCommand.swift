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
              authgateway audit stats --all --last 1h

            With --by: requests that carried a credential, those answered with 400
            or more or not at all, their bytes, and calls for tokens. The log has
            routes, not upstreams: a route's upstream is the one that the
            configuration names now.
            """
    )

    @OptionGroup var scope: AuditScope
    @OptionGroup var json: JSONFlag

    @Option(help: ArgumentHelp("One of client, route, credential, upstream.", valueName: "what"))
    var by: String?

    @Option(
        help: ArgumentHelp("Only what is not older: 30m, 2h, 7d. Requests count by the minute.", valueName: "duration")
    )
    var last: String?

    func run() async throws {
        let style = AuditCommands.Style(asJSON: json.isOn)
        if let shared = try scope.shared(style) {
            Console.write(try await shared.stats(by: by, last: last))
            return
        }
        let commands = try scope.source.commands(style)
        Console.write(try await commands.stats(by: by, last: last))
    }
}
