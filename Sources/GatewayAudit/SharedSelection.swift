import GRDB
import GatewayFiles

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
