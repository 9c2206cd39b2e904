import GRDB
import GatewayCore
import GatewayFiles
import Logging
import Synchronization

extension SQLiteAuditLog {
    /// Removes the oldest rows that are past their retention, a bounded number at a time.
    ///
    /// The guards of the table let only rows go that a checkpoint covers: the id and the hash of the last one removed,
    /// chained with the key like the rows themselves. So what is left can still be verified, and a deletion
    /// cannot pass as retention without the key. The newest row always stays, and so do rows that no longer fit: they are
    /// evidence. Rows that a shared database is to have stay until it has them.
    package func prune() async {
        guard let retention = options.retention else { return }
        let now = clock.now().wall
        let cutoff = now + (.zero - retention)
        await repeatedly("old requests were not removed from the audit log") { database in
            try Self.pruneRequests(before: cutoff, in: database) == Self.requestPruneLimit
        }
        await repeatedly("old rows of the audit log were not removed") { [self] database in
            try prune(before: cutoff, at: now, in: database)
        }
    }

    /// Other work gets its turn in between.
    ///
    /// - Parameter step: Tells whether there may be more to do.
    private func repeatedly(_ warning: String, _ step: @escaping @Sendable (Database) throws -> Bool) async {
        var more = true
        while more, !Task.isCancelled {
            do {
                more = try await writer.perform(within: Self.pruneTimeLimit) { [self] in
                    defer { measure() }
                    return try commit(waitingForLock: backgroundLockLimit, step)
                }
            } catch {
                more = false
                suspect()
                let reason = auditError(error, file: options.path).reason
                logger.warning("\(warning)", metadata: ["reason": "\(reason)"])
            }
        }
    }

    private static let pruneTimeLimit: Duration = .seconds(30)
    private static let pruneLimit: Int64 = 2000
    private static let requestPruneLimit = 10_000

    /// The oldest up to the first one that is to stay. Requests are outside the chain, so nothing takes their place.
    ///
    /// - Returns: How many were removed.
    private static func pruneRequests(before cutoff: UnixTime, in database: Database) throws -> Int {
        try database.execute(
            sql: """
                DELETE FROM token_requests WHERE id IN (SELECT id FROM token_requests WHERE id < coalesce(
                    (SELECT id FROM token_requests WHERE at >= ? ORDER BY id LIMIT 1),
                    (SELECT max(id) + 1 FROM token_requests)) ORDER BY id LIMIT ?)
                """,
            arguments: [cutoff.rfc3339, requestPruneLimit]
        )
        return database.changesCount
    }

    /// - Returns: Whether there may be more to remove.
    private func prune(before cutoff: UnixTime, at now: UnixTime, in database: Database) throws -> Bool {
        var mayGoOn = false
        try database.inTransaction(.immediate) {
            try pruneUse(before: cutoff, in: database)
            let removable = state.withLock { options.isShipped ? $0.shipping.removableTo : .max }
            // Before all rows are looked at, again each minute while a database is away.
            let oldest = try Int64.fetchOne(database, sql: "SELECT min(id) FROM token_events") ?? 0
            state.withLock { $0.shipping.holdsRetention = oldest > removable }
            guard oldest <= removable else { return .commit }
            // The oldest rows up to the first one that is to stay: clocks jump, so times need not ascend.
            let range = try Row.fetchOne(
                database,
                sql: """
                    SELECT min(id), coalesce(
                        (SELECT min(id) FROM \(AuditSchema.rows) WHERE at >= ?),
                        (SELECT max(id) FROM \(AuditSchema.rows))) FROM \(AuditSchema.rows)
                    """,
                arguments: [cutoff.rfc3339]
            )
            let bounds = range.map { $0.databaseValues.map { Int64.fromDatabaseValue($0) } } ?? []
            guard bounds.count == 2, let first = bounds[0], let kept = bounds[1], first < kept else { return .commit }
            state.withLock { $0.shipping.holdsRetention = removable < kept - 1 }
            let last = min(kept - 1, first + Self.pruneLimit - 1, removable)
            guard first <= last else { return .commit }
            try requireIntactRows(upTo: last, in: database)
            try checkpoint(upTo: last, at: now, in: database)
            try database.execute(sql: "DELETE FROM token_events WHERE id <= ?", arguments: [last])
            mayGoOn = last < min(kept - 1, removable)
            return .commit
        }
        return mayGoOn
    }

    private func pruneUse(before cutoff: UnixTime, in database: Database) throws {
        let shipped = options.isShipped ? try ShippingMarks.useShippedBefore(in: database) ?? "" : cutoff.rfc3339
        try database.execute(
            sql: "DELETE FROM token_use WHERE minute < ?",
            arguments: [min(cutoff.rfc3339, shipped)]
        )
    }

    private func requireIntactRows(upTo last: Int64, in database: Database) throws {
        let start = try Row.fetchOne(
            database,
            sql: "SELECT pruned_to_id, pruned_to_hash FROM audit_checkpoints ORDER BY id DESC LIMIT 1"
        ).map { Array($0.databaseValues) }
        let position = ChainWalk.Position(
            id: start.flatMap { Int64.fromDatabaseValue($0[0]) } ?? 0,
            hash: start.flatMap { String.fromDatabaseValue($0[1]) } ?? AuditChain.genesis
        )
        var walk = ChainWalk(after: position, chain: chain)
        let sql = "SELECT \(AuditSchema.columnList) FROM \(AuditSchema.rows) WHERE id <= ? ORDER BY id"
        try StatementRow.forEach(of: sql, arguments: [last], in: database) { row in
            do throws(AuditVerifier.Found) {
                try walk.step(to: row)
            } catch {
                throw AuditError("\(error.breach.explanation); it is kept as evidence, run `authgateway audit verify`")
            }
        }
    }

    private func checkpoint(upTo last: Int64, at now: UnixTime, in database: Database) throws {
        guard
            let hash = try String.fetchOne(
                database,
                sql: "SELECT hash FROM token_events WHERE id = ?",
                arguments: [last]
            )
        else { throw AuditError("a row of the audit log is missing; run `authgateway audit verify`") }
        try AuditCheckpoint(prunedTo: last, hash: hash, at: now).append(to: database, chain: chain)
    }
}
