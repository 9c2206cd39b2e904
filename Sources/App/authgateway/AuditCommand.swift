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
              authgateway audit stats
              authgateway audit verify
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
