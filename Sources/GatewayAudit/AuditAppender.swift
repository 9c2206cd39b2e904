import GRDB
import GatewayCore

/// Adds rows to the end of the chain, within a transaction of the caller.
struct AuditAppender {
    let rows: AuditEventRow
    let chain: AuditChain
    /// The last row so far.
    var head: AuditHead
    private(set) var added: [AuditRow] = []

    init(rows: AuditEventRow, chain: AuditChain, head: AuditHead) {
        self.rows = rows
        self.chain = chain
        self.head = head
    }

    mutating func append(_ event: TokenEvent, to database: Database) throws {
        let columns = rows.columns(of: event, id: head.id + 1)
        let hash = chain.hash(ofEvent: columns, after: head.hash)
        let values = columns + [head.hash.databaseValue, hash.databaseValue]
        try database.cachedStatement(sql: Self.insertion).execute(arguments: StatementArguments(values))
        head = AuditHead(id: head.id + 1, hash: hash, chain: chain)
        if let row = AuditRow(values) { added.append(row) }
    }

    private static let insertion = """
        INSERT INTO token_events (\(AuditSchema.columnList))
        VALUES (\(AuditSchema.allColumns.map { _ in "?" }.joined(separator: ", ")))
        """
}
