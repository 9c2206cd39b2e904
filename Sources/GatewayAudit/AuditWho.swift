package import GatewayHTTP

/// Who used a credential, how often, and with which result: the answer of `audit who`.
package struct AuditWho: Hashable, Sendable, Codable {
    /// What the answer has a row for.
    package enum Grouping: String, CaseIterable, Sendable, Codable {
        case client
        case route
        /// ``AuditResult``.
        case status
    }

    /// What is asked. Uses are counted by the minute, so the whole minute of each time counts.
    package struct Question: Hashable, Sendable {
        /// A name of the configuration; its subjects (`box-service[user:42]`) are included.
        package var credential: String
        package var by: Grouping
        /// nil asks for all that is recorded.
        package var since: UnixTime?
        /// Exclusive; nil stands for now.
        package var until: UnixTime?

        package init(
            credential: String,
            by: Grouping = .client,
            since: UnixTime? = nil,
            until: UnixTime? = nil
        ) {
            self.credential = credential
            self.by = by
            self.since = since
            self.until = until
        }
    }

    package struct Count: Hashable, Sendable, Codable {
        /// ``AuditResult/rawValue``.
        package let status: String
        package let requests: Int
    }

    package struct Group: Hashable, Sendable, Codable {
        /// A client, a route or a status; nil for requests without a client, and for the total.
        package let name: String?
        package let requests: Int
        /// In the order of ``AuditResult``, without those that did not occur.
        package let results: [Count]
        /// The minute of the first request, in RFC 3339. Where single requests are recorded (`audit.usage: request`), the time of it.
        package internal(set) var firstAt: String
        /// Its ID, where it is recorded.
        package internal(set) var firstRequestId: String?
        package internal(set) var lastAt: String
        package internal(set) var lastRequestId: String?
    }

    package let credential: String
    package let by: Grouping
    /// RFC 3339; nil when all that is recorded counts.
    package let since: String?
    package let until: String?
    /// The minute of the oldest use of any credential that the log still has; nil when it has none.
    package let recordedSince: String?
    /// The most requests first; by status in the order of ``AuditResult``.
    package internal(set) var groups: [Group]
    /// nil when nobody used it.
    package internal(set) var total: Group?

    /// Why the log cannot answer; nil when it can. That nobody used the credential is an answer.
    package func gap(countsUses: Bool) -> String? {
        guard total == nil else { return nil }
        guard countsUses else { return "uses are not recorded: audit.usage is none" }
        if let until, let recordedSince, until <= recordedSince {
            return
                "uses before \(recordedSince) are not in the log: audit.retention removed them, or they were not recorded"
        }
        return nil
    }
}

/// How requests ended, as far as `token_use` tells them apart.
package enum AuditResult: String, CaseIterable, Comparable, Sendable {
    case informational = "1xx"
    case success = "2xx"
    case redirection = "3xx"
    case unauthorized = "401"
    case forbidden = "403"
    case tooMany = "429"
    /// Any other one, or one that 0.1.0 did not tell apart.
    case clientError = "4xx"
    case serverError = "5xx"
    case none = "no response"

    init(statusClass: Int64) {
        switch statusClass {
        case 1: self = .informational
        case 2: self = .success
        case 3: self = .redirection
        case 4: self = .clientError
        case 5: self = .serverError
        default: self = .none
        }
    }

    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.order < rhs.order }

    private var order: Int { Self.allCases.firstIndex(of: self) ?? 0 }

    /// Which rows of `token_requests` are meant.
    var condition: String {
        switch self {
        case .informational: "status BETWEEN 100 AND 199"
        case .success: "status BETWEEN 200 AND 299"
        case .redirection: "status BETWEEN 300 AND 399"
        case .unauthorized: "status = 401"
        case .forbidden: "status = 403"
        case .tooMany: "status = 429"
        case .clientError: "status BETWEEN 400 AND 499 AND status NOT IN (401, 403, 429)"
        case .serverError: "status BETWEEN 500 AND 599"
        case .none: "status = 0"
        }
    }
}

/// Adds up rows of `token_use`. Numbers that were tampered with do not overflow.
struct AuditWhoTally {
    /// A row, as far as it counts.
    struct Use {
        var minute: String
        /// The name of the client or the route; empty for none.
        var name = ""
        var statusClass: Int64
        var requests: Int
        /// nil where they were not counted.
        var unauthorized: Int?
        var forbidden: Int?
        var tooMany: Int?

        /// Without those that are 0.
        fileprivate var results: [(AuditResult, Int)] {
            let named: [(AuditResult, Int)] = [
                (.unauthorized, unauthorized ?? 0), (.forbidden, forbidden ?? 0), (.tooMany, tooMany ?? 0),
            ]
            let isToldApart = AuditResult(statusClass: statusClass) == .clientError
            let known = isToldApart ? named.filter { (1...max(1, requests)).contains($0.1) } : []
            let rest = known.reduce(requests) { $0.subtracting($1.1) }
            return known + (rest > 0 ? [(AuditResult(statusClass: statusClass), rest)] : [])
        }
    }

    private struct Sum {
        var requests = 0
        var results: [AuditResult: Int] = [:]
        var first = ""
        var last = ""

        mutating func add(_ result: AuditResult, _ count: Int, at minute: String) {
            requests = requests.adding(count)
            results[result] = (results[result] ?? 0).adding(count)
            if first.isEmpty || minute < first { first = minute }
            if minute > last { last = minute }
        }

        func group(named name: String?) -> AuditWho.Group {
            AuditWho.Group(
                name: name,
                requests: requests,
                results: results.sorted { $0.key < $1.key }.map {
                    AuditWho.Count(status: $0.key.rawValue, requests: $0.value)
                },
                firstAt: first,
                lastAt: last
            )
        }
    }

    private let question: AuditWho.Question
    private var sums: [String: Sum] = [:]
    private var byStatus: [AuditResult: Sum] = [:]
    private var total = Sum()

    init(_ question: AuditWho.Question) { self.question = question }

    mutating func add(_ use: Use) {
        for (result, count) in use.results {
            total.add(result, count, at: use.minute)
            if question.by == .status {
                byStatus[result, default: Sum()].add(result, count, at: use.minute)
            } else {
                sums[use.name, default: Sum()].add(result, count, at: use.minute)
            }
        }
    }

    /// - Parameter recordedSince: See ``AuditWho/recordedSince``.
    func answer(recordedSince: String?) -> AuditWho {
        let named = sums.map { name, sum in sum.group(named: name.isEmpty ? nil : name) }
            .sorted { ($1.requests, $0.name ?? "") < ($0.requests, $1.name ?? "") }
        let statuses = byStatus.sorted { $0.key < $1.key }.map { $1.group(named: $0.rawValue) }
        return AuditWho(
            credential: question.credential,
            by: question.by,
            since: question.since?.rfc3339,
            until: question.until?.rfc3339,
            recordedSince: recordedSince,
            groups: question.by == .status ? statuses : named,
            total: total.requests == 0 ? nil : total.group(named: nil)
        )
    }
}

extension Int {
    /// The largest number instead of an overflow.
    func adding(_ other: Int) -> Int {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? (other < 0 ? .min : .max) : sum
    }

    /// The same for a difference.
    func subtracting(_ other: Int) -> Int {
        let (difference, overflows) = subtractingReportingOverflow(other)
        return overflows ? (other < 0 ? .max : .min) : difference
    }
}
