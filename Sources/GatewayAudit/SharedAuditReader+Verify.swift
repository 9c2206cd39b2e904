import GRDB
package import GatewayCore
import GatewayFiles

/// One of the logs that a database holds.
package struct SharedAuditChain: Hashable, Sendable {
    /// What a gateway says of its log, and of the newest row that it has shipped.
    struct Entry: Hashable, Sendable {
        let keyCheck: String
        let headID: Int64
        let headHash: String
    }

    package let name: String
    /// The host of the gateway; nil without an entry.
    package let gateway: String?
    /// nil when rows are there and their entry is not.
    let entry: Entry?

    fileprivate init?(_ row: PostgreSQLRow) {
        guard let name = row.text(0) else { return nil }
        self.name = name
        gateway = row.text(1)
        guard let keyCheck = row.text(2), let headID = row.integer(3), let headHash = row.text(4) else {
            entry = nil
            return
        }
        entry = Entry(keyCheck: keyCheck, headID: headID, headHash: headHash)
    }
}

extension SharedAuditReader {
    /// By host and name.
    package func chains() async throws(AuditError) -> [SharedAuditChain] {
        try await ask(PostgreSQLStatement(Self.chainsQuery, isRepeatable: true)).compactMap { SharedAuditChain($0) }
    }

    /// Copies a chain, recomputes it, and compares it with the newest row that its gateway has shipped.
    ///
    /// - Throws: ``AuditError`` when it cannot be read; a chain that was tampered with is a result.
    package func verify(_ chain: SharedAuditChain, keys: AuditKeys) async throws(AuditError) -> AuditVerification {
        guard let entry = chain.entry else {
            let words = "audit_chain has no entry for these rows, so rows may have been cut off the end"
            return Self.broken(.headMissing, words)
        }
        let key = AuditChain(key: keys.chain)
        let copy = try SharedAuditCopy()
        try await copy.use { database in
            try AuditSchema.create(in: database)
            for name in AuditSchema.guards.keys { try database.execute(sql: "DROP TRIGGER \(name)") }
            let sql = "INSERT INTO audit_log (name, value) VALUES ('key_check', ?)"
            try database.execute(sql: sql, arguments: [entry.keyCheck])
        }
        // Rows of another key cannot be verified, so they are not fetched.
        if entry.keyCheck == key.keyCheck { try await fill(copy, with: chain.name) }
        var evidence = AuditEvidence()
        evidence.isCopy = true
        evidence.shipped = (entry.headID, entry.headHash)
        let verifier = AuditVerifier(chain: key, head: .missing, evidence: evidence)
        return try await copy.use { database in
            if let row = try Self.takeRemovedRows(from: database, key) {
                let words = "row \(row) was changed after it was written, or written without the key"
                return Self.broken(.changed, row: row, words)
            }
            for rule in AuditSchema.guards.values { try database.execute(sql: rule) }
            return try verifier.verify(database)
        }
    }

    /// Checkpoints after the rows: they explain which rows were gone by then.
    private func fill(_ copy: SharedAuditCopy, with chain: String) async throws(AuditError) {
        try await fetch(chain, "audit_event", Self.eventColumns, into: "token_events", of: copy)
        try await fetch(chain, "audit_checkpoint", AuditSchema.checkpointColumns, into: "audit_checkpoints", of: copy)
    }

    /// A gateway removes rows from the database after the checkpoint that stands in their place, some at a time. Those that are left
    /// have gaps, so each is verified alone: its hash covers the number.
    ///
    /// - Returns: The first row that was changed; nil when none was.
    private static func takeRemovedRows(from database: Database, _ chain: AuditChain) throws -> Int64? {
        let condition = "id <= (SELECT max(pruned_to_id) FROM audit_checkpoints)"
        var changed: Int64?
        try StatementRow.forEach(
            of: "SELECT \(AuditSchema.columnList) FROM token_events WHERE \(condition) ORDER BY id",
            in: database
        ) { row in
            guard changed == nil else { return }
            let count = AuditSchema.columns.count
            var link = ChainLink(.event, columns: count, after: row.text(at: count) ?? "", chain: chain)
            if link.follow(row) != .fits { changed = row.integer(at: 0) }
        }
        if changed == nil { try database.execute(sql: "DELETE FROM token_events WHERE \(condition)") }
        return changed
    }

    private func fetch(
        _ chain: String,
        _ table: String,
        _ columns: [String],
        into target: String,
        of copy: SharedAuditCopy
    ) async throws(AuditError) {
        var selection = SharedSelection(key: ["id"], columns: columns, table: "authgateway.\(table)")
        selection.terms.add("chain = ?", [.text(chain)])
        try await forEachRow(of: selection) { rows throws(AuditError) in
            try await copy.insert(rows, into: target, columns)
        }
    }

    private static func broken(
        _ fault: AuditVerification.Fault,
        row: Int64? = nil,
        _ explanation: String
    ) -> AuditVerification {
        var result = AuditVerification(rows: 0, prunedTo: 0)
        result.isCopy = true
        result.breach = AuditVerification.Breach(fault: fault, row: row, explanation: explanation)
        return result
    }

    /// A chain without an entry is found by its rows, from one name to the next one: a look at each row would take long.
    private static let chainsQuery = """
        WITH RECURSIVE found (chain) AS (
            (SELECT chain FROM authgateway.audit_event ORDER BY chain LIMIT 1)
            UNION ALL
            SELECT (SELECT e.chain FROM authgateway.audit_event AS e WHERE e.chain > found.chain ORDER BY e.chain LIMIT 1)
            FROM found WHERE found.chain IS NOT NULL
        ), named (chain) AS (
            SELECT chain FROM found WHERE chain IS NOT NULL UNION SELECT chain FROM authgateway.audit_chain
        )
        SELECT named.chain, c.host, c.key_check, c.head_id, c.head_hash
        FROM named LEFT JOIN authgateway.audit_chain AS c ON c.chain = named.chain
        ORDER BY c.host, named.chain
        """
}
