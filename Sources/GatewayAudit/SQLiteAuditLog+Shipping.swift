import GRDB
import GatewayCore
import GatewayFiles
import Synchronization

/// What a shared database gets of the log. Read by the thread that writes, so no row changes under a shipment.
extension SQLiteAuditLog {
    /// The id of the last committed row.
    package var lastRow: Int64 { state.withLock { $0.head.id } }

    /// Events that the database does not have yet, as far as is known.
    package var unshippedEvents: Int {
        state.withLock { Int(max(0, $0.head.id - $0.shipping.shippedTo)) }
    }

    func noteShipped(to row: Int64) { state.withLock { $0.shipping.confirmed = row } }

    /// Notes for the next start how far the copy is.
    func saveShippingProgress() async {
        guard
            let row = state.withLock({
                $0.shipping.confirmed.flatMap { [known = $0.shipping.known] in $0 == known ? nil : $0 }
            })
        else { return }
        _ = try? await shipping { log, database in
            try ShippingMarks.set(shippedTo: row, in: database)
            log.state.withLock { $0.shipping.known = row }
        }
    }

    /// Gives the chain another name, under which all of the log is shipped.
    func takeNewChainName() async throws(AuditError) {
        try await shipping { log, database in
            var name = ""
            try database.inTransaction(.immediate) {
                name = try AuditChainName.replace(in: database)
                return .commit
            }
            let removedTo = try ShippingMarks.shippedTo(in: database)
            log.state.withLock { state in
                state.chainName = name
                state.shipping = ShippingProgress(known: removedTo)
            }
        }
    }

    /// What is to be compared with the copy.
    func facts(for copy: ShippedChain.Copy) async throws(AuditError) -> ShippedChain.Log {
        try await shipping { log, database in
            let head = try AuditOpening.head(of: database, chain: log.chain)
            var facts = ShippedChain.Log(end: ShippedChain.Link(id: head.id, hash: head.hash))
            facts.removedTo = try Self.removedTo(in: database)
            facts.hashAtHead = try Self.hash(of: copy.head?.id, in: "token_events", database)
            facts.hashOfCheckpoint = try Self.hash(of: copy.checkpoint?.id, in: "audit_checkpoints", database)
            return facts
        }
    }

    /// The rows that follow the copy; nil when it has all of them.
    func shipment(after copy: ShippedChain.Copy, _ limits: ShippedRows.Limits) async throws(AuditError)
        -> AuditShipment?
    {
        try await shipping { log, database in
            let start = try Self.removedTo(in: database)
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
                chain: log.chainName,
                before: copy.head,
                after: after,
                events: events,
                checkpoints: checkpoints,
                lastCheckpoint: lastCheckpoint ?? copy.checkpoint
            )
        }
    }

    /// Runs `body` on the thread that writes.
    func shipping<Value: Sendable>(
        _ body: @escaping @Sendable (SQLiteAuditLog, Database) throws -> Value
    ) async throws(AuditError) -> Value {
        do {
            return try await writer.perform(within: options.recordLimit) {
                try self.writer.write { try body(self, $0) }
            }
        } catch {
            throw auditError(error, file: options.path)
        }
    }

    // MARK: Reading

    private static func removedTo(in database: Database) throws -> ShippedChain.Link? {
        let row = try Row.fetchOne(
            database,
            sql: "SELECT pruned_to_id, pruned_to_hash FROM audit_checkpoints ORDER BY id DESC LIMIT 1"
        ).map { Array($0.databaseValues) }
        guard let row, let id = Int64.fromDatabaseValue(row[0]), let hash = String.fromDatabaseValue(row[1]) else {
            return nil
        }
        return ShippedChain.Link(id: id, hash: hash)
    }

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
