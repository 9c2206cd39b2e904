import GRDB
package import GatewayCore
import GatewayFiles

extension SharedAuditReader {
    /// The sum of each credential's events and calls in all chains, by name.
    ///
    /// - Parameter since: nil adds up all of the logs.
    package func stats(since: UnixTime? = nil) async throws(AuditError) -> AuditStats {
        let copy = try await sums(since: since)
        return try await copy.use { try AuditStats(since: since, from: $0) }
    }

    /// Requests and calls for tokens of all chains by what they are grouped by.
    ///
    /// - Parameter upstreams: Those of the routes, by name, for ``AuditUsage/Grouping/upstream``.
    package func usage(
        by grouping: AuditUsage.Grouping,
        since: UnixTime? = nil,
        upstreams: [String: String] = [:]
    ) async throws(AuditError) -> AuditUsage {
        let copy = try await sums(since: since)
        return try await copy.use { try AuditUsage(by: grouping, since: since, upstreams: upstreams, from: $0) }
    }

    /// What ``AuditStats`` and ``AuditUsage`` read, of all chains. Events have new numbers, in the order of time.
    private func sums(since: UnixTime?) async throws(AuditError) -> SharedAuditCopy {
        let copy = try SharedAuditCopy()
        try await copy.use { try $0.execute(sql: Self.tables) }
        var events = SharedSelection(
            key: ["at", "chain", "id"],
            columns: ["at", "event", "credential", "route", "client", "outcome", "duration_ms", "error_code"],
            table: "authgateway.audit_event"
        )
        if let since { events.terms.add("at >= ?", [.text(since.rfc3339)]) }
        var uses = SharedSelection(
            key: ["chain", "minute", "route", "client", "credential", "generation", "status_class"],
            columns: [
                "minute", "route", "client", "credential", "status_class", "requests", "bytes_received", "bytes_sent",
            ],
            table: "authgateway.audit_use"
        )
        if let since {
            // As in AuditTally, the whole minute counts.
            let minute = UnixTime(milliseconds: since.milliseconds / 60_000 * 60_000)
            uses.terms.add("minute >= ?", [.text(minute.rfc3339)])
        }
        for (selection, table) in [(events, "token_events"), (uses, "token_use")] {
            try await forEachRow(of: selection) { rows throws(AuditError) in
                try await copy.insert(rows, into: table, selection.columns)
            }
        }
        return copy
    }

    /// Uses have no key here: two gateways count the same one.
    private static let tables = """
        CREATE TABLE token_events (
            id INTEGER PRIMARY KEY,
            at TEXT NOT NULL,
            event TEXT NOT NULL,
            credential TEXT,
            route TEXT,
            client TEXT,
            outcome TEXT NOT NULL,
            duration_ms INTEGER,
            error_code TEXT
        ) STRICT;
        CREATE TABLE token_use (
            minute TEXT NOT NULL,
            route TEXT NOT NULL,
            client TEXT NOT NULL,
            credential TEXT NOT NULL,
            status_class INTEGER NOT NULL,
            requests INTEGER NOT NULL,
            bytes_received INTEGER NOT NULL,
            bytes_sent INTEGER NOT NULL
        ) STRICT;
        """
}
