import ArgumentParser
import GatewayApp
import GatewayAudit
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP

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

    @OptionGroup var period: AuditPeriod

    @Flag(help: "Only what failed.")
    var failed = false

    /// Why the log cannot say which requests there were, when none was found.
    ///
    /// - Parameter usage: nil when a database is named instead of a configuration.
    /// - Returns: nil where requests are recorded: none matches then.
    static func gapOfRequests(usage: AuditPlan.Usage?) -> String? {
        guard let usage, usage != .request else { return nil }
        let counts = usage == .none ? "" : "\nCounts of requests: authgateway audit stats --by client"
        return "audit.usage is \(usage.rawValue), so single requests are not recorded" + counts
    }

    /// What is said when no event was found.
    ///
    /// - Returns: nil where the filter asks for events of some kind, or for a time alone.
    func noteOnEvents(usage: AuditPlan.Usage?) -> String? {
        let filters = [("--credential", credential), ("--client", client), ("--route", route)]
            .compactMap { name, value in value.map { [name, $0] } }.flatMap(\.self)
        guard event == nil, request == nil, !filters.isEmpty else { return nil }
        let note = "no matching events; using a token is not an event"
        switch usage {
        case .request, nil:
            return "\(note)\nRequests: " + GatewayCommand.line(["audit", "query", "--requests"] + filters)
        case .minute:
            return """
                \(note), and audit.usage: minute only counts requests
                Counts of requests: authgateway audit stats --by client
                """
        case .some(.none):
            return "\(note), and audit.usage: none counts no requests"
        }
    }

    /// What was typed, as the log has it.
    ///
    /// - Throws: ``ExitStatus/usage`` for a name that nothing has, and for a time that cannot be read.
    func resolved(_ names: KnownNames) async throws(CommandFailure) -> AuditFilter {
        let event = try Self.event(event)
        try await names.require(route: route, client: client, credential: credential)
        let period = try period.read()
        return AuditFilter(
            credential: credential,
            route: route,
            client: client,
            event: event,
            request: request,
            since: period.since,
            until: period.until,
            failedOnly: failed,
            limit: nil
        )
    }

    private static func event(_ name: String?) throws(CommandFailure) -> TokenEvent.Name? {
        guard let name else { return nil }
        let known = TokenEvent.Name.allCases.map(\.rawValue)
        if let message = UnknownName.message(name, kind: "event", in: "this version", known: known) {
            throw CommandFailure(.usage, message)
        }
        return TokenEvent.Name(rawValue: name)
    }
}

/// From when to when.
struct AuditPeriod: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            From this time on: how long ago (30m, 2h, 7d), 14:00, yesterday, "yesterday 14:00", "2026-03-01 14:00" \
            (local time), or 2026-03-01T09:30:00Z.
            """,
            valueName: "time"
        )
    )
    var since: String?

    @Option(help: ArgumentHelp("Before this time. 15:00 is the first one after --since.", valueName: "time"))
    var until: String?

    /// - Throws: ``ExitStatus/usage`` for a time that cannot be read, and for an end before the beginning.
    func read() throws(CommandFailure) -> TypedPeriod {
        do throws(UnusablePeriod) {
            return try TypedPeriod(since: since, until: until, now: SystemClock().now().wall, LocalTime.offset)
        } catch {
            throw CommandFailure(.usage, error.message)
        }
    }
}

/// Names in filters: those of the configuration, and those that the log has. What was removed from the configuration is still in
/// the log.
struct KnownNames: Sendable {
    /// nil when a database is named instead of a configuration.
    let configured: ConfiguredNames?
    let logged: @Sendable (AuditUsage.Grouping) async throws(CommandFailure) -> [String]

    func require(
        route: String? = nil,
        client: String? = nil,
        credential: String? = nil
    ) async throws(CommandFailure) {
        let names = configured ?? ConfiguredNames()
        try await require(route, .route, names.routes)
        try await require(client, .client, names.clients)
        try await require(credential, .credential, names.credentials)
    }

    private func require(
        _ name: String?,
        _ kind: AuditUsage.Grouping,
        _ known: [String]
    ) async throws(CommandFailure) {
        guard let name else { return }
        // A subject is no name of the configuration: there may be no event of it so far.
        let base = kind == .credential ? UnknownName.base(ofCredential: name) : name
        if known.contains(name) || known.contains(base) { return }
        let logged = try await logged(kind)
        if logged.contains(where: { kind == .credential && UnknownName.base(ofCredential: $0) == base }) { return }
        let place = configured == nil ? "the log" : "the configuration or the log"
        let message = UnknownName.message(name, kind: kind.rawValue, in: place, known: known + logged)
        if let message { throw CommandFailure(.usage, message) }
    }
}
