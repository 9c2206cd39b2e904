import GRDB
package import GatewayCore
import GatewayFiles

/// A copy of the log with a head file of its own, for a backup.
package struct AuditSnapshot: Sendable {
    /// The newest row; 0 without one.
    package let lastRow: Int64
    /// The version of the tables.
    package let schema: Int

    /// Copies the log to `target`, which must not exist, while a gateway may be writing. Blocks.
    ///
    /// The head file names the end of the copy, which may be later than the log's own head file says.
    package static func make(_ source: String, to target: String, keys: AuditKeys) throws(AuditError) -> AuditSnapshot {
        let chain = AuditChain(key: keys.chain)
        do {
            try PrivateFile.createNew(target, content: [])
            try SQLiteFile.copy(source, to: target, lockLimit: .seconds(5))
            let (head, schema) = try AuditReader.open(target).read { database in
                try SQLiteSchema.require(atMost: AuditSchema.version, in: database)
                guard try database.tableExists("token_events") else {
                    throw AuditError("\(source) is not an audit log of a gateway")
                }
                return (
                    try AuditOpening.head(of: database, chain: chain), try SQLiteSchema.version(of: database)
                )
            }
            try head.write(for: target)
            return AuditSnapshot(lastRow: head.id, schema: schema)
        } catch let failure as PrivateFile.Failure {
            throw AuditError("\(target) cannot be made: \(failure.reason)")
        } catch {
            throw auditError(error, file: source)
        }
    }
}
