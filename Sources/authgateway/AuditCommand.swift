import ArgumentParser
import GatewayRuntime

struct AuditCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Read and verify the audit log, whether the gateway runs or not.",
        discussion: """
            Examples:
              authgateway audit tail -f
              authgateway audit query --credential box-service --since 2h --failed
              authgateway audit query --request k3f9a01-2s
              authgateway audit stats --by client --last 1h
              authgateway audit verify
              authgateway audit query --all --since 1h --failed

            With --all, query, export, stats and verify read the logs of all gateways that
            share a token database (tokens.store: postgres). tail has no --all.
            """,
        subcommands: [
            AuditTailCommand.self, AuditQueryCommand.self, AuditExportCommand.self, AuditStatsCommand.self,
            AuditVerifyCommand.self,
        ]
    )
}

/// Which log is meant.
struct AuditSource: ParsableArguments {
    @OptionGroup var config: ConfigOption

    @Option(help: ArgumentHelp("The database, instead of the configuration's.", valueName: "file"))
    var path: String?

    func commands(_ style: AuditCommands.Style) throws -> AuditCommands {
        // With a database of its own no gateway is looked for.
        let configuration = path == nil ? try config.runningPath() : config.path()
        return try AuditCommands(configuration: configuration, path: path, style: style)
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
    func shared(_ style: AuditCommands.Style) throws -> SharedAuditCommands? {
        isAll ? try SharedAuditCommands(configuration: source.config.runningPath(), style: style) : nil
    }
}

/// How rows are shown.
struct AuditOutput: ParsableArguments {
    @OptionGroup var json: JSONFlag

    @Flag(help: "Show local time instead of UTC.")
    var local = false

    var style: AuditCommands.Style {
        AuditCommands.Style(asJSON: json.isOn, usesLocalTime: local, usesColor: Console.usesColor)
    }
}

/// Which rows are meant.
struct AuditFilterOptions: ParsableArguments {
    @Option(help: "Only this credential, its other subjects included.")
    var credential: String?

    @Option(help: "Only events that a request on this route caused.")
    var route: String?

    @Option(help: "Only events that this client caused.")
    var client: String?

    @Option(help: "Only this event, for example renewed.")
    var event: String?

    @Option(
        help: ArgumentHelp(
            "Only this request: the id of its answer (Gateway-Request-Id) or the client's.",
            valueName: "id"
        )
    )
    var request: String?

    @Option(
        help: ArgumentHelp("From this time on: 2026-03-01T09:30:00Z, or how long ago: 30m, 2h, 7d.", valueName: "time")
    )
    var since: String?

    @Option(help: ArgumentHelp("Before this time.", valueName: "time"))
    var until: String?

    @Flag(help: "Only what failed.")
    var failed = false

    var filter: AuditCommands.Filter {
        var filter = AuditCommands.Filter()
        filter.credential = credential
        filter.route = route
        filter.client = client
        filter.event = event
        filter.request = request
        filter.since = since
        filter.until = until
        filter.failedOnly = failed
        return filter
    }
}
