package import GRDB

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
