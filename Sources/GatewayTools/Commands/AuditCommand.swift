import ArgumentParser
import Foundation
import GatewayApp
import GatewayAudit
import GatewayEvents
import GatewayHTTP

struct AuditCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Read and verify the audit log, whether the gateway runs or not.",
        discussion: """
            Examples:
              authgateway audit tail -f
              authgateway audit query --credential box-service --since 2h --failed
              authgateway audit query --request k3f9a01-2s
              authgateway audit who box-service --since "yesterday 14:00" --until 15:00
              authgateway audit stats --by client --since 1h
              authgateway audit verify
              authgateway audit query --all --since 1h --failed

            With --all, query, export, who, stats and verify read the logs of all gateways
            that share a token database (tokens.store: postgres). tail has no --all.
            """,
        subcommands: [
            AuditTailCommand.self, AuditQueryCommand.self, AuditWhoCommand.self, AuditExportCommand.self,
            AuditStatsCommand.self, AuditVerifyCommand.self, AuditIndexCommand.self,
        ]
    )
}

/// Which log is meant.
struct AuditSource: ParsableArguments {
    @OptionGroup var config: ConfigOption

    @Option(help: ArgumentHelp("The database, instead of the configuration's.", valueName: "file"))
    var path: String?

    func log() throws(CommandFailure) -> LocalAuditLog {
        // With a database of its own no gateway is looked for.
        if let path { return LocalAuditLog(path: path, settings: nil, configuration: try config.path) }
        let configuration = try config.runningPath()
        let settings = try OperatorSettings(running: configuration)
        return LocalAuditLog(path: settings.plan.audit.path, settings: settings, configuration: configuration)
    }
}

/// Which logs are meant.
struct AuditScope: ParsableArguments {
    @OptionGroup var source: AuditSource

    @Flag(name: .customLong("all"), help: "The logs of all gateways that share the database of tokens.store: postgres.")
    var isAll = false

    func validate() throws {
        guard isAll, source.path != nil else { return }
        throw ValidationError("--path names one log, and --all reads those of all gateways: leave out one of them.")
    }

    func requireEvents(unless showsRequests: Bool) throws {
        guard isAll, showsRequests else { return }
        throw ValidationError("Requests stay with their gateway: leave out --all, or --requests.")
    }

    /// nil without `--all`.
    func shared() throws(CommandFailure) -> SharedAuditLogs? {
        isAll ? try SharedAuditLogs(configuration: source.config.runningPath()) : nil
    }
}

/// How rows are shown.
struct AuditOutput: ParsableArguments {
    @OptionGroup var json: JSONFlag

    @Flag(help: "Show local time instead of UTC.")
    var local = false

    @Flag(help: "Show each row in one line, however long. A pipe or a file always gets one.")
    var wide = false

    /// nil for JSON.
    var formatter: AuditFormatter? {
        guard !json.isOn else { return nil }
        return AuditFormatter(
            coloured: Console.usesColor,
            width: wide ? nil : TextStyle.current.width,
            offset: local ? LocalTime.offset : nil
        )
    }
}

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
            If requests are asked for and not recorded, the exit code is 1.
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

    func run() async throws(CommandFailure) { try await write { Console.write($0) } }

    /// Hands over line after line.
    func write(to emit: @escaping @Sendable (String) -> Bool) async throws(CommandFailure) {
        let lines = AuditLines(filter: rows, formatter: output.formatter, write: emit)
        if let shared = try scope.shared() { return try await shared.query(lines) }
        let log = try scope.source.log()
        if showsRequests { return try await log.requests(lines) }
        let found = try await log.query(lines)
        guard rows.request != nil, rows.event == nil else { return }
        try await log.requests(lines, explainsNone: !found)
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

    func run() async throws(CommandFailure) {
        // The rows themselves show the progress on a terminal.
        let (label, isHidden) = ("Exporting", Console.isOutputTerminal)
        try await ProgressLine.during(label, unless: isHidden) { (progress) async throws(CommandFailure) in
            progress?.step(label, unit: "rows")
            try await export { line in
                progress?.add(1)
                return Console.write(line)
            }
        }
    }

    private func export(to write: @escaping @Sendable (String) -> Bool) async throws(CommandFailure) {
        let lines = AuditLines(filter: rows, formatter: nil, write: write)
        if let shared = try scope.shared() { return try await shared.query(lines) }
        let log = try scope.source.log()
        if showsRequests { try await log.requests(lines) } else { try await log.query(lines) }
    }
}

struct AuditTailCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tail",
        abstract: "Show the newest events, and with -f new ones as they come.",
        discussion: """
            Examples:
              authgateway audit tail
              authgateway audit tail -f -n 50 --credential box-service
              authgateway audit tail -f --json | jq -r .event
              authgateway audit tail --wide

            On a terminal, a row longer than a line continues on the next line.
            Colors say what kind of event it is; NO_COLOR turns them off.
            """
    )

    @Flag(name: [.short, .long], help: "Keep showing new events, across restarts of the gateway.")
    var follow = false

    @Option(name: [.customShort("n"), .long], help: "How many events to begin with.")
    var number = 20

    @OptionGroup var source: AuditSource
    @OptionGroup var output: AuditOutput
    @OptionGroup var rows: AuditFilterOptions

    func validate() throws {
        guard number >= 0 else { throw ValidationError("-n must not be negative.") }
    }

    /// Writes line after line; with `follow` until the task is cancelled or the reader is gone.
    func run() async throws(CommandFailure) {
        let log = try source.log()
        let lines = AuditLines(filter: rows, formatter: output.formatter) { Console.write($0) }
        let reader = AuditReader(path: log.path)
        var filter = try await log.resolve(rows, mayBeMissing: follow)
        filter.limit = number
        var last: Int64?
        do throws(AuditError) {
            // Following begins with what is there, or with nothing when the log does not exist yet.
            if !follow || FileManager.default.fileExists(atPath: log.path) {
                last = try await reader.tail(last: 1).last?.id
                let newest = try await reader.query(filter)
                // A row that was committed between the two questions is not shown again.
                last = [last, newest.last?.id].compactMap(\.self).max()
                for row in newest where !lines.emit(row) { return }
                if newest.isEmpty, !follow, number > 0 { Console.writeError("no matching events\n") }
            }
            guard follow else { return }
            for try await row in reader.follow(after: last ?? 0) where Self.matches(row, filter) {
                guard lines.emit(row) else { return }
            }
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
    }

    private static func matches(_ row: AuditRow, _ filter: AuditFilter) -> Bool {
        if let credential = filter.credential {
            guard row.credential == credential || row.credential?.hasPrefix("\(credential)[") == true else {
                return false
            }
        }
        if let route = filter.route, row.route != route { return false }
        if let client = filter.client, row.client != client { return false }
        if let event = filter.event, row.event != event.rawValue { return false }
        if let request = filter.request, !row.concerns(request: request) { return false }
        if let at = UnixTime(rfc3339: row.at) {
            if let since = filter.since, at < since { return false }
            if let until = filter.until, at >= until { return false }
        }
        return !filter.failedOnly || row.failed
    }
}
