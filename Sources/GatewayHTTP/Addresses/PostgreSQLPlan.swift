/// A PostgreSQL database and how to reach it.
package struct PostgreSQLPlan: Hashable, Sendable {
    package var url: PostgreSQLURL
    /// Where a pooler is at ``url``: the server itself, for LISTEN.
    package var listenURL: PostgreSQLURL?
    /// For both URLs, unless they hold one.
    package var password: Secret?
    /// The file with the authorities that the server's certificate must come from; nil for those of the system.
    package var authorities: String?

    package init(url: PostgreSQLURL) { self.url = url }
}
