package import GRDB
import GatewayCore

/// An SQLite file that keeps what was committed, also when the power fails.
package enum SQLiteFile {
    /// Opens or creates the file.
    ///
    /// - Parameters:
    ///   - label: Names the connection's queue.
    ///   - busyTimeout: How long to wait for another process that holds the file locked.
    package static func open(_ path: String, label: String, busyTimeout: Duration) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = label
        configuration.journalMode = .wal
        // Otherwise GRDB traps when a failing disk keeps a transaction from ending.
        configuration.allowsUnsafeTransactions = true
        configuration.busyMode = .timeout(Double(busyTimeout.wholeMilliseconds) / 1000)
        let database = try DatabaseQueue(path: path, configuration: configuration)
        // After opening: GRDB's WAL mode sets NORMAL, which may lose the last commits when the power fails.
        try database.inDatabase { try $0.execute(sql: "PRAGMA synchronous = FULL") }
        return database
    }

    /// Why SQLite could not do its work, in words for the person who has to act.
    ///
    /// Neither the statement nor SQLite's own message is repeated: they may hold values.
    ///
    /// - Parameter name: What the file is called in the message.
    package static func words(for error: any Error, file name: String) -> String {
        guard let error = error as? DatabaseError else { return "\(name) cannot be used" }
        let code = error.extendedResultCode.rawValue
        return switch error.resultCode {
        case .SQLITE_FULL: "the disk that holds \(name) is full; free some space"
        case .SQLITE_IOERR:
            "the disk that holds \(name) reports an I/O error (SQLite \(code)); check the disk and the system log"
        case .SQLITE_READONLY: "\(name) is read-only; check the owner and the mode of the file and its directory"
        case .SQLITE_BUSY, .SQLITE_LOCKED: "another program holds \(name) locked; close it"
        case .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_AUTH:
            "\(name) cannot be opened; check that its directory exists and that this user may read and write both"
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            "\(name) is not a sound SQLite database; restore it from a backup or move it away"
        case .SQLITE_CONSTRAINT: "\(name) refuses the row (SQLite \(code)); another program writes to it"
        default: "\(name) cannot be used (SQLite \(code))"
        }
    }
}
