import GatewayCore
import GatewayFiles

/// The statements that keep the copy of a chain. Each is a transaction of its own.
enum ShippingStatement {
    /// How many rows one statement removes.
    static let removalLimit = 2000

    /// - Returns: The head and the last checkpoint: two ids and two hashes.
    static func copy(of chain: String) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT head.head_id, head.head_hash, checkpoint.id, checkpoint.hash FROM (VALUES ($1::text)) AS own (chain)
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
    /// - Returns: No row where the copy does not end as it did.
    static func put(_ uses: UseShipment, head: ShippedChain.Link) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            WITH held AS (SELECT chain FROM authgateway.audit_chain
                WHERE chain = $1::text AND head_id = $2::bigint AND head_hash = $3::text),
            uses AS (\(insertion(.uses, from: 4, where: "held"))
                ON CONFLICT (chain, minute, route, client, credential, generation, status_class) DO UPDATE SET
                    requests = excluded.requests, bytes_received = excluded.bytes_received,
                    bytes_sent = excluded.bytes_sent)
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
