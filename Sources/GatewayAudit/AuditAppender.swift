package import Crypto
import Foundation
import GRDB
import GatewayEvents
import GatewayHTTP

/// Adds rows to the end of the chain, within a transaction of the caller.
struct AuditAppender {
    let rows: AuditEventRow
    let chain: AuditChain
    /// The last row so far.
    var head: AuditHead
    var added: [AuditRow] = []

    mutating func append(_ event: TokenEvent, to database: Database) throws {
        let (id, overflows) = head.id.addingReportingOverflow(1)
        guard !overflows else {
            throw AuditError("the last row of the audit log was changed; run `authgateway audit verify`")
        }
        let columns = rows.columns(of: event, id: id)
        let hash = chain.hash(ofEvent: columns, after: head.hash)
        let values = columns + [head.hash.databaseValue, hash.databaseValue]
        try database.cachedStatement(sql: Self.insertion).execute(arguments: StatementArguments(values))
        head = AuditHead(id: id, hash: hash, chain: chain)
        if let row = AuditRow(values) { added.append(row) }
    }

    private static let insertion = """
        INSERT INTO token_events (\(AuditSchema.columnList))
        VALUES (\(AuditSchema.allColumns.map { _ in "?" }.joined(separator: ", ")))
        """
}

/// Turns an event into the columns of its row. What clients and authorities had a say in is made harmless here, so that
/// every reader of the file is safe, the `sqlite3` shell included.
struct AuditEventRow {
    let keys: AuditKeys
    let instance: String

    /// The columns that the chain covers, in the order of the table.
    func columns(of event: TokenEvent, id: Int64) -> [DatabaseValue] {
        [
            id.databaseValue,
            event.at.rfc3339.databaseValue,
            event.name.rawValue.databaseValue,
            text(event.credential),
            text(event.strategy),
            text(event.subject),
            number(event.generation),
            text(event.trigger?.rawValue),
            text(event.demand?.route),
            text(event.demand?.client),
            text(event.demand?.requestID),
            event.outcome.rawValue.databaseValue,
            number(event.httpStatus),
            text(event.errorCode),
            text(event.expiresAt?.rfc3339),
            event.duration.map(\.wholeMilliseconds)?.databaseValue ?? .null,
            number(event.waiters),
            text(event.token?.withValue { keys.fingerprint(of: $0) }),
            SafeText.singleLine(instance).databaseValue,
            SafeText.json(detail(of: event)).databaseValue,
        ]
    }

    /// The client's own id of the request is read from here (``AuditSchema``), so that the chain covers it.
    private func detail(of event: TokenEvent) -> [String: String] {
        guard let id = event.demand?.clientRequestID else { return event.detail }
        return event.detail.merging(["client_request_id": id]) { $1 }
    }

    private func text(_ text: String?) -> DatabaseValue { text.map { SafeText.singleLine($0) }?.databaseValue ?? .null }

    private func number(_ number: Int?) -> DatabaseValue { number?.databaseValue ?? .null }
}

/// Stands for rows that were removed: their last id and hash, chained with the key.
struct AuditCheckpoint {
    let prunedTo: Int64
    let hash: String
    let at: UnixTime

    /// The last row that is not there any more; 0 when none was removed.
    static func prunedTo(in database: Database) throws -> Int64 {
        try Int64.fetchOne(database, sql: "SELECT coalesce(max(pruned_to_id), 0) FROM audit_checkpoints") ?? 0
    }

    /// The row that the newest checkpoint stands for.
    static func last(in database: Database) throws -> ShippedChain.Link? {
        let row = try Row.fetchOne(
            database,
            sql: "SELECT pruned_to_id, pruned_to_hash FROM audit_checkpoints ORDER BY id DESC LIMIT 1"
        ).map { Array($0.databaseValues) }
        guard let row, let id = Int64.fromDatabaseValue(row[0]), let hash = String.fromDatabaseValue(row[1]) else {
            return nil
        }
        return ShippedChain.Link(id: id, hash: hash)
    }

    /// Within a transaction of the caller.
    func append(to database: Database, chain: AuditChain) throws {
        let latest = try Row.fetchOne(database, sql: "SELECT id, hash FROM audit_checkpoints ORDER BY id DESC LIMIT 1")
        let values = latest.map { Array($0.databaseValues) }
        let id = (values.flatMap { Int64.fromDatabaseValue($0[0]) } ?? 0) &+ 1
        let previous = values.flatMap { String.fromDatabaseValue($0[1]) } ?? AuditChain.genesis
        let columns = [id.databaseValue, at.rfc3339.databaseValue, prunedTo.databaseValue, hash.databaseValue]
        let link = chain.hash(ofCheckpoint: columns, after: previous)
        try database.execute(
            sql: """
                INSERT INTO audit_checkpoints (id, at, pruned_to_id, pruned_to_hash, previous_hash, hash)
                VALUES (?, ?, ?, ?, ?, ?)
                """,
            arguments: StatementArguments(columns + [previous.databaseValue, link.databaseValue])
        )
    }
}

/// The keys of the audit log, derived from the installation's key where the program is assembled.
package struct AuditKeys: Sendable {
    let chain: SymmetricKey
    let fingerprint: SymmetricKey

    /// - Parameters:
    ///   - chain: The subkey `audit-chain`: links the rows.
    ///   - fingerprint: The subkey `token-fingerprint`: names tokens without revealing them.
    package init(chain: SymmetricKey, fingerprint: SymmetricKey) {
        self.chain = chain
        self.fingerprint = fingerprint
    }

    /// The first twelve hexadecimal digits of a keyed digest: equal for equal tokens, and no way back.
    func fingerprint(of token: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Array(token.utf8), using: fingerprint)
        return String(Hexadecimal.text(of: code).prefix(12))
    }
}
