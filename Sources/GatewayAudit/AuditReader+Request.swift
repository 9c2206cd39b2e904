import GRDB
package import GatewayCore

/// What the log has of one request.
package struct AuditedRequest: Sendable {
    package var events: [AuditRow] = []
    /// With `audit.usage: request`.
    package var requests: [AuditRequestRow] = []
    /// Whether older rows were not looked at.
    package var isPartial = false
    /// Whether there were more rows than were asked for; the newest are missing.
    package var isCut = false

    package init() {}
}

extension AuditReader {
    /// The rows about a request, by the gateway's id or the client's, oldest first.
    ///
    /// - Parameters:
    ///   - newest: The number of rows of each table that are read, newest first. No column of an id has an index.
    ///   - limit: The maximum number of them that is returned.
    package func request(
        _ id: String,
        newest: Int,
        limit: Int
    ) async throws(AuditError) -> AuditedRequest {
        try await read { database in
            var found = AuditedRequest()
            let filter = AuditFilter(request: id)
            let events = try Self.rows(
                AuditSchema.columnList,
                of: "token_events",
                filter.condition,
                newest: newest,
                limit: limit,
                in: database
            )
            found.events = events.rows.compactMap { AuditRow(Array($0.databaseValues)) }
            (found.isPartial, found.isCut) = (events.isPartial, events.isCut)
            guard try database.tableExists("token_requests") else { return found }
            let columns = try AuditSchema.requestSelection(in: database)
            let canSearch = try database.columns(in: "token_requests").contains { $0.name == "client_request_id" }
            guard canSearch else { return found }
            let requests = try Self.rows(
                columns,
                of: "token_requests",
                filter.requestCondition,
                newest: newest,
                limit: limit,
                in: database
            )
            found.requests = requests.rows.compactMap { AuditRequestRow(Array($0.databaseValues)) }
            found.isPartial = found.isPartial || requests.isPartial
            found.isCut = found.isCut || requests.isCut
            return found
        }
    }

    private static func rows(
        _ columns: String,
        of table: String,
        _ condition: (sql: String, arguments: [DatabaseValue]),
        newest: Int,
        limit: Int,
        in database: Database
    ) throws -> (rows: ArraySlice<Row>, isPartial: Bool, isCut: Bool) {
        let last = try Int64.fetchOne(database, sql: "SELECT max(id) FROM \(table)") ?? 0
        let first = try Int64.fetchOne(database, sql: "SELECT min(id) FROM \(table)") ?? 0
        let start = last - Int64(newest)
        let rows = try Row.fetchAll(
            database,
            sql: "SELECT \(columns) FROM \(table) NOT INDEXED WHERE id > ? AND \(condition.sql) ORDER BY id LIMIT ?",
            arguments: StatementArguments([start.databaseValue] + condition.arguments + [(limit + 1).databaseValue])
        )
        return (rows.prefix(limit), start >= first && last > 0, rows.count > limit)
    }
}
