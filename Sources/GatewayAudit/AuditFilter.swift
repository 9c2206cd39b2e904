import GRDB
package import GatewayCore

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

    /// The condition for `token_events` and what to bind to its question marks.
    var condition: (sql: String, arguments: [DatabaseValue]) {
        condition(failed: "outcome = 'failed'", request: Self.requestOfEvent)
    }

    /// The same for `token_requests`.
    var requestCondition: (sql: String, arguments: [DatabaseValue]) {
        condition(
            failed: "(problem IS NOT NULL OR status >= 400 OR status = 0)",
            request: "(request_id = :id OR client_request_id = :id)"
        )
    }

    /// ``AuditRow/concerns(request:)``. The column `client_request_id` is not there in a log of an earlier version.
    private static let requestOfEvent = """
        (request_id = :id OR CASE WHEN json_valid(detail) THEN json_extract(detail, '$.client_request_id') = :id
        OR instr(' ' || json_extract(detail, '$.requests') || ' ', ' ' || :id || ' ') END)
        """

    /// - Parameter request: With `:id` in the place of the id.
    private func condition(failed: String, request requestTerm: String) -> (sql: String, arguments: [DatabaseValue]) {
        var terms: [String] = []
        var arguments: [DatabaseValue] = []
        func add(_ term: String, _ values: DatabaseValue...) {
            terms.append(term)
            arguments += values
        }
        if let credential {
            let subjects = (credential + "[").databaseValue
            add(
                "(credential = ? OR substr(credential, 1, length(?)) = ?)",
                credential.databaseValue,
                subjects,
                subjects
            )
        }
        if let route { add("route = ?", route.databaseValue) }
        if let client { add("client = ?", client.databaseValue) }
        if let event { add("event = ?", event.rawValue.databaseValue) }
        if let request {
            let parts = requestTerm.split(separator: ":id", omittingEmptySubsequences: false)
            terms.append(parts.joined(separator: "?"))
            arguments += repeatElement(request.databaseValue, count: parts.count - 1)
        }
        if let since { add("at >= ?", since.rfc3339.databaseValue) }
        if let until { add("at < ?", until.rfc3339.databaseValue) }
        if failedOnly { add(failed) }
        if let after { add("id > ?", after.databaseValue) }
        return (terms.isEmpty ? "1" : terms.joined(separator: " AND "), arguments)
    }
}
