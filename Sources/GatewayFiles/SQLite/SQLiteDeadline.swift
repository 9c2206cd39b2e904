package import GRDB
import GRDBSQLite

/// Stops statements at a deadline, even while they find no rows.
@safe
package enum SQLiteDeadline {
    /// How many instructions SQLite executes between two looks at the clock: well below a millisecond.
    private static let instructions: Int32 = 10_000

    private struct Limit {
        let end: ContinuousClock.Instant
        var isOver = false
    }

    /// - Parameter end: nil for as long as it takes.
    /// - Returns: nil when a statement of `body` was ended, because it was later than `end`.
    package static func run<Value>(
        until end: ContinuousClock.Instant?,
        in database: Database,
        _ body: () throws -> Value
    ) throws -> Value? {
        guard let end else { return try body() }
        guard let connection = unsafe database.sqliteConnection else { return try body() }
        var limit = Limit(end: end)
        let result = unsafe withUnsafeMutablePointer(to: &limit) { pointer in
            unsafe sqlite3_progress_handler(
                connection,
                instructions,
                { context in
                    guard let limit = unsafe context?.assumingMemoryBound(to: Limit.self) else { return 0 }
                    guard unsafe ContinuousClock.now > limit.pointee.end else { return 0 }
                    unsafe limit.pointee.isOver = true
                    return 1
                },
                pointer
            )
            defer { unsafe sqlite3_progress_handler(connection, 0, nil, nil) }
            return Result { try body() }
        }
        return limit.isOver ? nil : try result.get()
    }
}
