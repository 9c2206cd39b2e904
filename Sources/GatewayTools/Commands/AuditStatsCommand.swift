import ArgumentParser
import GatewayApp
import GatewayAudit
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP

struct AuditStatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Sum up events, calls, latencies and failures per credential, or requests by something else.",
        discussion: """
            Examples:
              authgateway audit stats
              authgateway audit stats --by client --since 1h
              authgateway audit stats --by route --credential box-service --since yesterday
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

    @Option(help: "Only this credential, its other subjects included.")
    var credential: String?

    @Option(help: "Only what this client caused.")
    var client: String?

    @OptionGroup var period: AuditPeriod

    @Option(
        help: ArgumentHelp(
            "How far back to look: 30m, 2h, 7d, the same as --since. Requests are counted by the minute.",
            valueName: "duration"
        )
    )
    var last: String?

    func validate() throws {
        guard last != nil, period.since != nil else { return }
        throw ValidationError("--last and --since both say where to begin: leave out one of them.")
    }

    func run() async throws(CommandFailure) { try await write { Console.write($0) } }

    func write(to emit: (String) -> Bool) async throws(CommandFailure) {
        let text: String?
        if let logs = try scope.shared() {
            let (filter, grouping) = (try filter(), try grouping())
            let upstreams = grouping == .upstream ? logs.settings.plan.names.upstreams : [:]
            text = try await logs.read { reader in
                try await logs.names(of: reader).require(client: client, credential: credential)
                guard let grouping else { return try self.text(of: await reader.stats(filter)) }
                logs.noteNewestUses(until: filter.until)
                return try self.text(of: await reader.usage(by: grouping, filter, upstreams: upstreams))
            }
        } else {
            let log = try scope.source.log()
            let (filter, grouping) = (try filter(), try grouping())
            await log.takeIn()
            try await log.names().require(client: client, credential: credential)
            // The log names no upstreams, and the same route had another one once: what it has now is what people know.
            let upstreams = grouping == .upstream ? try log.configured().plan.names.upstreams : [:]
            try await log.noteBeginning(filter)
            text = try await LocalAuditLog.reading {
                let reader = AuditReader(path: log.path)
                guard let grouping else { return try self.text(of: await reader.stats(filter)) }
                let usage = try await reader.usage(by: grouping, filter, upstreams: upstreams)
                try Self.requireCounts(usage, log.settings?.plan.audit.usage)
                return try self.text(of: usage)
            }
        }
        _ = emit(text ?? "")
    }

    /// Zeros would be taken for an answer.
    private static func requireCounts(_ usage: AuditUsage, _ setting: AuditPlan.Usage?) throws(CommandFailure) {
        guard usage.total.requests == 0, setting == AuditPlan.Usage.none else { return }
        throw CommandFailure(
            .failed,
            "audit.usage is none, so requests are not counted; leave out --by to sum up events"
        )
    }

    /// nil sums up each credential, with its latencies.
    private func grouping() throws(CommandFailure) -> AuditUsage.Grouping? {
        guard let by else { return nil }
        let known = AuditUsage.Grouping.allCases.map(\.rawValue)
        if let message = UnknownName.message(by, kind: "grouping", in: "audit stats --by", known: known) {
            throw CommandFailure(.usage, message)
        }
        return AuditUsage.Grouping(rawValue: by)
    }

    private func filter() throws(CommandFailure) -> AuditFilter {
        let period = try period.read()
        let since = try beginning() ?? period.since
        do throws(UnusablePeriod) {
            try TypedPeriod.requireOrder(since: since, until: period.until)
        } catch {
            throw CommandFailure(.usage, error.message)
        }
        return AuditFilter(credential: credential, client: client, since: since, until: period.until)
    }

    /// nil without `--last`.
    private func beginning() throws(CommandFailure) -> UnixTime? {
        guard let last else { return nil }
        guard let duration = ConfigUnits.duration(last), duration > .zero else {
            throw CommandFailure(.usage, "cannot read the duration \"\(LogText.clean(last))\"; write 30m, 2h or 7d")
        }
        return SystemClock().now().wall + (.zero - duration)
    }

    private func text(of stats: AuditStats) throws(CommandFailure) -> String {
        try json.text(of: stats, or: Self.table(of: stats))
    }

    private func text(of usage: AuditUsage) throws(CommandFailure) -> String {
        try json.text(of: usage, or: Self.table(of: usage))
    }

    private static func table(of usage: AuditUsage) -> String {
        let titles = [
            usage.by.rawValue.uppercased(), "REQUESTS", "ERRORS", "RECEIVED", "SENT", "TOKEN CALLS", "FAILED",
        ]
        var table = TextTable(titles, shortened: [0])
        func add(_ name: String, _ group: AuditUsage.Group) {
            table.add(
                name,
                String(group.requests),
                String(group.errors),
                ConfigUnits.rounded(bytes: group.bytesReceived),
                ConfigUnits.rounded(bytes: group.bytesSent),
                String(group.tokenCalls),
                String(group.failedTokenCalls)
            )
        }
        for group in usage.groups { add(group.name ?? "(none)", group) }
        add("total", usage.total)
        return table.text(.current)
    }

    private static func table(of stats: AuditStats) -> String {
        func latency(_ latency: AuditStats.Latency?) -> String { latency.map { "\($0.p50)ms/\($0.max)ms" } ?? "-" }
        let titles = ["CREDENTIAL", "EVENTS", "FAILED", "CALLS", "ACQUIRE P50/MAX", "RENEW P50/MAX", "LAST FAILURE"]
        let now = SystemClock().now().wall
        return TextTable.fitting(.current) { isShort in
            var table = TextTable(titles, shortened: [0])
            for credential in stats.credentials {
                let failure = credential.lastFailureAt.map { time in
                    let time = isShort ? AuditFormatter().shortTime(time, now: now) : time
                    return "\(time) \(credential.lastFailureCode ?? "")"
                }
                table.add(
                    credential.name,
                    String(credential.events),
                    String(credential.failures),
                    String(credential.calls),
                    latency(credential.acquire),
                    latency(credential.renew),
                    failure ?? "-"
                )
            }
            table.add("total", String(stats.events), String(stats.failures), String(stats.calls), "", "", "")
            return table
        }
    }
}
