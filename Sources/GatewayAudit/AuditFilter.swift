package import GatewayEvents
import GatewayFiles
package import GatewayHTTP

/// Which rows to read. Conditions are joined with "and"; an empty filter means every row.
package struct AuditFilter: Hashable, Sendable {
    /// A credential's name; its subjects (`box-service[user:42]`) are included.
    package var credential: String?
    package var route: String?
    package var client: String?
    package var event: TokenEvent.Name?
    /// The gateway's id of a request, or the client's.
    package var request: String?
    /// Inclusive.
    package var since: UnixTime?
    /// Exclusive.
    package var until: UnixTime?
    package var failedOnly: Bool
    /// Only rows with a greater id.
    package var after: Int64?
    /// The maximum number of matching rows, newest first; nil means all.
    package var limit: Int?

    package init(
        credential: String? = nil,
        route: String? = nil,
        client: String? = nil,
        event: TokenEvent.Name? = nil,
        request: String? = nil,
        since: UnixTime? = nil,
        until: UnixTime? = nil,
        failedOnly: Bool = false,
        after: Int64? = nil,
        limit: Int? = nil
    ) {
        self.credential = credential
        self.route = route
        self.client = client
        self.event = event
        self.request = request
        self.since = since
        self.until = until
        self.failedOnly = failedOnly
        self.after = after
        self.limit = limit
    }

    /// What a filter is for. Its conditions differ in a few words.
    enum Table {
        /// `token_events` of a log.
        case events
        /// `token_requests` of a log.
        case requests
        /// `token_use` of a log. Its whole minutes count, and it knows nothing of events, requests, failures and row numbers.
        case uses
        /// `authgateway.audit_event` of a PostgreSQL database.
        case sharedEvents
        /// `authgateway.audit_use`, as ``uses``.
        case sharedUses

        fileprivate var isShared: Bool { self == .sharedEvents || self == .sharedUses }
        fileprivate var hasUses: Bool { self == .uses || self == .sharedUses }
    }

    /// In ``Table/sharedEvents`` the rows of a request have to be looked at once more: see ``isMeant(_:)``.
    func condition(for table: Table) -> AuditCondition {
        var condition = AuditCondition()
        if let credential { Self.add(credential: credential, of: table, to: &condition) }
        if let route { condition.add("route =", .text(route)) }
        if let client { condition.add("client =", .text(client)) }
        guard !table.hasUses else {
            if let since { condition.add("minute >=", .text(since.startOfMinute.rfc3339)) }
            if let until { condition.add("minute <", .text(until.rfc3339)) }
            return condition
        }
        if let event { condition.add("event =", .text(event.rawValue)) }
        if let request { Self.add(request, of: table, to: &condition) }
        if let since { condition.add("at >=", .text(since.rfc3339)) }
        if let until { condition.add("at <", .text(until.rfc3339)) }
        if failedOnly {
            condition.add(
                table == .requests ? "(problem IS NOT NULL OR status >= 400 OR status = 0)" : "outcome = 'failed'"
            )
        }
        if let after { condition.add("id >", .integer(after)) }
        return condition
    }

    private static func add(credential: String, of table: Table, to condition: inout AuditCondition) {
        let name = condition.bind(.text(credential))
        let first = condition.bind(.text(credential + "["))
        guard !table.isShared else {
            return condition.add("(credential = \(name) OR starts_with(credential, \(first)))")
        }
        // SQLite compares bytes, and `\` comes after `[`: this is every name that begins so, and an index can find it.
        let end = condition.bind(.text(credential + "\\"))
        condition.add("(credential = \(name) OR (credential >= \(first) AND credential < \(end)))")
    }

    /// ``AuditRow/concerns(request:)``.
    private static func add(_ request: String, of table: Table, to condition: inout AuditCondition) {
        let id = condition.bind(.text(request))
        switch table {
        case .uses, .sharedUses: break
        case .requests: condition.add("(request_id = \(id) OR client_request_id = \(id))")
        case .events:
            // The column client_request_id is not there in a log of an earlier version.
            condition.add(
                """
                (request_id = \(id) OR CASE WHEN json_valid(detail) THEN json_extract(detail, '$.client_request_id') = \(id)
                OR instr(' ' || json_extract(detail, '$.requests') || ' ', ' ' || \(id) || ' ') END)
                """
            )
        case .sharedEvents:
            // Maybe some more rows: a detail that was changed is no JSON, and PostgreSQL ends a query that reads it as such.
            let inDetail = condition.bind(.text(String(SafeText.json(request).dropFirst().dropLast())))
            condition.add("(request_id = \(id) OR client_request_id = \(id) OR strpos(detail, \(inDetail)) > 0)")
        }
    }

    /// Whether a row that fits the condition for ``Table/sharedEvents`` is meant.
    func isMeant(_ row: AuditRow) -> Bool { request.map { row.concerns(request: $0) } ?? true }
}
