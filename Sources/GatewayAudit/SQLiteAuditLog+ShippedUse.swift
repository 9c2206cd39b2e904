import GRDB
import GatewayCore
import GatewayFiles
import Synchronization

/// The copy of `token_use`. Rows of a minute grow while it lasts, so whole values are shipped, again after each change.
extension SQLiteAuditLog {
    /// The rows that have changed since they were shipped; nil when the copy has all of them.
    func useShipment(_ limits: ShippedRows.Limits) async throws(AuditError) -> UseShipment? {
        try await shipping { log, database in
            let cursor = log.state.withLock { $0.shipping.takeUseCursor() }
            let since = try ShippingMarks.useShippedBefore(in: database) ?? ""
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
            return UseShipment(chain: log.chainName, rows: rows, last: last, isLast: isLast)
        }
    }

    /// The database has them.
    func shipped(_ uses: UseShipment) async throws(AuditError) {
        try await shipping { log, database in
            guard log.chainName == uses.chain else { return }
            let next = (UnixTime(rfc3339: uses.last.minute).map { $0 + .seconds(60) })?.rfc3339 ?? uses.last.minute
            let before = log.state.withLock {
                $0.shipping.usesShipped(to: uses.last, isLast: uses.isLast, next: next)
            }
            try ShippingMarks.set(useShippedBefore: before, in: database)
        }
    }

    /// Earlier minutes have no rows any more.
    func firstUse() async throws(AuditError) -> String? {
        try await shipping { _, database in
            try String.fetchOne(database, sql: "SELECT min(minute) FROM token_use")
                ?? ShippingMarks.useShippedBefore(in: database)
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
