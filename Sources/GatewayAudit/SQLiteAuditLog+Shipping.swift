import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import Synchronization

/// What a shared database gets of the log. Read by the thread that writes, so no row changes under a shipment.
extension SQLiteAuditLog {
    /// Notes for the next start how far the copy is.
    func saveShippingProgress() async {
        guard let row = withShipping({ $0.unsaved }) else { return }
        _ = try? await onThread { [self] database in
            try AuditNotes.set(shippedTo: row, in: database)
            withShipping { $0.saved(row) }
        }
    }

    /// Gives the chain another name, under which all of the log is shipped.
    func takeNewChainName() async throws(AuditError) {
        try await onThread { [self] database in
            var name = ""
            try database.inTransaction(.immediate) {
                name = try AuditNotes.replaceChainName(in: database)
                return .commit
            }
            let removedTo = try AuditNotes.shippedTo(in: database)
            becameChain(name, removedTo: removedTo)
        }
    }

    /// What is to be compared with the copy.
    func facts(for copy: ShippedChain.Copy) async throws(AuditError) -> ShippedChain.Log {
        try await onThread { [self] database in
            let head = try AuditOpening.head(of: database, chain: chain)
            var facts = ShippedChain.Log(end: ShippedChain.Link(id: head.id, hash: head.hash))
            facts.removedTo = try AuditCheckpoint.last(in: database)
            facts.hashAtHead = try Self.hash(of: copy.head?.id, in: "token_events", database)
            facts.hashOfCheckpoint = try Self.hash(of: copy.checkpoint?.id, in: "audit_checkpoints", database)
            return facts
        }
    }

    /// The rows that follow the copy; nil when it has all of them.
    func shipment(after copy: ShippedChain.Copy, _ limits: ShippedRows.Limits) async throws(AuditError)
        -> AuditShipment?
    {
        try await onThread { [self] database in
            let start = try AuditCheckpoint.last(in: database)
            let (checkpoints, lastCheckpoint) = try Self.rows(
                of: .checkpoints,
                "audit_checkpoints NOT INDEXED",
                after: copy.checkpoint?.id ?? 0,
                limits,
                hash: 5,
                in: database
            )
            var after = copy.head ?? ShippedChain.Link(id: 0, hash: AuditChain.genesis)
            var events = ShippedRows(limits)
            // A reader that finds rows behind a gap also finds the checkpoint that explains it.
            if checkpoints.count < limits.rows {
                if let start, start.id > after.id { after = start }
                let last: ShippedChain.Link?
                (events, last) = try Self.rows(
                    of: .events,
                    AuditSchema.rows,
                    after: after.id,
                    limits,
                    hash: AuditSchema.allColumns.count - 1,
                    in: database
                )
                after = last ?? after
            }
            guard checkpoints.count > 0 || after != copy.head else { return nil }
            return AuditShipment(
                chain: chainName,
                before: copy.head,
                after: after,
                events: events,
                checkpoints: checkpoints,
                lastCheckpoint: lastCheckpoint ?? copy.checkpoint
            )
        }
    }

    // MARK: Reading

    private static func hash(of id: Int64?, in table: String, _ database: Database) throws -> String? {
        guard let id else { return nil }
        return try String.fetchOne(database, sql: "SELECT hash FROM \(table) WHERE id = ?", arguments: [id])
    }

    /// - Parameter hash: The number of the column.
    private static func rows(
        of table: ShippedTable,
        _ source: String,
        after id: Int64,
        _ limits: ShippedRows.Limits,
        hash: Int,
        in database: Database
    ) throws -> (ShippedRows, last: ShippedChain.Link?) {
        var (rows, last, isFull) = (ShippedRows(limits), ShippedChain.Link?.none, false)
        try StatementRow.forEach(
            of: "SELECT \(table.list) FROM \(source) WHERE id > ? ORDER BY id LIMIT ?",
            arguments: [id, limits.rows],
            in: database
        ) { row in
            let json = table.json(of: row)
            isFull = isFull || !rows.hasPlace(for: json)
            guard !isFull else { return }
            rows.add(json)
            last = ShippedChain.Link(id: row.integer(at: 0), hash: row.text(at: hash) ?? "")
        }
        return (rows, last)
    }
}

extension SQLiteAuditLog {
    // MARK: Uses. Rows of a minute grow while it lasts, so whole values are shipped, again after each change.

    /// The rows that have changed since they were shipped; nil when the copy has all of them.
    func useShipment(_ limits: ShippedRows.Limits) async throws(AuditError) -> UseShipment? {
        try await onThread { [self] database in
            let cursor = withShipping { $0.takeUseCursor() }
            let since = try AuditNotes.useShippedBefore(in: database) ?? ""
            let condition =
                cursor == nil
                ? "minute >= ?" : "(minute, route, client, credential, generation, status_class) > (?, ?, ?, ?, ?, ?)"
            let arguments = cursor?.arguments ?? [since]
            var (rows, last, count, isFull) = (ShippedRows(limits), UseKey?.none, 0, false)
            try StatementRow.forEach(
                of: """
                    SELECT \(ShippedTable.uses.list) FROM token_use WHERE \(condition)
                    ORDER BY minute, route, client, credential, generation, status_class LIMIT ?
                    """,
                arguments: arguments + [limits.rows],
                in: database
            ) { row in
                count += 1
                let json = ShippedTable.uses.json(of: row)
                isFull = isFull || !rows.hasPlace(for: json)
                guard !isFull else { return }
                rows.add(json)
                last = UseKey(row)
            }
            guard let last else { return nil }
            let isLast = !isFull && count < limits.rows
            return UseShipment(chain: chainName, rows: rows, last: last, isLast: isLast)
        }
    }

    /// The database has them.
    func shipped(_ uses: UseShipment) async throws(AuditError) {
        try await onThread { [self] database in
            guard chainName == uses.chain else { return }
            let next = (UnixTime(rfc3339: uses.last.minute).map { $0 + .seconds(60) })?.rfc3339 ?? uses.last.minute
            let before = withShipping { $0.usesShipped(to: uses.last, isLast: uses.isLast, next: next) }
            try AuditNotes.set(useShippedBefore: before, in: database)
        }
    }

    /// Earlier minutes have no rows any more.
    func firstUse() async throws(AuditError) -> String? {
        try await onThread { database in
            try String.fetchOne(database, sql: "SELECT min(minute) FROM token_use")
                ?? AuditNotes.useShippedBefore(in: database)
        }
    }
}

extension UseKey {
    init(_ row: borrowing StatementRow) {
        minute = row.text(at: 0) ?? ""
        route = row.text(at: 1) ?? ""
        client = row.text(at: 2) ?? ""
        credential = row.text(at: 3) ?? ""
        generation = row.integer(at: 4)
        statusClass = row.integer(at: 5)
    }
}

/// How far the copy of a log in a shared database is.
struct ShippingProgress {
    /// The last row that the database has, as it has said itself; nil before it was asked.
    private var confirmed: Int64?
    /// The same as it was noted earlier.
    private var known: Int64
    /// Retention waits for a shipment.
    private(set) var holdsRetention = false
    /// The last row of `token_use` that was shipped, where more of its minute follow.
    private var useCursor: UseKey?
    /// The earliest minute of `token_use` that has changed since rows were read.
    private var useChangedAt: String?

    init(known: Int64 = 0) { self.known = known }

    /// Retention may remove rows up to this one.
    var removableTo: Int64 { confirmed ?? 0 }

    var shippedTo: Int64 { confirmed ?? known }

    /// What the database has, and the log has not noted yet.
    var unsaved: Int64? { confirmed == known ? nil : confirmed }

    mutating func confirm(to row: Int64) { confirmed = row }

    mutating func saved(_ row: Int64) { known = row }

    mutating func holdRetention(_ isHeld: Bool) { holdsRetention = isHeld }

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
