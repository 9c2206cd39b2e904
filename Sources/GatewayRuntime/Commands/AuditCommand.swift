import ArgumentParser

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

struct AuditVerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Recompute the chain of the log: finds every edit, deletion, reordering and cut tail.",
        discussion: """
            Examples:
              authgateway audit verify
              authgateway audit verify --path /backup/audit.sqlite
              authgateway audit verify --head 120:3f1c…
              authgateway audit verify --all

            Needs the installation key that the configuration names, or --key.
            Compares the log with its head file, and with audit.anchor where
            that can be read. A copy, such as sqlite3's .backup makes, may end
            before the log does. With its own head beside it
            (audit.sqlite.head) a cut end shows.
            With --all, verifies the chain of each gateway as the shared database
            has it, and shows a line for each.
            Exit code 5 when the log is broken, 1 when its anchor cannot be read.
            """
    )

    @OptionGroup var scope: AuditScope
    @OptionGroup var json: JSONFlag

    @Option(help: ArgumentHelp("A row that the log has to hold, as the anchor got it.", valueName: "id:hash"))
    var head: String?

    @Option(help: ArgumentHelp("The installation key, instead of the configuration's.", valueName: "file"))
    var key: String?

    func validate() throws {
        guard scope.isAll, head != nil else { return }
        throw ValidationError("--head names a row of one log: leave out --all, or --head.")
    }

    func run() async throws {
        let style = AuditCommands.Style(asJSON: json.isOn)
        if let shared = try scope.shared(style) {
            return try await shared.verify(key: key) { Console.write($0) }
        }
        let commands = try scope.source.commands(style)
        Console.write(try await commands.verify(AuditCommands.Proof(head: head, key: key)))
    }
}
