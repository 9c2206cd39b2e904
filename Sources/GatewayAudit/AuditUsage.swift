import GRDB
import GatewayCore

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
    /// By name; that without one comes last.
    package let groups: [Group]
    package let total: Group

    /// - Parameter upstreams: Those of the routes, by name.
    init(by grouping: Grouping, since: UnixTime?, upstreams: [String: String], from database: Database) throws {
        by = grouping
        self.since = since?.rfc3339
        let column: AuditTally.Column =
            switch grouping {
            case .client: .client
            case .credential: .credential
            case .route, .upstream: .route
            }
        let tally = try AuditTally(by: column, since: since, timesCalls: false, in: database)
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
