import Foundation
import GatewayFiles
import GatewayHTTP
import GatewayTokens

/// The statements on the table of tokens. Each is a transaction of its own.
///
/// Every change carries the id of the call that makes it. A statement whose answer was lost is sent again, and a change that
/// carries the id has been made already.
struct TokenStatement {
    /// What becomes of the lease.
    enum Lease {
        case ended
        case kept
        case taken(Duration)
    }

    /// Which records are changed.
    enum Condition {
        /// It has this revision and no lease.
        case free(TokenRevision)
        /// It has the revision of this lease.
        case leased(TokenRevision)
        case always
    }

    let key: CredentialKey
    let id: String
    /// See ``TokenNotification``.
    let sender: String
    /// The check of the key that the content is encrypted with; see ``TokenSealer/keyCheck``.
    let keyCheck: String
    let condition: Condition
    let lease: Lease
    /// nil leaves it as it is.
    let content: SealedToken?

    /// Its row is the new revision; without a row nothing was changed.
    var statement: PostgreSQLStatement {
        var values = Parameters()
        let change =
            switch condition {
            case .always: insert(&values, orUpdate: true)
            case .free(.none): insert(&values, orUpdate: false)
            case .free(let revision): update(&values, revision, isFree: true)
            case .leased(let revision): update(&values, revision, isFree: false)
            }
        let notice = endsLease ? ", " + Self.notice(by: values.add(.text(sender), "text")) : ""
        return PostgreSQLStatement(
            "WITH done AS (\(change) RETURNING t.key, t.revision) SELECT revision\(notice) FROM done",
            values.list,
            isRepeatable: true
        )
    }

    /// Other gateways wait for the end of a lease, so only that is announced to them.
    private var endsLease: Bool { if case .ended = lease { true } else { false } }

    private static func notice(by sender: String) -> String {
        "\(TokenNotification.sending(by: sender)), \(RowWait.end)"
    }

    private static let transaction = "pg_current_xact_id()::text::bigint"

    private func insert(_ values: inout Parameters, orUpdate: Bool) -> String {
        let row = content ?? .removed(key, at: UnixTime(milliseconds: 0))
        let columns = [
            values.add(.text(key.digest), "text"), "1", leaseTime(&values, kept: "NULL"), values.add(.text(id), "text"),
            Self.transaction, values.add(.integer(Int64(row.generation)), "bigint"),
            values.add(.text(row.updatedAt), "text"), values.add(.integer(Int64(row.version)), "int"),
            values.add(.bytes(Array(row.nonce)), "bytea"), values.add(.bytes(Array(row.ciphertext)), "bytea"),
        ]
        let names = """
            INSERT INTO authgateway.token AS t
            (key, revision, lease_until, change, changed, generation, updated_at, version, nonce, ciphertext)
            """
        let conflict =
            orUpdate
            ? """
            DO UPDATE SET revision = t.revision + 1, lease_until = excluded.lease_until, change = excluded.change,
            changed = excluded.changed, generation = excluded.generation, updated_at = excluded.updated_at,
            version = excluded.version, nonce = excluded.nonce, ciphertext = excluded.ciphertext
            WHERE t.change <> excluded.change
            """ : "DO NOTHING"
        return
            "\(names) SELECT \(columns.joined(separator: ", ")) WHERE \(hasKey(&values)) AND \(RowWait.isLimited) "
            + "ON CONFLICT (key) \(conflict)"
    }

    private func update(_ values: inout Parameters, _ revision: TokenRevision, isFree: Bool) -> String {
        var columns = [
            "revision = t.revision + 1", "lease_until = \(leaseTime(&values, kept: "t.lease_until"))",
            "change = \(values.add(.text(id), "text"))",
        ]
        // A change of no column with an index needs no new entry in any index (PostgreSQL documentation, section 73.7).
        if endsLease { columns.append("changed = \(Self.transaction)") }
        if let content {
            columns += [
                "generation = \(values.add(.integer(Int64(content.generation)), "bigint"))",
                "updated_at = \(values.add(.text(content.updatedAt), "text"))",
                "version = \(values.add(.integer(Int64(content.version)), "int"))",
                "nonce = \(values.add(.bytes(Array(content.nonce)), "bytea"))",
                "ciphertext = \(values.add(.bytes(Array(content.ciphertext)), "bytea"))",
            ]
        }
        var conditions = [
            "t.key = \(values.add(.text(key.digest), "text"))",
            "t.revision = \(values.add(.integer(revision.value), "bigint"))", hasKey(&values),
            RowWait.isLimited,
        ]
        if isFree { conditions.append("(t.lease_until IS NULL OR t.lease_until <= clock_timestamp())") }
        return "UPDATE authgateway.token AS t SET \(columns.joined(separator: ", ")) "
            + "WHERE \(conditions.joined(separator: " AND "))"
    }

    private func leaseTime(_ values: inout Parameters, kept: String) -> String {
        switch lease {
        case .ended: "NULL::timestamptz"
        case .kept: "\(kept)::timestamptz"
        case .taken(let time): Self.leaseEnd(time, &values)
        }
    }

    private static func leaseEnd(_ time: Duration, _ values: inout Parameters) -> String {
        "clock_timestamp() + \(values.add(.integer(time.wholeMilliseconds), "bigint")) * interval '1 millisecond'"
    }

    /// A gateway with another key must not leave rows that the others cannot read.
    private func hasKey(_ values: inout Parameters) -> String {
        "EXISTS (SELECT 1 FROM authgateway.store WHERE name = 'key_check' AND value = \(values.add(.text(keyCheck), "text")))"
    }

    // MARK: Others

    /// Those that are there: see ``StoredRow``. Otherwise one row that has the check of the key alone.
    ///
    /// A person may have set the end of a lease to infinity, which no number is. It is read as it is compared when a lease is
    /// taken: one without an end is held, and one that ended before all time has ended. A lease of a day is told as one.
    static func load(_ keys: [CredentialKey]) -> PostgreSQLStatement {
        let list = "[" + keys.map { JSONString.quoted($0.digest) }.joined(separator: ",") + "]"
        return PostgreSQLStatement(
            """
            SELECT s.value, t.revision, t.generation, t.updated_at, t.version, t.nonce, t.ciphertext, t.change,
            (extract(epoch FROM least(greatest(t.lease_until, clock_timestamp()), clock_timestamp() + interval '1 day')
            - clock_timestamp()) * 1000)::bigint, t.key
            FROM authgateway.store s LEFT JOIN authgateway.token t
            ON t.key = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb))) WHERE s.name = 'key_check'
            """,
            [.text(list)],
            isRepeatable: true
        )
    }

    static func prolong(_ lease: TokenLease, for time: Duration) -> PostgreSQLStatement {
        var values = Parameters()
        let end = leaseEnd(time, &values)
        let key = values.add(.text(lease.key.digest), "text")
        let revision = values.add(.integer(lease.revision.value), "bigint")
        return PostgreSQLStatement(
            """
            UPDATE authgateway.token SET lease_until = \(end)
            WHERE key = \(key) AND revision = \(revision) AND \(RowWait.isLimited) RETURNING revision
            """,
            values.list,
            isRepeatable: true
        )
    }

    /// Those that wait for the lease are told, also of what was written under it.
    static func release(_ lease: TokenLease, by sender: String) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            WITH done AS (UPDATE authgateway.token SET lease_until = NULL, changed = \(transaction)
            WHERE key = $1::text AND revision = $2::bigint AND lease_until IS NOT NULL AND \(RowWait.isLimited)
            RETURNING key, revision)
            SELECT \(notice(by: "$3::text")) FROM done
            """,
            [.text(lease.key.digest), .integer(lease.revision.value), .text(sender)],
            isRepeatable: true
        )
    }

    /// Rows of a mark, and of a record that has changed since `mark`, if any.
    ///
    /// A mark is the oldest transaction that may still be under way: of a transaction with a lower number everything is visible.
    /// A mark from the future is one of another server, so that all records are named. A record from the future came with a backup
    /// of another server: it is not named until it is changed here. The conditions are comparisons of `changed` alone, since
    /// no index helps an OR.
    static func changes(since mark: TokenStoreMark?) -> PostgreSQLStatement {
        let moment = """
            WITH moment AS (SELECT pg_snapshot_xmin(s)::text::bigint AS low, pg_snapshot_xmax(s)::text::bigint AS high,
            \(FleetStatement.upTo) AS up_to FROM pg_current_snapshot() AS s)
            """
        guard let mark else {
            let columns = "low, NULL::text, NULL::bigint, up_to"
            return PostgreSQLStatement("\(moment) SELECT \(columns) FROM moment", isRepeatable: true)
        }
        return PostgreSQLStatement(
            """
            \(moment) SELECT low, key, revision, up_to FROM moment
            LEFT JOIN authgateway.token ON changed >= CASE WHEN $1::bigint > high THEN 0 ELSE $1::bigint END
            AND changed < CASE WHEN $1::bigint > high THEN \(Int64.max) ELSE high END
            """,
            [.integer(mark.value)],
            isRepeatable: true
        )
    }

    /// The parameters of a statement, by number.
    private struct Parameters {
        private(set) var list: [PostgreSQLStatement.Parameter] = []

        mutating func add(_ value: PostgreSQLStatement.Parameter, _ type: String) -> String {
            list.append(value)
            return "$\(list.count)::\(type)"
        }
    }
}

/// A record as ``TokenStatement/load(_:)`` finds it.
struct StoredRow {
    /// nil when the record was never written.
    let revision: TokenRevision?
    let sealed: SealedToken?
    let change: String?
    /// nil without a lease that lasts.
    let leaseTime: Duration?

    /// What stands for a record that was never written.
    static let missing = StoredRow()

    private init() { (revision, sealed, change, leaseTime) = (nil, nil, nil, nil) }

    init(_ row: PostgreSQLRow, of key: CredentialKey) {
        revision = row.integer(1).map { TokenRevision($0) }
        change = row.text(7)
        leaseTime = row.integer(8).flatMap { $0 > 0 ? .milliseconds($0) : nil }
        guard let generation = row.integer(2), let updatedAt = row.text(3), let version = row.integer(4),
            let nonce = row.bytes(5), let ciphertext = row.bytes(6)
        else {
            sealed = nil
            return
        }
        sealed = SealedToken(
            key: key.digest,
            generation: Int(generation),
            updatedAt: updatedAt,
            version: Int(version),
            nonce: Data(nonce),
            ciphertext: Data(ciphertext)
        )
    }
}

/// The statements on the table of gateways. Each is a transaction of its own.
enum FleetStatement {
    /// What a notification of ``take`` says instead of a record.
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
    init?(_ row: PostgreSQLRow) {
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

/// What a gateway tells the others with NOTIFY.
struct TokenNotification {
    static let channel = "authgateway_tokens"

    let change: TokenChange
    /// The store that has written it, as it calls itself.
    let sender: String

    init?(payload: String) {
        let parts = payload.split(separator: " ")
        guard parts.count == 3, let revision = Int64(parts[1]) else { return nil }
        change = TokenChange(CredentialKey(digest: String(parts[0])), TokenRevision(revision))
        sender = String(parts[2])
    }

    /// An expression of SQL that sends one for the row at hand.
    ///
    /// - Parameter sender: An expression.
    static func sending(by sender: String) -> String {
        "pg_notify('\(channel)', key || ' ' || revision || ' ' || \(sender))"
    }

    static func makeSender() -> String { Hexadecimal.text(of: (0..<8).map { _ in UInt8.random(in: .min ... .max) }) }
}

/// How long a statement waits for a row that another session holds, such as an open transaction of a person.
///
/// All statements go over one connection, so that a longer wait would delay those on other rows. The limit holds in the
/// transaction of the statement alone: a pooler may hand out the connection per transaction.
enum RowWait {
    /// A condition that is true. It sets the limit before the statement changes a row.
    static let isLimited = "(SELECT set_config('lock_timeout', '500', true)) IS NOT NULL"

    /// A column that ends the limit once the row is changed: commits with notifications wait for each other, which says nothing
    /// of a row.
    static let end = "set_config('lock_timeout', '0', true)"
}
