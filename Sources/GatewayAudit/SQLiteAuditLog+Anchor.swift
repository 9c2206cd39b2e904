import GRDB
package import GatewayCore
import GatewayFiles
import Synchronization

extension SQLiteAuditLog {
    /// The last committed row, to be sent to the anchor; nil for an empty log.
    package func headToAnchor() -> AnchoredHead? {
        let head = state.withLock { $0.head }
        return head.id > 0 ? AnchoredHead(head, at: clock.now().wall) : nil
    }

    /// Looks for the rows that an anchor names.
    ///
    /// - Returns: What does not fit, for a person; nil when all of them are there, or were removed by retention.
    package func contradiction(of anchored: [AnchoredHead]) async throws(AuditError) -> String? {
        do {
            return try await writer.perform(within: options.recordLimit) {
                try self.writer.write { try self.contradiction(of: anchored, in: $0) }
            }
        } catch {
            throw auditError(error, file: options.path)
        }
    }

    private func contradiction(of anchored: [AnchoredHead], in database: Database) throws -> String? {
        var evidence = AuditEvidence()
        evidence.anchor = anchored
        let end = try AuditOpening.head(of: database, chain: chain).id
        let pruned =
            try Int64.fetchOne(database, sql: "SELECT coalesce(max(pruned_to_id), 0) FROM audit_checkpoints") ?? 0
        let row = try database.makeStatement(sql: "SELECT hash FROM token_events WHERE id = ?")
        do {
            for mark in try evidence.marks(for: chain) where mark.id > pruned {
                guard mark.id <= end else { throw mark.absence(behind: end) }
                guard try String.fetchOne(row, arguments: [mark.id]) == mark.hash else { throw mark.contradiction }
            }
            return nil
        } catch let found as AuditVerifier.Found {
            return found.breach.explanation
        }
    }
}
