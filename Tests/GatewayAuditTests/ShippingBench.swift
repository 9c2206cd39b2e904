import Foundation
import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import Logging
import Synchronization

@testable import GatewayAudit

/// A log, and a database of its own that it is copied to.
struct ShippingBench {
    struct Late: Error {}

    static let server = Result { try PostgreSQLTestServer() }

    let fixture: AuditFixture
    let database: String
    private let connection: PostgreSQLConnection

    init() throws {
        fixture = try AuditFixture()
        let server = try Self.server.get()
        database = try server.makeDatabase()
        try server.administrate(
            "DO $$ BEGIN CREATE SCHEMA authgateway; \(FleetTables.statements) END $$",
            database: database
        )
        connection = PostgreSQLConnection(PostgreSQLOptions(try PostgreSQLURL(server.url(database))))
    }

    func shipper(
        _ log: SQLiteAuditLog,
        isRequired: Bool = false,
        rows: Int = 500,
        url: String? = nil
    ) throws -> AuditShipper {
        AuditShipper(
            log,
            to: PostgreSQLOptions(try PostgreSQLURL(try url ?? Self.server.get().url(database))),
            host: "host-1",
            isRequired: isRequired,
            limits: ShippedRows.Limits(rows: rows),
            clock: fixture.clock,
            logger: Logger(label: "audit") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// Ships all that there is, and ends.
    func ship(_ log: SQLiteAuditLog, rows: Int = 500) async throws {
        let shipper = try shipper(log, rows: rows)
        try await until { log.unshippedEvents == 0 && shipper.shipping.failure == nil }
        await shipper.finish(within: .seconds(20))
        try await until { log.unshippedEvents == 0 }
    }

    func until(_ isDone: () async throws -> Bool) async throws {
        let end = ContinuousClock.now.advanced(by: .seconds(40))
        while try await !isDone() {
            guard ContinuousClock.now < end else { throw Late() }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    func shared(_ sql: String) async throws -> [PostgreSQLRow] {
        try await connection.run(PostgreSQLStatement(sql), within: .seconds(10))
    }

    func count(_ table: String, _ chain: String) async throws -> Int64? {
        try await shared("SELECT count(*) FROM authgateway.\(table) WHERE chain = '\(chain)'").first?.integer(0)
    }

    /// The rows of the copy, each as one text.
    func copied(_ table: ShippedTable, _ chain: String) async throws -> [String] {
        let sql =
            "SELECT \(text(of: table, "text")) FROM authgateway.\(table.name) WHERE chain = '\(chain)' ORDER BY \(order(table))"
        return try await shared(sql).compactMap { $0.text(0) }
    }

    /// The same of the log.
    func local(_ table: ShippedTable, _ name: String, at path: String? = nil) throws -> [String] {
        try DatabaseQueue(path: path ?? fixture.path).read {
            try String.fetchAll($0, sql: "SELECT \(text(of: table, "TEXT")) FROM \(name) ORDER BY \(order(table))")
        }
    }

    private func text(of table: ShippedTable, _ type: String) -> String {
        table.columns.map { "coalesce(CAST(\($0.quoted) AS \(type)), '-')" }.joined(separator: " || '|' || ")
    }

    /// Both compare bytes: the test server has the collation C.
    private func order(_ table: ShippedTable) -> String {
        table.name == "audit_use" ? "minute, route, client, credential, generation, status_class" : "id"
    }
}
