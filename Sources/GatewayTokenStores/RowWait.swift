/// How long a statement waits for a row that another session holds, such as an open transaction of a person.
///
/// All statements go over one connection, so that a longer wait would delay those on other rows. The limit holds in the
/// transaction of the statement alone: a pooler may hand out the connection per transaction.
enum RowWait {
    /// A condition that is true. It sets the limit before the statement changes a row.
    static let isLimited = "(SELECT set_config('lock_timeout', '500', true)) IS NOT NULL"

    /// A column that ends the limit once the row is changed: commits with notifications wait for each other, which says nothing
    /// of a row.
    static let end = "set_config('lock_timeout', '0', true)"
}
