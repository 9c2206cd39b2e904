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
              authgateway audit query --request k3f9a01-2s
              authgateway audit query --requests --since 10m --failed

            With audit.usage: request, --requests shows the requests instead of the events.
            --request ID shows the events of a request, and then its requests.
            """
    )

    @OptionGroup var source: AuditSource
    @OptionGroup var output: AuditOutput
    @OptionGroup var rows: AuditFilterOptions

    @Flag(name: .customLong("requests"), help: "Requests (audit.usage: request) instead of events.")
    var showsRequests = false

    func run() async throws {
        let commands = try source.commands(output.style)
        if showsRequests {
            try await commands.requests(rows.filter) { Console.write($0) }
        } else {
            try await commands.query(rows.filter) { Console.write($0) }
            guard rows.request != nil, rows.event == nil else { return }
            try await commands.requests(rows.filter) { Console.write($0) }
        }
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
              authgateway audit export --requests > requests.jsonl
            """
    )

    @OptionGroup var source: AuditSource
    @OptionGroup var rows: AuditFilterOptions

    @Flag(name: .customLong("requests"), help: "Requests (audit.usage: request) instead of events.")
    var showsRequests = false

    func run() async throws {
        let commands = try source.commands(AuditCommands.Style(asJSON: true))
        if showsRequests {
            try await commands.requests(rows.filter) { Console.write($0) }
        } else {
            try await commands.query(rows.filter) { Console.write($0) }
        }
    }
}
