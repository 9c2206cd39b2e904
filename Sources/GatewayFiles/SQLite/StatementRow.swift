package import GRDB
import GRDBSQLite

/// The row that a statement is at, read where SQLite holds it. For queries that visit millions of rows: no value is made of a
/// column, and nothing is allocated.
@safe
package struct StatementRow: ~Copyable {
    package enum Kind { case null, integer, real, text, blob }

    private let statement: SQLiteStatement

    /// Visits each row of the result. The row is valid during the call only.
    package static func forEach(
        of sql: String,
        arguments: StatementArguments = [],
        in database: Database,
        _ body: (borrowing StatementRow) throws -> Void
    ) throws {
        let statement = try database.makeStatement(sql: sql)
        let rows = try Row.fetchCursor(statement, arguments: arguments)
        let row = unsafe StatementRow(statement: statement.sqliteStatement)
        while try rows.next() != nil { try body(row) }
    }

    package func kind(at column: Int) -> Kind {
        switch unsafe sqlite3_column_type(statement, Int32(column)) {
        case SQLITE_NULL: .null
        case SQLITE_INTEGER: .integer
        case SQLITE_FLOAT: .real
        case SQLITE_TEXT: .text
        default: .blob
        }
    }

    /// The value of an integer column.
    package func integer(at column: Int) -> Int64 { unsafe sqlite3_column_int64(statement, Int32(column)) }

    /// The value of a floating-point column.
    package func real(at column: Int) -> Double { unsafe sqlite3_column_double(statement, Int32(column)) }

    /// The bytes of a text, in UTF-8, or of a blob: all of them, also those behind a NUL.
    ///
    /// - Parameter kind: What the column is.
    package func withBytes<Result>(
        at column: Int,
        of kind: Kind,
        _ body: (RawSpan) throws -> Result
    ) rethrows -> Result {
        // The text comes first: SQLite may convert it in that call, and then knows its length (sqlite3_column_blob).
        let start: UnsafeRawPointer? =
            if kind == .text {
                unsafe UnsafeRawPointer(sqlite3_column_text(statement, Int32(column)))
            } else {
                unsafe sqlite3_column_blob(statement, Int32(column))
            }
        let count = unsafe start == nil ? 0 : Int(sqlite3_column_bytes(statement, Int32(column)))
        return try unsafe body(RawSpan(_unsafeBytes: UnsafeRawBufferPointer(start: start, count: count)))
    }

    /// nil when the column is no text.
    package func text(at column: Int) -> String? {
        guard kind(at: column) == .text else { return nil }
        return withBytes(at: column, of: .text) {
            unsafe $0.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
        }
    }

    /// Whether the column is a text of exactly these bytes.
    package func holds(_ text: [UInt8], at column: Int) -> Bool {
        guard kind(at: column) == .text else { return false }
        return withBytes(at: column, of: .text) { $0.holds(text) }
    }
}

extension RawSpan {
    /// Whether it has exactly these bytes.
    package func holds(_ bytes: [UInt8]) -> Bool {
        guard byteCount == bytes.count else { return false }
        for index in bytes.indices where unsafe unsafeLoad(fromByteOffset: index, as: UInt8.self) != bytes[index] {
            return false
        }
        return true
    }
}
