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
              authgateway audit query --all --credential box-service --since 1h

            With audit.usage: request, --requests shows the requests instead of the events.
            --request ID shows the events of a request, and then its requests.
            With --all each line begins with the host of its gateway; in JSON, gateway
            and chain name it. Requests stay with their gateway.
            """
    )

    @OptionGroup var scope: AuditScope
    @OptionGroup var output: AuditOutput
    @OptionGroup var rows: AuditFilterOptions

    @Flag(name: .customLong("requests"), help: "Requests (audit.usage: request) instead of events.")
    var showsRequests = false

    func validate() throws { try scope.requireEvents(unless: showsRequests) }

    func run() async throws {
        if let shared = try scope.shared(output.style) {
            return try await shared.query(rows.filter) { Console.write($0) }
        }
        let commands = try scope.source.commands(output.style)
        if showsRequests {
            try await commands.requests(rows.filter) { Console.write($0) }
        } else {
            let found = try await commands.query(rows.filter) { Console.write($0) }
            guard rows.request != nil, rows.event == nil else { return }
            try await commands.requests(rows.filter, explainsNone: !found) { Console.write($0) }
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
              authgateway audit export --all --since 24h > all.jsonl
            """
    )

    @OptionGroup var scope: AuditScope
    @OptionGroup var rows: AuditFilterOptions

    @Flag(name: .customLong("requests"), help: "Requests (audit.usage: request) instead of events.")
    var showsRequests = false

    func validate() throws { try scope.requireEvents(unless: showsRequests) }

    func run() async throws {
        let style = AuditCommands.Style(asJSON: true)
        if let shared = try scope.shared(style) {
            return try await shared.query(rows.filter) { Console.write($0) }
        }
        let commands = try scope.source.commands(style)
        if showsRequests {
            try await commands.requests(rows.filter) { Console.write($0) }
        } else {
            try await commands.query(rows.filter) { Console.write($0) }
        }
    }
}
