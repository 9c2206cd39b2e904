import GRDB
import GatewayHTTP

extension SQLiteFile {
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
}
