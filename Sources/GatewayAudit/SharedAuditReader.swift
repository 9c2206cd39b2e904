import GRDB
package import GatewayCore
package import GatewayFiles

/// Reads the audit logs that gateways have shipped to their PostgreSQL database.
package final class SharedAuditReader: Sendable {
    /// For messages: without a password.
    package let name: String
    private let connection: PostgreSQLConnection
    private let pageSize: Int
    private let limit: Duration

    /// Connects in the background; returns at once. Call ``prepare()`` first, and ``close()`` in the end.
    ///
    /// - Parameters:
    ///   - pageSize: The maximum number of rows that are in memory.
    ///   - limit: How long the server may take for one page. A filter without an index looks at many rows.
    package init(_ options: PostgreSQLOptions, pageSize: Int = 5000, limit: Duration = .seconds(60)) {
        name = "the token database \(options.url)"
        connection = PostgreSQLConnection(options)
        self.pageSize = pageSize
        self.limit = limit
    }

    /// - Throws: ``AuditError`` when the database cannot be used, or a newer program has made its tables.
    package func prepare() async throws(AuditError) {
        guard let version = try await ask(SharedSchema.question).first?.integer(0) else { return }
        if let problem = SharedSchema.problem(with: version, in: name) { throw AuditError(problem) }
    }

    package func close() async { await connection.close(within: .seconds(1)) }

    /// Hands over the rows of all chains that match, oldest first by time, chain and number.
    ///
    /// Pages are read one after another. A row that is shipped late is left out when its page was read before.
    ///
    /// - Parameter body: What it throws ends the reading and is thrown.
    package func forEach(_ filter: AuditFilter, _ body: (SharedAuditRow) throws -> Void) async throws {
        var selection = Self.events(filter)
        guard let limit = filter.limit else {
            try await forEachPage(of: selection) { rows in
                for row in try meant(rows, of: selection, filter) { try body(row) }
                return true
            }
            return
        }
        guard limit > 0 else { return }
        selection.isNewestFirst = true
        var newest: [SharedAuditRow] = []
        try await forEachPage(of: selection, size: min(limit, pageSize)) { rows in
            newest += try meant(rows, of: selection, filter).prefix(limit - newest.count)
            return newest.count < limit
        }
        for row in newest.reversed() { try body(row) }
    }

    /// The names of one kind that the logs have, at most 10,000 of them.
    ///
    /// - Parameter column: `credential`, `route` or `client`.
    package func names(in column: AuditUsage.Grouping) async throws(AuditError) -> [String] {
        guard column != .upstream else { return [] }
        let parts = ["audit_event", "audit_use"].map {
            "SELECT \(column.rawValue) FROM authgateway.\($0) WHERE \(column.rawValue) <> ''"
        }
        let statement = parts.joined(separator: " UNION ") + " LIMIT 10000"
        return try await ask(PostgreSQLStatement(statement, isRepeatable: true)).compactMap { $0.text(0) }
    }

    // MARK: Statements

    func ask(_ statement: PostgreSQLStatement) async throws(AuditError) -> [PostgreSQLRow] {
        do throws(PostgreSQLFailure) {
            return try await connection.run(statement, within: limit)
        } catch {
            throw AuditError(error.words(for: name))
        }
    }

    /// - Parameter body: false ends it.
    func forEachPage(
        of selection: SharedSelection,
        size: Int? = nil,
        _ body: ([PostgreSQLRow]) async throws -> Bool
    ) async throws {
        let size = size ?? pageSize
        var last: PostgreSQLRow?
        while true {
            let rows = try await ask(selection.page(after: last, size: size))
            guard !rows.isEmpty, try await body(rows), rows.count == size else { return }
            last = rows.last
        }
    }

    /// The values of ``SharedSelection/columns``, page by page.
    func forEachRow(
        of selection: SharedSelection,
        _ body: ([[DatabaseValue]]) async throws(AuditError) -> Void
    ) async throws(AuditError) {
        do {
            try await forEachPage(of: selection) { rows in
                try await body(rows.map { selection.values(of: $0) })
                return true
            }
        } catch {
            throw error as? AuditError ?? AuditError("\(name) cannot be read")
        }
    }

    private static func events(_ filter: AuditFilter) -> SharedSelection {
        SharedSelection(
            key: ["at", "chain", "id"],
            columns: ["(SELECT host FROM authgateway.audit_chain AS c WHERE c.chain = e.chain)"] + eventColumns,
            table: "authgateway.audit_event AS e",
            terms: filter.sharedTerms
        )
    }

    /// `trigger` is a word of SQL.
    static let eventColumns = AuditSchema.allColumns.map { "\"\($0)\"" }

    private func meant(
        _ rows: [PostgreSQLRow],
        of selection: SharedSelection,
        _ filter: AuditFilter
    ) throws -> [SharedAuditRow] {
        try rows.compactMap { row in
            let values = selection.values(of: row)
            guard let chain = row.text(1), let event = AuditRow(Array(values.dropFirst())) else {
                throw AuditError("a row in \(name) was changed; run `authgateway audit verify --all`")
            }
            guard filter.isMeant(event) else { return nil }
            return SharedAuditRow(gateway: String.fromDatabaseValue(values[0]), chain: chain, row: event)
        }
    }
}
