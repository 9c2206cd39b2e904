import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP

/// Rows of an audit table, of SQLite or PostgreSQL: one text for both.
struct AuditSelection {
    var columns: [String]
    let table: String
    /// The columns that order the rows, and are unique.
    var key = ["id"]
    var condition = AuditCondition()
    var isNewestFirst = false
    var limit: Int?

    var sql: String {
        let order = key.map { isNewestFirst ? "\($0) DESC" : $0 }.joined(separator: ", ")
        let rows = "\(unorderedSQL) ORDER BY \(order)"
        return limit.map { "\(rows) LIMIT \($0)" } ?? rows
    }

    /// All rows, in whatever order they are found.
    var unorderedSQL: String { "SELECT \(columns.joined(separator: ", ")) FROM \(table) WHERE \(condition.sql)" }

    /// All names that tables have in a column.
    static func names(in column: AuditUsage.Grouping, of tables: [String]) -> String {
        tables.map { "SELECT \(column.rawValue) FROM \($0) WHERE \(column.rawValue) <> ''" }.joined(
            separator: " UNION "
        )
    }

    // MARK: SQLite

    /// One row at a time: the cursor hands over the same object again and again.
    func cursor(in database: Database) throws -> RowCursor {
        try Row.fetchCursor(database, sql: sql, arguments: condition.arguments)
    }

    func rows(in database: Database) throws -> [Row] {
        try Row.fetchAll(database, sql: sql, arguments: condition.arguments)
    }

    // MARK: PostgreSQL

    /// One page after another. Each begins behind the key of the row before, so no page depends on what was added or removed
    /// meanwhile. The key comes first in each row.
    func page(after last: PostgreSQLRow?, size: Int) -> PostgreSQLStatement {
        var page = self
        page.columns = key + columns
        page.limit = size
        if let last {
            let marks = key.indices.map { page.condition.bind(last.parameter($0)) }.joined(separator: ", ")
            page.condition.add("(\(key.joined(separator: ", "))) \(isNewestFirst ? "<" : ">") (\(marks))")
        }
        return PostgreSQLStatement(page.sql, page.condition.parameters, isRepeatable: true)
    }

    /// The values of ``columns`` in a row of a page.
    func values(of row: PostgreSQLRow) -> [DatabaseValue] {
        columns.indices.map { row.parameter(key.count + $0).databaseValue }
    }
}

/// Terms that are joined with "and", and what is bound to their parameters.
///
/// Both databases take `$1` for a parameter, more than once, too. SQLite numbers them as they first occur, so terms are added in
/// the order in which their values were bound.
struct AuditCondition {
    private var terms: [String] = []
    private(set) var parameters: [PostgreSQLStatement.Parameter] = []

    var sql: String { terms.isEmpty ? "true" : terms.joined(separator: " AND ") }

    /// The parameters for SQLite.
    var arguments: StatementArguments { StatementArguments(parameters.map(\.databaseValue)) }

    /// - Returns: The name of the parameter, for a term.
    mutating func bind(_ value: PostgreSQLStatement.Parameter) -> String {
        parameters.append(value)
        return "$\(parameters.count)"
    }

    mutating func add(_ term: String) { terms.append(term) }

    /// - Parameter comparison: A column and an operator.
    mutating func add(_ comparison: String, _ value: PostgreSQLStatement.Parameter) {
        add("\(comparison) \(bind(value))")
    }
}

extension AuditCondition {
    /// Leaves out the rows before the first one since a time. Rows are read in the order of the table, so all of these would be looked at.
    ///
    /// Does nothing where the index is missing. `audit verify` compares that of events with the rows: an index could hide some.
    ///
    /// - Returns: The term; nil where there is none.
    @discardableResult
    mutating func addFirstRow(since: UnixTime?, by index: AuditIndex, in database: Database) throws -> String? {
        guard let since, try AuditSchema.hasIndex(index, in: database) else { return nil }
        let time = bind(.text(since.rfc3339))
        let first = "SELECT min(id) FROM \(index.table) INDEXED BY \(index.name) WHERE at >= \(time)"
        let term = "id >= coalesce((\(first)), \(Int64.max))"
        add(term)
        return term
    }

    /// Has the events that a filter means found by indices, where these are there. The terms of the filter still decide.
    ///
    /// SQLite gathers the numbers of the rows first, and then reads the rows in their order.
    ///
    /// - Parameter row: The first one before which no row that counts several requests is read to find one of them; nil reads them all.
    /// - Returns: Whether indices find the rows of a request.
    @discardableResult
    mutating func addIndexedEvents(
        _ filter: AuditFilter,
        countedAfter row: Int64? = nil,
        in database: Database
    ) throws -> Bool {
        let first = try addFirstRow(since: filter.since, by: .eventsByTime, in: database)
        // The newest rows are read from the end, and soon there are enough of them.
        guard filter.limit == nil || filter.request != nil else { return false }
        if let request = filter.request {
            return try add(.eventsByRequest, .eventsByClientRequest, .eventsByName, in: database) { condition in
                let id = condition.bind(.text(request))
                let inDetail = condition.bind(.text(String(SafeText.json(request).dropFirst().dropLast())))
                // A row of these may count more requests, which stand in its detail.
                let names = [TokenEvent.Name.requestFailed, .clientDenied].map { "'\($0.rawValue)'" }
                let start = row.map { " AND id > \($0)" } ?? ""
                return [
                    (.eventsByRequest, "request_id = \(id)"), (.eventsByClientRequest, "client_request_id = \(id)"),
                    (
                        .eventsByName,
                        "event IN (\(names.joined(separator: ", ")))\(start) AND instr(detail, \(inDetail)) > 0"
                    ),
                ]
            }
        }
        if let event = filter.event {
            try add(.eventsByName, in: database) { condition in
                var terms = ["event = \(condition.bind(.text(event.rawValue)))"]
                if let since = filter.since { terms.append("at >= \(condition.bind(.text(since.rfc3339)))") }
                if let until = filter.until { terms.append("at < \(condition.bind(.text(until.rfc3339)))") }
                return [(.eventsByName, terms.joined(separator: " AND "))]
            }
        }
        if let credential = filter.credential {
            try add(.eventsByCredential, in: database) { condition in
                let end = first.map { " AND \($0)" } ?? ""
                let name = condition.bind(.text(credential))
                let subjects = (condition.bind(.text(credential + "[")), condition.bind(.text(credential + "\\")))
                return [
                    (.eventsByCredential, "credential = \(name)\(end)"),
                    (.eventsByCredential, "credential >= \(subjects.0) AND credential < \(subjects.1)\(end)"),
                ]
            }
        }
        return false
    }

    /// - Parameter terms: By which index to look for what. A row that one of them finds is meant.
    /// - Returns: Whether the indices are there.
    @discardableResult
    private mutating func add(
        _ indices: AuditIndex...,
        in database: Database,
        _ terms: (inout AuditCondition) -> [(AuditIndex, String)]
    ) throws -> Bool {
        guard try indices.allSatisfy({ try AuditSchema.hasIndex($0, in: database) }) else { return false }
        let questions = terms(&self).map { index, term in
            "SELECT id FROM \(index.table) INDEXED BY \(index.name) WHERE \(term)"
        }
        add("id IN (\(questions.joined(separator: " UNION ALL ")))")
        return true
    }
}

extension PostgreSQLRow {
    /// The audit tables hold texts and numbers alone.
    fileprivate func parameter(_ column: Int) -> PostgreSQLStatement.Parameter {
        text(column).map { .text($0) } ?? integer(column).map { .integer($0) } ?? .null
    }
}

extension PostgreSQLStatement.Parameter {
    fileprivate var databaseValue: DatabaseValue {
        switch self {
        case .text(let text): text.databaseValue
        case .integer(let number): number.databaseValue
        case .null, .bytes: .null
        }
    }
}
