import GRDB
package import GatewayCore
import GatewayPostgreSQL

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
        guard let entry = chain.entry else { return Self.withoutEntry }
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
            for rule in AuditSchema.guards.values { try database.execute(sql: rule) }
            return try verifier.verify(database)
        }
    }

    private func fill(_ copy: SharedAuditCopy, with chain: String) async throws(AuditError) {
        let pruned = PostgreSQLStatement(
            "SELECT coalesce(max(pruned_to_id), 0) FROM authgateway.audit_checkpoint WHERE chain = $1",
            [.text(chain)],
            isRepeatable: true
        )
        let before = try await ask(pruned).first?.integer(0) ?? 0
        try await fetch(chain, "audit_event", Self.eventColumns, into: "token_events", of: copy)
        try await fetch(chain, "audit_checkpoint", AuditSchema.checkpointColumns, into: "audit_checkpoints", of: copy)
        // Retention may have removed rows while they were fetched.
        try await copy.use { database in
            try database.execute(
                sql: """
                    DELETE FROM token_events
                    WHERE id > ? AND id <= (SELECT coalesce(max(pruned_to_id), 0) FROM audit_checkpoints)
                    """,
                arguments: [before]
            )
        }
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

    private static var withoutEntry: AuditVerification {
        var result = AuditVerification(rows: 0, prunedTo: 0)
        result.isCopy = true
        result.breach = AuditVerification.Breach(
            fault: .headMissing,
            row: nil,
            explanation: "audit_chain has no entry for these rows, so rows may have been cut off the end"
        )
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
