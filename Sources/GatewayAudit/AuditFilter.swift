import GRDB
package import GatewayCore
import GatewayFiles

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

extension AuditFilter {
    /// The condition for `authgateway.audit_event`. The rows of a request are looked at once more: see ``mayConcern(_:_:)``.
    var sharedTerms: SharedTerms {
        var terms = SharedTerms()
        if let credential {
            terms.add("(credential = ? OR starts_with(credential, ?))", [.text(credential), .text(credential + "[")])
        }
        if let route { terms.add("route = ?", [.text(route)]) }
        if let client { terms.add("client = ?", [.text(client)]) }
        if let event { terms.add("event = ?", [.text(event.rawValue)]) }
        if let request { Self.mayConcern(request, &terms) }
        if let since { terms.add("at >= ?", [.text(since.rfc3339)]) }
        if let until { terms.add("at < ?", [.text(until.rfc3339)]) }
        if failedOnly { terms.add("outcome = ?", [.text(TokenEvent.Outcome.failed.rawValue)]) }
        if let after { terms.add("id > ?", [.integer(after)]) }
        return terms
    }

    /// All rows that ``AuditRow/concerns(request:)``, and maybe some more: a detail that was changed is no JSON, and PostgreSQL ends
    /// a query that reads it as such.
    private static func mayConcern(_ id: String, _ terms: inout SharedTerms) {
        let inDetail = String(SafeText.json(id).dropFirst().dropLast())
        terms.add(
            "(request_id = ? OR client_request_id = ? OR strpos(detail, ?) > 0)",
            [.text(id), .text(id), .text(inDetail)]
        )
    }

    /// Whether a row that fits ``sharedTerms`` is meant.
    func isMeant(_ row: AuditRow) -> Bool { request.map { row.concerns(request: $0) } ?? true }
}

/// Rows of a table in PostgreSQL, one page after another. Each page begins behind the key of the row before, so no page depends on
/// what was added or removed meanwhile.
struct SharedSelection {
    /// The columns that order the rows. They are unique, and come first in each row.
    let key: [String]
    /// What comes behind the key.
    let columns: [String]
    let table: String
    var terms = SharedTerms()
    var isNewestFirst = false

    func page(after last: PostgreSQLRow?, size: Int) -> PostgreSQLStatement {
        var terms = terms
        if let last {
            let marks = repeatElement("?", count: key.count).joined(separator: ", ")
            let order = isNewestFirst ? "<" : ">"
            terms.add("(\(key.joined(separator: ", "))) \(order) (\(marks))", key.indices.map(last.parameter))
        }
        let order = key.map { isNewestFirst ? "\($0) DESC" : $0 }.joined(separator: ", ")
        return PostgreSQLStatement(
            """
            SELECT \((key + columns).joined(separator: ", ")) FROM \(table) WHERE \(terms.sql) ORDER BY \(order) LIMIT \(size)
            """,
            terms.parameters,
            isRepeatable: true
        )
    }

    /// The values of ``columns``.
    func values(of row: PostgreSQLRow) -> [DatabaseValue] {
        columns.indices.map { row.databaseValue(key.count + $0) }
    }
}

/// Conditions that are joined with "and", and what is bound to their parameters.
struct SharedTerms {
    private var texts: [String] = []
    private(set) var parameters: [PostgreSQLStatement.Parameter] = []

    var sql: String { texts.isEmpty ? "true" : texts.joined(separator: " AND ") }

    /// - Parameter term: With a question mark for each value.
    mutating func add(_ term: String, _ values: [PostgreSQLStatement.Parameter]) {
        var text = ""
        for (index, part) in term.split(separator: "?", omittingEmptySubsequences: false).enumerated() {
            if index > 0 { text += "$\(parameters.count + index)" }
            text += part
        }
        texts.append(text)
        parameters += values
    }
}

extension PostgreSQLRow {
    /// The audit tables hold texts and numbers alone.
    fileprivate func databaseValue(_ column: Int) -> DatabaseValue {
        if let text = text(column) { return text.databaseValue }
        return integer(column)?.databaseValue ?? .null
    }

    fileprivate func parameter(_ column: Int) -> PostgreSQLStatement.Parameter {
        if let text = text(column) { return .text(text) }
        return integer(column).map { .integer($0) } ?? .null
    }
}
