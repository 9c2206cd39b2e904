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

    /// RFC 3339; nil when all of the log counts.
    package let since: String?
    package let credentials: [Credential]
    /// Events that concern no credential are counted too.
    package let events: Int
    package let failures: Int
    package let calls: Int

    init(since: UnixTime?, from database: Database) throws {
        let tally = try AuditTally(by: .credential, since: since, timesCalls: true, in: database)
        self.since = since?.rfc3339
        credentials = try tally.named.map { try Self.credential($0.name, $0.sum, in: database) }
        events = tally.total.events
        failures = tally.total.failures
        calls = tally.total.requests
    }

    private static func credential(_ name: String, _ sum: AuditTally.Sum, in database: Database) throws -> Credential {
        let failure = try row(sum.lastFailure, in: database)
        return Credential(
            name: name,
            events: sum.events,
            failures: sum.failures,
            calls: sum.requests,
            bytesReceived: sum.bytesReceived,
            bytesSent: sum.bytesSent,
            acquire: sum.acquire.latency,
            renew: sum.renew.latency,
            lastEventAt: try row(sum.lastEvent, in: database)?.at,
            lastFailureAt: failure?.at,
            lastFailureCode: failure?.code
        )
    }

    private static func row(_ id: Int64?, in database: Database) throws -> (at: String?, code: String?)? {
        guard let id else { return nil }
        let sql = "SELECT at, error_code FROM token_events WHERE id = ?"
        let values = try Row.fetchOne(database, sql: sql, arguments: [id]).map { Array($0.databaseValues) }
        return values.map { (String.fromDatabaseValue($0[0]), String.fromDatabaseValue($0[1])) }
    }
}
