import GRDB
import GatewayCore

/// What the log says about each credential, for `audit stats`.
package struct AuditStats: Hashable, Sendable, Codable {
    /// Milliseconds.
    package struct Latency: Hashable, Sendable, Codable {
        package let count: Int
        package let p50: Int
        package let max: Int
    }

    package struct Credential: Hashable, Sendable, Codable {
        package let name: String
        package let events: Int
        package let failures: Int
        package let calls: Int
        package let bytesReceived: Int
        package let bytesSent: Int
        package let acquire: Latency?
        package let renew: Latency?
        /// RFC 3339.
        package let lastEventAt: String?
        package let lastFailureAt: String?
        package let lastFailureCode: String?
    }

    package let credentials: [Credential]
    /// Events that concern no credential are counted too.
    package let events: Int
    package let failures: Int
    package let calls: Int

    init(from database: Database) throws {
        let names = try String.fetchAll(
            database,
            sql: """
                SELECT credential FROM token_events WHERE credential IS NOT NULL
                UNION SELECT credential FROM token_use ORDER BY 1
                """
        )
        credentials = try names.map { try Self.credential($0, in: database) }
        events = try Int.fetchOne(database, sql: "SELECT count(*) FROM token_events") ?? 0
        failures = try Int.fetchOne(database, sql: "SELECT count(*) FROM token_events WHERE outcome = 'failed'") ?? 0
        calls = try Int.fetchOne(database, sql: "SELECT coalesce(sum(requests), 0) FROM token_use") ?? 0
    }

    private static func credential(_ name: String, in database: Database) throws -> Credential {
        let events = try numbers(
            database,
            """
            SELECT count(*), coalesce(sum(outcome = 'failed' AND event != 'request_failed'), 0) FROM token_events
            WHERE credential = ?
            """,
            name
        )
        let use = try numbers(
            database,
            """
            SELECT coalesce(sum(requests), 0), coalesce(sum(bytes_received), 0), coalesce(sum(bytes_sent), 0)
            FROM token_use WHERE credential = ?
            """,
            name
        )
        let failure = try Row.fetchOne(
            database,
            sql: """
                SELECT at, error_code FROM token_events WHERE credential = ? AND outcome = 'failed'
                AND event != 'request_failed' ORDER BY id DESC LIMIT 1
                """,
            arguments: [name]
        ).map { Array($0.databaseValues) }
        return Credential(
            name: name,
            events: events[0],
            failures: events[1],
            calls: use[0],
            bytesReceived: use[1],
            bytesSent: use[2],
            acquire: try latency(of: [.acquired, .acquisitionFailed], of: name, in: database),
            renew: try latency(of: [.renewed, .renewalFailed], of: name, in: database),
            lastEventAt: try String.fetchOne(
                database,
                sql: "SELECT at FROM token_events WHERE credential = ? ORDER BY id DESC LIMIT 1",
                arguments: [name]
            ),
            lastFailureAt: failure.flatMap { String.fromDatabaseValue($0[0]) },
            lastFailureCode: failure.flatMap { String.fromDatabaseValue($0[1]) }
        )
    }

    private static func numbers(_ database: Database, _ sql: String, _ name: String) throws -> [Int] {
        let row = try Row.fetchOne(database, sql: sql, arguments: [name])
        return (row?.databaseValues.map { Int.fromDatabaseValue($0) ?? 0 } ?? []) + [0, 0, 0]
    }

    private static func latency(
        of events: [TokenEvent.Name],
        of name: String,
        in database: Database
    ) throws -> Latency? {
        let list = events.map { "'\($0.rawValue)'" }.joined(separator: ", ")
        let durations = "FROM token_events WHERE credential = ? AND event IN (\(list)) AND duration_ms IS NOT NULL"
        let found = try numbers(database, "SELECT count(*), coalesce(max(duration_ms), 0) \(durations)", name)
        guard found[0] > 0 else { return nil }
        let median = try Int.fetchOne(
            database,
            sql: "SELECT duration_ms \(durations) ORDER BY duration_ms LIMIT 1 OFFSET ?",
            arguments: [name, (found[0] - 1) / 2]
        )
        return Latency(count: found[0], p50: median ?? 0, max: found[1])
    }
}
