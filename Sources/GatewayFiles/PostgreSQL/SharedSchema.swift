/// The version of all tables in the schema `authgateway`. It stands in `authgateway.store`.
package enum SharedSchema {
    /// Counts the changes of the tables. A program refuses tables of a newer one.
    package static let version: Int64 = 1

    /// Has no row when no version is stored.
    package static let question = PostgreSQLStatement(
        "SELECT value::bigint FROM authgateway.store WHERE name = 'schema'",
        isRepeatable: true
    )

    /// nil when this program knows the tables, otherwise what to do.
    ///
    /// - Parameter name: What the database is called in the message.
    package static func problem(with found: Int64, in name: String) -> String? {
        guard found > version else { return nil }
        return "\(name) was written by a newer authgateway (schema \(found); this one knows \(version)); run the newer "
            + "program here, too"
    }
}
