import GRDB

/// How far the copy of a log in a shared database is.
struct ShippingProgress {
    /// The last row that the database has, as it has said itself; nil before it was asked.
    var confirmed: Int64?
    /// The same as it was noted earlier.
    var known: Int64 = 0
    /// Retention waits for a shipment.
    var holdsRetention = false
    /// The last row of `token_use` that was shipped, where more of its minute follow.
    var useCursor: UseKey?
    /// The earliest minute of `token_use` that has changed since rows were read.
    var useChangedAt: String?

    init(known: Int64 = 0) { self.known = known }

    /// Retention may remove rows up to this one.
    var removableTo: Int64 { confirmed ?? 0 }

    var shippedTo: Int64 { confirmed ?? known }

    mutating func noteUse(changedAt minute: String) { useChangedAt = min(useChangedAt ?? minute, minute) }

    /// Where to read on. Rows that have changed are read again.
    mutating func takeUseCursor() -> UseKey? {
        if let useChangedAt, let cursor = useCursor, useChangedAt <= cursor.minute { useCursor = nil }
        useChangedAt = nil
        return useCursor
    }

    /// The database has these rows.
    ///
    /// - Returns: The minute before which it has all of them.
    mutating func usesShipped(to last: UseKey, isLast: Bool, next minute: String) -> String {
        let before = isLast ? minute : last.minute
        useCursor = isLast ? nil : last
        guard let useChangedAt, useChangedAt <= last.minute else { return before }
        useCursor = nil
        return min(before, useChangedAt)
    }
}

/// The key of a row of `token_use`.
struct UseKey: Hashable, Sendable {
    let minute: String
    let route: String
    let client: String
    let credential: String
    let generation: Int64
    let statusClass: Int64

    var arguments: StatementArguments { [minute, route, client, credential, generation, statusClass] }
}
