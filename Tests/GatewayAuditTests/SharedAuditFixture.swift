import Foundation
import GRDB
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayAudit

/// A PostgreSQL database that holds copies of local logs, as gateways ship them.
final class SharedAuditFixture: Sendable {
    static let server = Result { try PostgreSQLTestServer() }
    let database: String
    private let connection: PostgreSQLConnection

    init(makesTables: Bool = true) throws {
        let server = try Self.server.get()
        database = try server.makeDatabase()
        connection = PostgreSQLConnection(PostgreSQLOptions(try PostgreSQLURL(server.url(database))))
        guard makesTables else { return }
        try tamper(
            """
            CREATE SCHEMA authgateway;
            CREATE TABLE authgateway.store (name text PRIMARY KEY, value text NOT NULL);
            INSERT INTO authgateway.store VALUES ('schema', '\(SharedSchema.version)');
            \(FleetTables.statements)
            """
        )
    }

    /// - Parameter pageSize: Small, so that a few rows are several pages.
    func reader(user: String = "postgres", pageSize: Int = 3) throws -> SharedAuditReader {
        let url = try PostgreSQLURL(try Self.server.get().url(database, user: user))
        return SharedAuditReader(PostgreSQLOptions(url), pageSize: pageSize)
    }

    func tamper(_ sql: String) throws { try Self.server.get().administrate(sql, database: database) }

    /// Copies the rows of a log as they are.
    func ship(_ log: AuditFixture, as chain: String, host: String, keys: AuditKeys? = nil) async throws {
        let events = AuditSchema.allColumns + ["client_request_id"]
        try await copy(log, "token_events", events, to: "audit_event", of: chain)
        try await shipCheckpoints(of: log, as: chain)
        try await copy(log, "token_use", AuditSchema.useColumns, to: "audit_use", of: chain)
        let key = AuditChain(key: (keys ?? log.keys).chain)
        let head = try await DatabaseQueue(path: log.path).read { try AuditOpening.head(of: $0, chain: key) }
        let entry: [PostgreSQLStatement.Parameter] = [
            .text(chain), .text(host), .text(key.keyCheck), .integer(head.id), .text(head.hash),
        ]
        try await run("INSERT INTO authgateway.audit_chain VALUES ($1, $2, $3, $4, $5)", entry)
    }

    func shipCheckpoints(of log: AuditFixture, as chain: String) async throws {
        try await copy(log, "audit_checkpoints", AuditSchema.checkpointColumns, to: "audit_checkpoint", of: chain)
    }

    private func copy(
        _ log: AuditFixture,
        _ table: String,
        _ columns: [String],
        to target: String,
        of chain: String
    ) async throws {
        let names = columns.map { "\"\($0)\"" }.joined(separator: ", ")
        let rows = try await DatabaseQueue(path: log.path).read { database in
            try Row.fetchAll(database, sql: "SELECT \(names) FROM \(table)").map { Array($0.databaseValues) }
        }
        let marks = (1...columns.count + 1).map { "$\($0)" }.joined(separator: ", ")
        for row in rows {
            let values = row.map { value -> PostgreSQLStatement.Parameter in
                switch value.storage {
                case .int64(let number): .integer(number)
                case .string(let text): .text(text)
                default: .null
                }
            }
            let sql = "INSERT INTO authgateway.\(target) (chain, \(names)) VALUES (\(marks))"
            try await run(sql, [.text(chain)] + values)
        }
    }

    private func run(_ sql: String, _ parameters: [PostgreSQLStatement.Parameter]) async throws {
        _ = try await connection.run(PostgreSQLStatement(sql, parameters), within: .seconds(10))
    }
}

extension SharedAuditReader {
    func query(_ filter: AuditFilter = AuditFilter()) async throws -> [SharedAuditRow] {
        var rows: [SharedAuditRow] = []
        try await forEach(filter) { rows.append($0) }
        return rows
    }
}
