import GRDB
import GatewayEvents
import GatewayHTTP

/// Finds out at the start where the chain ends, and whether rows are missing.
struct AuditOpening {
    let options: SQLiteAuditLog.Options
    let chain: AuditChain
    let rows: AuditEventRow
    let now: UnixTime

    struct Opened {
        var head: AuditHead
        /// See ``AuditNotes``.
        var chainName = ""
        /// The last row that the shared database is known to have, or that retention has removed.
        var shippedTo: Int64 = 0
        /// Whether the head file names ``head``.
        var isHeadExported = false
        /// What was written.
        var added: [AuditRow] = []
        /// The database was gone.
        var loss: AuditLoss?
    }

    private var path: String { options.path }

    /// In one transaction.
    func open(_ database: Database) throws -> Opened {
        var opened = Opened(head: AuditHead(id: 0, hash: AuditChain.genesis, chain: chain))
        try database.inTransaction(.immediate) {
            let exported = AuditHead.read(for: path)
            if case .head(let known) = exported, known.id > 0, try !database.tableExists("token_events") {
                guard known.isAuthentic(for: chain) else { throw AuditError(Self.headMessage(path)) }
                guard options.onMissing == .recreate else {
                    throw AuditError(AuditFile.loss(of: path, to: known.id, keyPath: options.keyPath))
                }
                opened = try begin(after: known, trigger: .startup, in: database)
                return .commit
            }
            try AuditSchema.create(in: database)
            try requireOwnKey(in: database)
            opened.chainName =
                options.takesNewChainName
                ? try AuditNotes.replaceChainName(in: database) : try AuditNotes.ensureChainName(in: database)
            opened.shippedTo = try AuditNotes.shippedTo(in: database)
            opened.head = try Self.head(of: database, chain: chain)
            try requireExportedHead(exported, in: database, head: opened.head)
            opened.isHeadExported = exported == .head(opened.head)
            return .commit
        }
        return opened
    }

    /// Begins a log in an empty database, in one transaction.
    func beginAnew(after lost: AuditHead, in database: Database) throws -> Opened {
        var opened = Opened(head: lost)
        try database.inTransaction(.immediate) {
            opened = try begin(after: lost, trigger: nil, in: database)
            return .commit
        }
        return opened
    }

    /// The rows go on where the lost ones ended: a checkpoint names the last of them, and the first event tells of the loss.
    private func begin(
        after lost: AuditHead,
        trigger: TokenEvent.Trigger?,
        in database: Database
    ) throws -> Opened {
        try AuditSchema.create(in: database)
        try requireOwnKey(in: database)
        if lost.id > 0 {
            let checkpoint = AuditCheckpoint(prunedTo: lost.id, hash: lost.hash, at: now)
            try checkpoint.append(to: database, chain: chain)
        }
        var event = TokenEvent(at: now, name: .auditRecreated, trigger: trigger, outcome: .failed)
        event.detail = ["lost_to": String(lost.id)]
        var appender = AuditAppender(rows: rows, chain: chain, head: lost)
        try appender.append(event, to: database)
        return Opened(
            head: appender.head,
            chainName: try AuditNotes.ensureChainName(in: database),
            shippedTo: try AuditNotes.shippedTo(in: database),
            added: appender.added,
            loss: AuditLoss(lostTo: lost.id, at: now)
        )
    }

    /// Where the next row is linked to: the last row, or the checkpoint when all rows before it were pruned.
    static func head(of database: Database, chain: AuditChain) throws -> AuditHead {
        let row = try Row.fetchOne(database, sql: "SELECT id, hash FROM \(AuditSchema.rows) ORDER BY id DESC LIMIT 1")
        let found =
            try row
            ?? Row.fetchOne(
                database,
                sql: "SELECT pruned_to_id, pruned_to_hash FROM audit_checkpoints ORDER BY id DESC LIMIT 1"
            )
        guard let found else { return AuditHead(id: 0, hash: AuditChain.genesis, chain: chain) }
        let values = Array(found.databaseValues)
        guard let id = Int64.fromDatabaseValue(values[0]), let hash = String.fromDatabaseValue(values[1]) else {
            throw AuditError("the last row of the audit log was changed; run `authgateway audit verify`")
        }
        return AuditHead(id: id, hash: hash, chain: chain)
    }

    /// - Throws: ``AuditError`` when the table no longer holds the row that `known` names.
    static func requireRow(of known: AuditHead, in database: Database, head: AuditHead, path: String) throws {
        guard known.id > 0, known != head else { return }
        guard try known.id > AuditCheckpoint.prunedTo(in: database) else { return }
        let hash = try String.fetchOne(
            database,
            sql: "SELECT hash FROM token_events WHERE id = ?",
            arguments: [known.id]
        )
        guard hash == known.hash else { throw AuditError(lossMessage(path)) }
    }

    private func requireOwnKey(in database: Database) throws {
        try database.execute(
            sql: "INSERT OR IGNORE INTO audit_log (name, value) VALUES ('key_check', ?)",
            arguments: [chain.keyCheck]
        )
        let found = try AuditNotes.keyCheck(in: database)
        guard found == chain.keyCheck else {
            throw AuditError(
                "the audit log \(path) was written with another installation key; restore the key file "
                    + "(state/token.key) that belongs to it, or move the log and its .head file away"
            )
        }
    }

    private func requireExportedHead(_ exported: AuditHead.Stored, in database: Database, head: AuditHead) throws {
        switch exported {
        case .missing:
            // A crash between the creation of the two files leaves an empty table.
            guard head.id == 0 else {
                throw AuditError(
                    "the head file of the audit log (\(AuditHead.path(for: path))) is missing, so rows may have been "
                        + "cut off; put it back, or move the log away to begin a new one"
                )
            }
        case .unreadable:
            throw AuditError(Self.headMessage(path))
        case .head(let exported):
            guard exported.isAuthentic(for: chain) else { throw AuditError(Self.headMessage(path)) }
            try Self.requireRow(of: exported, in: database, head: head, path: path)
        }
    }

    private static func headMessage(_ path: String) -> String {
        "the head file of the audit log (\(AuditHead.path(for: path))) was changed; run `authgateway audit verify`, and "
            + "move the log and its head file away to begin a new one"
    }

    private static func lossMessage(_ path: String) -> String {
        "rows of the audit log \(path) were removed or changed; run `authgateway audit verify`, and move the log and "
            + "its .head file away to begin a new one"
    }
}
