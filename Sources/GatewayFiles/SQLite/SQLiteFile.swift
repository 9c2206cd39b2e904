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
        // Otherwise GRDB traps when a failing disk keeps a transaction from ending.
        configuration.allowsUnsafeTransactions = true
        configuration.busyMode = .timeout(Double(lockLimit.wholeMilliseconds) / 1000)
        let database = try DatabaseQueue(path: path, configuration: configuration)
        try database.inDatabase { database in
            try beginWriteAheadLog(of: database, at: path)
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // A reader that lasts makes the write-ahead log long; this makes it short again.
            try database.execute(sql: "PRAGMA journal_size_limit = \(journalLimit)")
            try database.execute(sql: "PRAGMA busy_timeout = 0")
        }
        return database
    }

    private static let journalLimit = 8 << 20

    /// What GRDB does for `journalMode = .wal`, without its two waits for the disk.
    ///
    /// It also shows at once whether the file can be written.
    private static func beginWriteAheadLog(of database: Database, at path: String) throws {
        guard try String.fetchOne(database, sql: "PRAGMA journal_mode = WAL") == "wal" else {
            throw DatabaseError(message: "the write-ahead log cannot be used")
        }
        // Those who only read cannot make one.
        guard FileStatus.size(of: path + "-wal") ?? 0 == 0 else { return }
        // If the power fails, an empty transaction is lost. The first commit waits for this beginning of the file, too.
        try database.execute(sql: "PRAGMA synchronous = OFF")
        try database.inSavepoint {
            try database.execute(sql: "CREATE TABLE grdb_issue_102 (id INTEGER PRIMARY KEY); DROP TABLE grdb_issue_102")
            return .commit
        }
    }

    /// Copies a database by SQLite's online backup (https://www.sqlite.org/backup.html): one state of it, while another
    /// process may be writing. Blocks.
    ///
    /// The copy is one file: it has no write-ahead log. A failure leaves a part of it.
    ///
    /// - Parameters:
    ///   - target: An empty file that is there, with the mode that the copy is to have.
    ///   - lockLimit: How long another process that holds the file locked is waited for.
    package static func copy(_ source: String, to target: String, lockLimit: Duration) throws {
        var configuration = Configuration()
        configuration.label = "copy-source"
        configuration.readonly = true
        configuration.busyMode = .timeout(Double(lockLimit.wholeMilliseconds) / 1000)
        let from = try DatabaseQueue(path: source, configuration: configuration)
        configuration.label = "copy-target"
        configuration.readonly = false
        let to = try DatabaseQueue(path: target, configuration: configuration)
        // All pages in one step: a change by another process between two steps would begin the copy anew.
        try from.backup(to: to)
        try to.writeWithoutTransaction { database in
            _ = try String.fetchOne(database, sql: "PRAGMA journal_mode = DELETE")
        }
        try to.close()
        try from.close()
    }

    /// Why SQLite could not do its work, in words for the person who has to act.
    ///
    /// Neither the statement nor SQLite's own message is repeated: they may hold values.
    ///
    /// - Parameters:
    ///   - name: What the file is called in the message.
    ///   - path: Where it is, for a command that helps.
    ///   - remedy: What to do if it is damaged.
    package static func words(
        for error: any Error,
        file name: String,
        path: String,
        ifDamaged remedy: String = "restore it from a backup or move it away"
    ) -> String {
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
            "\(name) is not a valid SQLite database; \(remedy)"
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
            + "of those that `fuser \(path)` lists besides the gateway"
    }
}

/// The version of a database's tables, kept in its header (`PRAGMA user_version`). The files of 0.1.0 and before have 0.
package enum SQLiteSchema {
    /// A program with other tables wrote the file.
    package struct Newer: Error, Hashable {
        package let found: Int
        package let known: Int

        /// - Parameter name: What the file is called in the message.
        package func words(for name: String) -> String {
            "\(name) was written by a newer authgateway (schema \(found); this one knows \(known)); run the newer program, or "
                + "restore the file from a backup that this one has written"
        }
    }

    package static func version(of database: Database) throws -> Int {
        try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
    }

    /// - Returns: The version that the file has.
    /// - Throws: ``Newer`` for a file that must be neither read nor written.
    @discardableResult
    package static func require(atMost known: Int, in database: Database) throws -> Int {
        let found = try version(of: database)
        guard found <= known else { throw Newer(found: found, known: known) }
        return found
    }

    /// Says that the tables are those of `version` by now. Within the transaction that made them so.
    package static func set(_ version: Int, in database: Database) throws {
        guard try self.version(of: database) != version else { return }
        try database.execute(sql: "PRAGMA user_version = \(version)")
    }
}
