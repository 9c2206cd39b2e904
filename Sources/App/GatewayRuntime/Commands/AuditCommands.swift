import Foundation
import GatewayAudit
import GatewayCore
import GatewayTokenStores

/// What `audit …` does: reads the log, whether the gateway runs or not.
package struct AuditCommands: Sendable {
    package struct Filter: Sendable {
        package var credential: String?
        package var route: String?
        package var client: String?
        package var event: String?
        /// The gateway's id of a request, or the client's.
        package var request: String?
        /// RFC 3339, or a duration back from now such as `2h`.
        package var since: String?
        package var until: String?
        package var failedOnly = false
        package var limit: Int?

        package init() {}
    }

    package struct Style: Sendable {
        package var asJSON: Bool
        package var usesLocalTime: Bool
        package var usesColor: Bool

        package init(asJSON: Bool, usesLocalTime: Bool = false, usesColor: Bool = false) {
            self.asJSON = asJSON
            self.usesLocalTime = usesLocalTime
            self.usesColor = usesColor
        }
    }

    private let settings: OperatorSettings?
    private let configuration: String
    private let path: String
    private let style: Style

    /// - Parameter path: The database; nil takes it from the configuration.
    package init(configuration: String, path: String?, style: Style) throws(CommandFailure) {
        self.configuration = configuration
        self.style = style
        if let path {
            self.path = path
            settings = nil
        } else {
            let settings = try OperatorSettings(configuration: configuration)
            self.path = settings.plan.audit.path
            self.settings = settings
        }
    }

    /// Hands over line after line; with `follow` until the task is cancelled or the reader is gone.
    package func tail(
        _ count: Int,
        filter: Filter,
        follow: Bool,
        emit: @escaping @Sendable (String) -> Bool
    ) async throws(CommandFailure) {
        let reader = AuditReader(path: path)
        var filter = try resolve(filter)
        filter.limit = count
        var last: Int64?
        do throws(AuditError) {
            // Following begins with what is there, or with nothing when the log does not exist yet.
            if !follow || FileManager.default.fileExists(atPath: path) {
                last = try await reader.tail(last: 1).last?.id
                let rows = try await reader.query(filter)
                // A row that was committed between the two questions is not shown again.
                last = [last, rows.last?.id].compactMap(\.self).max()
                for row in rows where !emit(line(row)) { return }
            }
            guard follow else { return }
            for try await row in reader.follow(after: last ?? 0) where matches(row, filter) && !emit(line(row)) {
                return
            }
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
    }

    package func query(_ filter: Filter, emit: @escaping @Sendable (String) -> Bool) async throws(CommandFailure) {
        let filter = try resolve(filter)
        try await reading {
            try await AuditReader(path: path).forEach(filter) { row in
                guard emit(line(row)) else { throw CommandFailure(.ok) }
            }
        }
    }

    /// The requests of `audit.usage: request`.
    package func requests(_ filter: Filter, emit: @escaping @Sendable (String) -> Bool) async throws(CommandFailure) {
        guard filter.event == nil else {
            throw CommandFailure(.usage, "requests are no events: leave out --event, or --requests")
        }
        let filter = try resolve(filter)
        try await reading {
            try await AuditReader(path: path).forEachRequest(filter) { row in
                guard emit(line(row)) else { throw CommandFailure(.ok) }
            }
        }
    }

    private func reading(_ body: () async throws -> Void) async throws(CommandFailure) {
        do {
            try await body()
        } catch let failure as CommandFailure {
            // The reader is gone.
            guard failure.status == .ok else { throw failure }
        } catch {
            throw CommandFailure(.failed, (error as? AuditError)?.reason ?? "the audit log cannot be read")
        }
    }

    package func stats() async throws(CommandFailure) -> String {
        let stats: AuditStats
        do {
            stats = try await AuditReader(path: path).stats()
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
        return style.asJSON ? try JSONText.pretty(stats) : Self.table(of: stats)
    }

    /// - Throws: ``ExitStatus/verification`` when the log was tampered with.
    package func verify() async throws(CommandFailure) -> String {
        let settings = if let settings { settings } else { try OperatorSettings(configuration: configuration) }
        let keys = AuditKeys(try settings.installationKey())
        let result: AuditVerification
        do {
            result = try await AuditReader(path: path).verify(keys: keys)
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
        let text = style.asJSON ? try JSONText.pretty(result) : Self.words(for: result)
        guard result.isIntact else {
            if style.asJSON { Console.write(text) }
            let status: ExitStatus = result.breach?.fault == .foreignKey ? .failed : .verification
            throw CommandFailure(status, style.asJSON ? "" : text)
        }
        return text
    }

    private func line(_ row: AuditRow) -> String {
        style.asJSON ? row.json + "\n" : formatter.line(row) + "\n"
    }

    private func line(_ row: AuditRequestRow) -> String {
        style.asJSON ? row.json + "\n" : formatter.line(row) + "\n"
    }

    private var formatter: AuditFormatter {
        AuditFormatter(coloured: style.usesColor, offset: style.usesLocalTime ? LocalTime.offset : nil)
    }

    private func resolve(_ filter: Filter) throws(CommandFailure) -> AuditFilter {
        var event: TokenEvent.Name?
        if let name = filter.event {
            guard let known = TokenEvent.Name(rawValue: name) else {
                let names = TokenEvent.Name.allCases.map(\.rawValue).joined(separator: " ")
                throw CommandFailure(.usage, "there is no event \"\(LogText.clean(name))\"; events: \(names)")
            }
            event = known
        }
        return AuditFilter(
            credential: filter.credential,
            route: filter.route,
            client: filter.client,
            event: event,
            request: filter.request,
            since: try moment(filter.since),
            until: try moment(filter.until),
            failedOnly: filter.failedOnly,
            limit: filter.limit
        )
    }

    private func moment(_ text: String?) throws(CommandFailure) -> UnixTime? {
        guard let text else { return nil }
        if let time = UnixTime(rfc3339: text) { return time }
        if let duration = ConfigUnits.duration(text) { return SystemClock().now().wall + (.zero - duration) }
        let advice = "write 2026-03-01T09:30:00Z, or how long ago: 30m, 2h, 7d"
        throw CommandFailure(.usage, "cannot read the time \"\(LogText.clean(text))\"; \(advice)")
    }

    private func matches(_ row: AuditRow, _ filter: AuditFilter) -> Bool {
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

    private static func words(for result: AuditVerification) -> String {
        guard let breach = result.breach else {
            let pruned = result.prunedTo > 0 ? "; rows up to \(result.prunedTo) were removed by retention" : ""
            return "The log is intact: \(result.rows) rows\(pruned).\n"
        }
        guard breach.fault != .foreignKey else { return "The log cannot be verified: \(breach.explanation)" }
        let place = breach.row.map { " at row \($0)" } ?? ""
        return
            "The log is broken\(place): \(breach.explanation) (\(breach.fault.rawValue); \(result.rows) rows before it fit)"
    }
}

extension AuditKeys {
    init(_ key: InstallationKey) {
        self.init(chain: key.derived(for: .auditChain), fingerprint: key.derived(for: .tokenFingerprint))
    }
}
