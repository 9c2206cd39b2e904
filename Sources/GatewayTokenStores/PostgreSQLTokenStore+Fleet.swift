package import GatewayCore
import GatewayFiles

extension PostgreSQLTokenStore: SharedFleet {
    package var sharedFleet: (any SharedFleet)? { self }

    package func beat(_ heartbeat: FleetHeartbeat) async throws(TokenStoreError) -> UnixTime {
        guard let time = try await aside(FleetStatement.beat(heartbeat)).first?.integer(0) else {
            throw .unavailable(
                "a gateway that was started later has the same id, \(heartbeat.id), since one state directory is a copy of "
                    + "the other; one of them takes a new id when it ships its audit log. If this lasts, stop the copy, and "
                    + "run `authgateway state backup FOLDER` and `authgateway state restore FOLDER --replace` there"
            )
        }
        return UnixTime(milliseconds: time)
    }

    package func leave(_ id: String) async throws(TokenStoreError) { _ = try await aside(FleetStatement.leave(id)) }

    package func members() async throws(TokenStoreError) -> [FleetMember] {
        try await aside(FleetStatement.members).compactMap { FleetMember($0) }
    }

    package func call() async throws(TokenStoreError) -> FleetMark {
        guard let mark = try await aside(FleetStatement.take).first?.integer(0) else {
            throw .unavailable("\(name) does not tell its transactions")
        }
        return FleetMark(mark)
    }

    /// The rights on the table of gateways that a heartbeat needs, and that the role does not have.
    package func missingFleetRights() async throws(TokenStoreError) -> [String] {
        try await aside(FleetStatement.missingRights).compactMap { $0.text(0) }
    }

    package func calls() -> AsyncStream<Void> { feed.calls.stream() }

    /// Its failure says nothing of the tokens, so that ``failure`` stays as it is.
    private func aside(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> [PostgreSQLRow] {
        try await ensureReady()
        return try await ask(statement)
    }
}

/// The statements on the table of gateways. Each is a transaction of its own.
enum FleetStatement {
    /// What a notification of ``take`` says in the place of a record.
    static let call = "follow"
    private static let maximumMembers = 1000

    /// The last transaction that had ended when the statement began. So all that was committed before it began is visible: the
    /// oldest transaction under way does not matter, which may last for hours.
    static let upTo = "(pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)"

    /// Its row is the time; without a row another gateway has the same id, and stands in the table.
    ///
    /// Nothing waits for a disk: a heartbeat that is lost is followed by the next one. Nor does it wait for a session that has
    /// locked the row, because statements about tokens are behind it.
    static func beat(_ heartbeat: FleetHeartbeat) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            WITH gone AS (DELETE FROM authgateway.gateway WHERE id IN (SELECT id FROM authgateway.gateway
            WHERE seen_at < clock_timestamp() - interval '1 day' AND id <> $1::text FOR UPDATE SKIP LOCKED))
            INSERT INTO authgateway.gateway AS g (id, host, version, started_at, configuration, clock_offset_ms, unshipped,
            acknowledged, seen_at) SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::bigint, $7::bigint,
            least($8::bigint, \(upTo)), clock_timestamp()
            WHERE \(RowWait.isLimited)
            ON CONFLICT (id) DO UPDATE SET host = excluded.host, version = excluded.version,
            started_at = excluded.started_at, configuration = excluded.configuration,
            clock_offset_ms = excluded.clock_offset_ms, unshipped = excluded.unshipped,
            acknowledged = excluded.acknowledged, seen_at = excluded.seen_at
            WHERE g.started_at <= excluded.started_at OR g.seen_at < clock_timestamp() - interval '5 seconds'
            RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
            set_config('synchronous_commit', 'off', true)
            """,
            [
                .text(heartbeat.id), .text(heartbeat.host), .text(heartbeat.version), .text(heartbeat.startedAt),
                .text(heartbeat.configurationDigest), .integer(heartbeat.clockOffset.wholeMilliseconds),
                .integer(Int64(heartbeat.unshipped)), .integer(heartbeat.acknowledged.transaction),
            ],
            isRepeatable: true
        )
    }

    static func leave(_ id: String) -> PostgreSQLStatement {
        PostgreSQLStatement("DELETE FROM authgateway.gateway WHERE id = $1::text", [.text(id)], isRepeatable: true)
    }

    static let members = PostgreSQLStatement(
        """
        SELECT id, host, version, started_at, configuration, clock_offset_ms, unshipped, acknowledged,
        (extract(epoch FROM clock_timestamp() - least(seen_at, clock_timestamp())) * 1000)::bigint
        FROM authgateway.gateway WHERE seen_at >= clock_timestamp() - interval '1 day'
        ORDER BY seen_at DESC LIMIT \(maximumMembers)
        """,
        isRepeatable: true
    )

    static let missingRights = PostgreSQLStatement(
        """
        SELECT privilege FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
        WHERE NOT has_table_privilege('authgateway.gateway', privilege)
        """,
        isRepeatable: true
    )

    /// A new transaction: a gateway that sees its end sees all that was committed before.
    static let take = PostgreSQLStatement(
        "SELECT pg_current_xact_id()::text::bigint, pg_notify('\(TokenNotification.channel)', '\(call)')",
        isRepeatable: true
    )
}

extension FleetMember {
    fileprivate init?(_ row: PostgreSQLRow) {
        guard let id = row.text(0), let host = row.text(1), let version = row.text(2), let started = row.text(3),
            let configuration = row.text(4), let offset = row.integer(5), let unshipped = row.integer(6),
            let acknowledged = row.integer(7), let seen = row.integer(8)
        else { return nil }
        let heartbeat = FleetHeartbeat(
            id: id,
            host: host,
            version: version,
            startedAt: started,
            configurationDigest: configuration,
            clockOffset: .milliseconds(offset),
            unshipped: Int(unshipped),
            acknowledged: FleetMark(acknowledged)
        )
        self.init(heartbeat, seen: .milliseconds(max(seen, 0)))
    }
}
