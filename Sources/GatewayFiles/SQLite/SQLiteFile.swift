package import GRDB
import GatewayHTTP

/// An SQLite file that keeps what was committed, also when the power fails.
package enum SQLiteFile {
    /// Opens or creates the file.
    ///
    /// From then on a lock of another process is an error at once. ``SQLiteWriter`` waits for it.
    ///
    /// - Parameters:
    ///   - label: Names the connection's queue.
    ///   - lockLimit: How long to wait here for another process that holds the file locked.
    package static func open(_ path: String, label: String, lockLimit: Duration) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = label
        configuration.journalMode = .wal
        // Otherwise GRDB traps when a failing disk keeps a transaction from ending.
        configuration.allowsUnsafeTransactions = true
        configuration.busyMode = .timeout(Double(lockLimit.wholeMilliseconds) / 1000)
        let database = try DatabaseQueue(path: path, configuration: configuration)
        try database.inDatabase { database in
            // After opening: GRDB's WAL mode sets NORMAL, which may lose the last commits when the power fails.
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // A reader that lasts makes the write-ahead log long; this makes it short again.
            try database.execute(sql: "PRAGMA journal_size_limit = \(journalLimit)")
            try database.execute(sql: "PRAGMA busy_timeout = 0")
        }
        return database
    }

    private static let journalLimit = 8 << 20

    /// Why SQLite could not do its work, in words for the person who has to act.
    ///
    /// Neither the statement nor SQLite's own message is repeated: they may hold values.
    ///
    /// - Parameters:
    ///   - name: What the file is called in the message.
    ///   - path: Where it is, for a command that helps.
    package static func words(for error: any Error, file name: String, path: String) -> String {
        if let overdue = error as? SQLiteWriter.Overdue { return words(for: overdue.trouble, file: name, path: path) }
        if let newer = error as? SQLiteSchema.Newer { return newer.words(for: name) }
        guard let error = error as? DatabaseError else { return "\(name) cannot be used" }
        let code = error.extendedResultCode.rawValue
        return switch error.resultCode {
        case .SQLITE_FULL: "the disk that holds \(name) is full; free some space"
        case .SQLITE_IOERR:
            "the disk that holds \(name) reports an I/O error (SQLite \(code)); check the disk and the system log"
        case .SQLITE_READONLY: "\(name) is read-only; check the owner and the mode of the file and its directory"
        case .SQLITE_BUSY, .SQLITE_LOCKED: locked(name, path, for: nil)
        case .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_AUTH:
            "\(name) cannot be opened; check that its directory exists and that this user may read and write both"
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            "\(name) is not a sound SQLite database; restore it from a backup or move it away"
        case .SQLITE_CONSTRAINT: "\(name) refuses the row (SQLite \(code)); another program writes to it"
        default: "\(name) cannot be used (SQLite \(code))"
        }
    }

    /// What the writer waits for, in words for the person who has to act.
    package static func words(for trouble: SQLiteWriter.Trouble, file name: String, path: String) -> String {
        switch trouble {
        case .locked(let time): return locked(name, path, for: time)
        case .slow(let time):
            let seconds = time.wholeMilliseconds / 1000
            return "\(name) does not answer: a write has been under way for \(seconds) s; check the disk that holds it"
        }
    }

    private static func locked(_ name: String, _ path: String, for time: Duration?) -> String {
        let waited = time.map { " (waited \($0.wholeMilliseconds / 1000) s so far)" } ?? ""
        return "another process holds a write transaction on \(name)\(waited), so it is locked; end that process, one "
            + "of those that `fuser \(path)` lists"
    }
}
