import ArgumentParser
import GatewayRuntime

struct AuditQueryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query",
        abstract: "Show the events that match, oldest first.",
        discussion: """
            Examples:
              authgateway audit query --since 24h --failed
              authgateway audit query --event renewed --credential box-service --json
            """
    )

    @OptionGroup var source: AuditSource
    @OptionGroup var output: AuditOutput
    @OptionGroup var rows: AuditFilterOptions

    func run() async throws {
        let commands = try source.commands(output.style)
        try await commands.query(rows.filter) { Console.write($0) }
    }
}

struct AuditExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write the whole log, or a part of it, as JSON Lines.",
        discussion: """
            Examples:
              authgateway audit export > events.jsonl
              authgateway audit export --since 30d | gzip > month.jsonl.gz
            """
    )

    @OptionGroup var source: AuditSource
    @OptionGroup var rows: AuditFilterOptions

    func run() async throws {
        let commands = try source.commands(AuditCommands.Style(asJSON: true))
        try await commands.query(rows.filter) { Console.write($0) }
    }
}
