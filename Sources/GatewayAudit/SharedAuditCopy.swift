import GRDB
import GatewayCore
import GatewayFiles

/// A database that SQLite removes by itself, however the process ends: it is opened without a name, so its file has none, either
/// (https://www.sqlite.org/inmemorydb.html, "Temporary Databases"). Only this user may read it.
struct SharedAuditCopy: Sendable {
    private let database: DatabaseQueue

    init() throws(AuditError) {
        do {
            var configuration = Configuration()
            configuration.label = "audit-copy"
            database = try DatabaseQueue(path: "", configuration: configuration)
        } catch {
            throw Self.words(for: error)
        }
    }

    func use<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(AuditError) -> Value {
        do {
            return try await database.write(body)
        } catch {
            throw Self.words(for: error)
        }
    }

    func insert(_ rows: [[DatabaseValue]], into table: String, _ columns: [String]) async throws(AuditError) {
        let marks = repeatElement("?", count: columns.count).joined(separator: ", ")
        let sql = "INSERT INTO \(table) (\(columns.joined(separator: ", "))) VALUES (\(marks))"
        try await use { database in
            let statement = try database.makeStatement(sql: sql)
            for row in rows { try statement.execute(arguments: StatementArguments(row)) }
        }
    }

    private static func words(for error: any Error) -> AuditError {
        if let error = error as? AuditError { return error }
        let name = "the temporary copy of the audit log (in TMPDIR, or /var/tmp)"
        return AuditError(SQLiteFile.words(for: error, file: name, path: "/var/tmp"))
    }
}
