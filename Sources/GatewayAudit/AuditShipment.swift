import GatewayEvents
import GatewayFiles
import GatewayHTTP

/// Rows on their way to a shared database, as JSON arrays with the values that the local log has.
struct AuditShipment: Sendable {
    let chain: String
    /// The end of the copy before these rows; nil when there is none.
    let before: ShippedChain.Link?
    let after: ShippedChain.Link
    let events: ShippedRows
    let checkpoints: ShippedRows
    let lastCheckpoint: ShippedChain.Link?
}

/// Rows of `token_use`.
struct UseShipment: Sendable {
    let chain: String
    let rows: ShippedRows
    let last: UseKey
    /// No other rows follow at the moment.
    let isLast: Bool
}

/// Rows of one table as a JSON array, within limits of rows and bytes.
struct ShippedRows: Sendable {
    struct Limits: Sendable {
        var rows = 500
        var bytes = 1 << 20
    }

    private let limits: Limits
    private var text = "["
    private(set) var count = 0

    init(_ limits: Limits) { self.limits = limits }

    var json: String { text + "]" }

    /// One row always has a place.
    func hasPlace(for row: String) -> Bool {
        count == 0 || count < limits.rows && text.utf8.count + row.utf8.count < limits.bytes
    }

    mutating func add(_ row: String) {
        if count > 0 { text += "," }
        text += row
        count += 1
    }
}

/// A table of the local log that has a copy in a shared database.
struct ShippedTable {
    struct Column {
        let name: String
        let isNumber: Bool

        /// As both databases spell it: `trigger` is a word of SQL.
        var quoted: String { "\"\(name)\"" }
        var definition: String { "\(quoted) \(isNumber ? "bigint" : "text")" }
    }

    let name: String
    let columns: [Column]

    private init(_ name: String, _ columns: [String], numbers: Set<String>) {
        self.name = name
        self.columns = columns.map { Column(name: $0, isNumber: numbers.contains($0)) }
    }

    static let events = ShippedTable(
        "audit_event",
        AuditSchema.allColumns + ["client_request_id"],
        numbers: ["id", "generation", "http_status", "duration_ms", "waiters"]
    )
    static let checkpoints = ShippedTable(
        "audit_checkpoint",
        AuditSchema.checkpointColumns,
        numbers: ["id", "pruned_to_id"]
    )
    static let uses = ShippedTable(
        "audit_use",
        AuditSchema.useColumns,
        numbers: Set(AuditSchema.useCounts + ["generation", "status_class"])
    )

    /// The same, in a database whose tables 0.1.0 made: the refusals have no columns there, and are left out.
    static let usesWithoutRefusals = ShippedTable(
        "audit_use",
        AuditSchema.useColumns.filter { !AuditSchema.refusalColumns.contains($0) },
        numbers: Set(AuditSchema.useCounts + ["generation", "status_class"])
    )

    var list: String { columns.map(\.quoted).joined(separator: ", ") }
    var definitions: String { columns.map(\.definition).joined(separator: ", ") }

    /// A JSON object. NULL has no member.
    ///
    /// The gateway writes no NUL (``SafeText``), and PostgreSQL cannot store one. A row that somebody has put one into is
    /// shipped with `\u0000` as text, so it holds up nothing, and does not fit its hash there either.
    func json(of row: borrowing StatementRow) -> String {
        var members: [String] = []
        for (index, column) in columns.enumerated() {
            switch row.kind(at: index) {
            case .integer where column.isNumber: members.append("\"\(column.name)\":\(row.integer(at: index))")
            case .integer: members.append("\"\(column.name)\":\"\(row.integer(at: index))\"")
            case .text where !column.isNumber:
                let text = row.text(at: index) ?? ""
                members.append("\"\(column.name)\":" + JSONString.quoted(Self.withoutNUL(text)))
            default: break
            }
        }
        return "{\(members.joined(separator: ","))}"
    }

    static func withoutNUL(_ text: String) -> String {
        guard text.utf8.contains(0) else { return text }
        return text.split(separator: "\0", omittingEmptySubsequences: false).joined(separator: "\\u0000")
    }
}

/// The statements that keep the copy of a chain. Each is a transaction of its own.
enum ShippingStatement {
    /// How many rows one statement removes.
    static let removalLimit = 2000

    /// - Returns: The head and the last checkpoint: two ids and two hashes; then whether the table of uses has columns for refusals.
    static func copy(of chain: String) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT head.head_id, head.head_hash, checkpoint.id, checkpoint.hash, EXISTS (SELECT FROM pg_attribute
                WHERE attrelid = 'authgateway.audit_use'::regclass AND NOT attisdropped
                AND attname = '\(AuditSchema.refusalColumns[0])') FROM (VALUES ($1::text)) AS own (chain)
            LEFT JOIN authgateway.audit_chain head ON head.chain = own.chain
            LEFT JOIN LATERAL (SELECT id, hash FROM authgateway.audit_checkpoint WHERE chain = own.chain
                ORDER BY id DESC LIMIT 1) checkpoint ON true
            """,
            [.text(chain)],
            isRepeatable: true
        )
    }

    /// Adds rows where the copy still ends as it did. So two logs with one name cannot mix their rows: one of them gets no row back.
    static func add(_ shipment: AuditShipment, host: String, keyCheck: String) -> PostgreSQLStatement {
        let genesis = shipment.before ?? ShippedChain.Link(id: -1, hash: "")
        return PostgreSQLStatement(
            """
            WITH moved AS (INSERT INTO authgateway.audit_chain AS own (chain, host, key_check, head_id, head_hash)
                VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::text)
                ON CONFLICT (chain) DO UPDATE SET host = excluded.host, key_check = excluded.key_check,
                    head_id = excluded.head_id, head_hash = excluded.head_hash
                WHERE own.head_id = $6::bigint AND own.head_hash = $7::text
                RETURNING chain),
            checkpoints AS (\(insertion(.checkpoints, from: 8, where: "moved")) ON CONFLICT DO NOTHING),
            events AS (\(insertion(.events, from: 9, where: "moved")) ON CONFLICT DO NOTHING)
            SELECT chain FROM moved
            """,
            [
                .text(shipment.chain), .text(host), .text(keyCheck), .integer(shipment.after.id),
                .text(shipment.after.hash), .integer(genesis.id), .text(genesis.hash),
                .text(shipment.checkpoints.json), .text(shipment.events.json),
            ],
            isRepeatable: true
        )
    }

    /// Writes whole values, so twice is as good as once.
    ///
    /// - Parameter hasRefusals: Whether the table has columns for them.
    /// - Returns: No row where the copy does not end as it did.
    static func put(_ uses: UseShipment, head: ShippedChain.Link, hasRefusals: Bool) -> PostgreSQLStatement {
        let table = hasRefusals ? ShippedTable.uses : .usesWithoutRefusals
        let counts = AuditSchema.useCounts.filter { hasRefusals || !AuditSchema.refusalColumns.contains($0) }
        return PostgreSQLStatement(
            """
            WITH held AS (SELECT chain FROM authgateway.audit_chain
                WHERE chain = $1::text AND head_id = $2::bigint AND head_hash = $3::text),
            uses AS (\(insertion(table, from: 4, where: "held"))
                ON CONFLICT (chain, \(AuditSchema.useKey.joined(separator: ", "))) DO UPDATE SET
                    \(counts.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")))
            SELECT chain FROM held
            """,
            [.text(uses.chain), .integer(head.id), .text(head.hash), .text(uses.rows.json)],
            isRepeatable: true
        )
    }

    /// Removes rows that a checkpoint stands for.
    ///
    /// - Returns: How many.
    static func removeEvents(of chain: String, upTo id: Int64) -> PostgreSQLStatement {
        removal("authgateway.audit_event", "chain = $1::text AND id <= $2::bigint", [.text(chain), .integer(id)])
    }

    static func removeUses(of chain: String, before minute: String) -> PostgreSQLStatement {
        removal("authgateway.audit_use", "chain = $1::text AND minute < $2::text", [.text(chain), .text(minute)])
    }

    private static func removal(
        _ table: String,
        _ condition: String,
        _ parameters: [PostgreSQLStatement.Parameter]
    ) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            WITH gone AS (DELETE FROM \(table) WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM \(table) WHERE \(condition) LIMIT \(removalLimit))) RETURNING 1)
            SELECT count(*) FROM gone
            """,
            parameters,
            isRepeatable: true
        )
    }

    private static func insertion(_ table: ShippedTable, from parameter: Int, where condition: String) -> String {
        """
        INSERT INTO authgateway.\(table.name) (chain, \(table.list))
            SELECT \(condition).chain, shipped.* FROM \(condition),
            json_to_recordset($\(parameter)::json) AS shipped (\(table.definitions))
        """
    }
}
