import GRDB
package import GatewayCore

/// Which rows to read. Conditions are joined with "and"; an empty filter means every row.
package struct AuditFilter: Hashable, Sendable {
    /// A credential's name; its subjects (`box-service[user:42]`) are included.
    package var credential: String?
    package var route: String?
    package var client: String?
    package var event: TokenEvent.Name?
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
        self.since = since
        self.until = until
        self.failedOnly = failedOnly
        self.after = after
        self.limit = limit
    }

    /// The condition for `token_events` and what to bind to its question marks.
    var condition: (sql: String, arguments: [DatabaseValue]) { condition(failed: "outcome = 'failed'") }

    /// The same for `token_requests`.
    var requestCondition: (sql: String, arguments: [DatabaseValue]) {
        condition(failed: "(problem IS NOT NULL OR status >= 400 OR status = 0)")
    }

    private func condition(failed: String) -> (sql: String, arguments: [DatabaseValue]) {
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
        if let since { add("at >= ?", since.rfc3339.databaseValue) }
        if let until { add("at < ?", until.rfc3339.databaseValue) }
        if failedOnly { add(failed) }
        if let after { add("id > ?", after.databaseValue) }
        return (terms.isEmpty ? "1" : terms.joined(separator: " AND "), arguments)
    }
}
