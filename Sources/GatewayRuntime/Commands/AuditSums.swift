import GatewayAudit
import GatewayCore

/// What `audit stats` is asked for, and how the answer is shown.
struct AuditSums: Sendable {
    /// nil sums up each credential, with its latencies.
    let grouping: AuditUsage.Grouping?
    /// nil for all of the log.
    let since: UnixTime?

    /// - Parameters:
    ///   - grouping: `client`, `route`, `credential` or `upstream`.
    ///   - last: How long ago it begins, such as `1h`.
    init(by grouping: String?, last: String?) throws(CommandFailure) {
        since = try Self.beginning(last)
        self.grouping = try Self.known(grouping)
    }

    func text(of stats: AuditStats, _ style: AuditCommands.Style) throws(CommandFailure) -> String {
        style.asJSON ? try JSONText.pretty(stats) : Self.table(of: stats)
    }

    func text(of usage: AuditUsage, _ style: AuditCommands.Style) throws(CommandFailure) -> String {
        style.asJSON ? try JSONText.pretty(usage) : Self.table(of: usage)
    }

    private static func known(_ grouping: String?) throws(CommandFailure) -> AuditUsage.Grouping? {
        guard let grouping else { return nil }
        let known = AuditUsage.Grouping.allCases.map(\.rawValue)
        if let message = UnknownName.message(grouping, kind: "grouping", in: "audit stats --by", known: known) {
            throw CommandFailure(.usage, message)
        }
        return AuditUsage.Grouping(rawValue: grouping)
    }

    private static func beginning(_ last: String?) throws(CommandFailure) -> UnixTime? {
        guard let last else { return nil }
        guard let duration = ConfigUnits.duration(last), duration > .zero else {
            throw CommandFailure(.usage, "cannot read the duration \"\(LogText.clean(last))\"; write 30m, 2h or 7d")
        }
        return SystemClock().now().wall + (.zero - duration)
    }

    private static func table(of usage: AuditUsage) -> String {
        var table = TextTable(
            usage.by.rawValue.uppercased(),
            "REQUESTS",
            "ERRORS",
            "RECEIVED",
            "SENT",
            "TOKEN CALLS",
            "FAILED"
        )
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
        var table = TextTable(
            "CREDENTIAL",
            "EVENTS",
            "FAILED",
            "CALLS",
            "ACQUIRE P50/MAX",
            "RENEW P50/MAX",
            "LAST FAILURE"
        )
        for credential in stats.credentials {
            let failure = credential.lastFailureAt.map { "\($0) \(credential.lastFailureCode ?? "")" }
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
        return table.text(.current)
    }
}
