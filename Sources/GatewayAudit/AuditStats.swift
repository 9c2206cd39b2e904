import GRDB
import GatewayHTTP
import GatewayTokens

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
        let lastEventAt: String?
        package let lastFailureAt: String?
        package let lastFailureCode: String?
    }

    /// RFC 3339; nil when all of the log counts.
    package let since: String?
    package let until: String?
    /// What was asked for; nil for all.
    package let credential: String?
    package let client: String?
    package let credentials: [Credential]
    /// Events that concern no credential are counted too.
    package let events: Int
    package let failures: Int
    package let calls: Int

    init(_ filter: AuditFilter, from database: Database) throws {
        let tally = try AuditTally(by: .credential, filter, timesCalls: true, in: database)
        since = filter.since?.rfc3339
        until = filter.until?.rfc3339
        credential = filter.credential
        client = filter.client
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

/// What the log says about each client, route, credential or upstream, for `audit stats --by`.
package struct AuditUsage: Hashable, Sendable, Codable {
    package enum Grouping: String, CaseIterable, Sendable, Codable {
        case client
        case route
        case credential
        /// Through its routes: the log does not name upstreams.
        case upstream
    }

    package struct Group: Hashable, Sendable, Codable {
        /// nil for rows without a name, such as a token that is renewed without a request.
        package let name: String?
        /// Those that carried a credential.
        package let requests: Int
        /// Those of them that got a status of 400 or more, or no response.
        package let errors: Int
        package let bytesReceived: Int
        package let bytesSent: Int
        /// Acquisitions and renewals.
        package let tokenCalls: Int
        package let failedTokenCalls: Int

        init(_ name: String?, _ sum: AuditTally.Sum) {
            self.name = name
            requests = sum.requests
            errors = sum.errors
            bytesReceived = sum.bytesReceived
            bytesSent = sum.bytesSent
            tokenCalls = sum.tokenCalls
            failedTokenCalls = sum.failedTokenCalls
        }

        var isEmpty: Bool { requests == 0 && tokenCalls == 0 }
    }

    package let by: Grouping
    /// RFC 3339; nil when all of the log counts.
    package let since: String?
    package let until: String?
    /// What was asked for; nil for all.
    package let credential: String?
    package let client: String?
    /// By name; that without one comes last.
    package let groups: [Group]
    package let total: Group

    /// - Parameter upstreams: Those of the routes, by name.
    init(by grouping: Grouping, _ filter: AuditFilter, upstreams: [String: String], from database: Database) throws {
        by = grouping
        since = filter.since?.rfc3339
        until = filter.until?.rfc3339
        credential = filter.credential
        client = filter.client
        let column: AuditTally.Column =
            switch grouping {
            case .client: .client
            case .credential: .credential
            case .route, .upstream: .route
            }
        let tally = try AuditTally(by: column, filter, timesCalls: false, in: database)
        let named = grouping == .upstream ? Self.merged(tally.named, by: upstreams) : tally.named
        let all = named.map { Group($0.name, $0.sum) } + [Group(nil, tally.unnamed)]
        groups = all.filter { !$0.isEmpty }
        total = Group(nil, tally.total)
    }

    private static func merged(
        _ routes: [(name: String, sum: AuditTally.Sum)],
        by upstreams: [String: String]
    ) -> [(name: String, sum: AuditTally.Sum)] {
        var sums: [String: AuditTally.Sum] = [:]
        for route in routes {
            let upstream = upstreams[route.name] ?? "route \(route.name), which has no upstream here"
            sums[upstream, default: AuditTally.Sum()].add(route.sum)
        }
        return sums.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}
