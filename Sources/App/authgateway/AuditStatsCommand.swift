import ArgumentParser
import GatewayRuntime

struct AuditStatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Sum up events, calls, latencies and failures per credential.",
        discussion: """
            Examples:
              authgateway audit stats
              authgateway audit stats --json
            """
    )

    @OptionGroup var source: AuditSource
    @OptionGroup var json: JSONFlag

    func run() async throws {
        Console.write(try await source.commands(AuditCommands.Style(asJSON: json.isOn)).stats())
    }
}
