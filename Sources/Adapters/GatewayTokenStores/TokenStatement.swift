import Foundation
import GatewayCore
import GatewayPostgreSQL

/// The statements on the table of tokens. Each is a transaction of its own.
///
/// Every change carries the id of the call that makes it. A statement whose answer was lost is sent again, and a change that
/// carries the id has been made already.
struct TokenStatement {
    static let channel = "authgateway_tokens"

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
    /// Of the key that the content is encrypted with.
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
        return PostgreSQLStatement(
            "WITH done AS (\(change) RETURNING t.key, t.revision) "
                + "SELECT revision, pg_notify('\(Self.channel)', key) FROM done",
            values.list,
            isRepeatable: true
        )
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
            "\(names) SELECT \(columns.joined(separator: ", ")) WHERE \(hasKey(&values)) ON CONFLICT (key) \(conflict)"
    }

    private func update(_ values: inout Parameters, _ revision: TokenRevision, isFree: Bool) -> String {
        var columns = [
            "revision = t.revision + 1", "lease_until = \(leaseTime(&values, kept: "t.lease_until"))",
            "change = \(values.add(.text(id), "text"))", "changed = \(Self.transaction)",
        ]
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

    /// One row: see ``StoredRow``.
    static func load(_ key: CredentialKey) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT s.value, t.revision, t.generation, t.updated_at, t.version, t.nonce, t.ciphertext, t.change,
            (extract(epoch FROM t.lease_until - clock_timestamp()) * 1000)::bigint
            FROM authgateway.store s LEFT JOIN authgateway.token t ON t.key = $1::text WHERE s.name = 'key_check'
            """,
            [.text(key.digest)],
            isRepeatable: true
        )
    }

    static func prolong(_ lease: TokenLease, for time: Duration) -> PostgreSQLStatement {
        var values = Parameters()
        let end = leaseEnd(time, &values)
        let key = values.add(.text(lease.key.digest), "text")
        let revision = values.add(.integer(lease.revision.value), "bigint")
        return PostgreSQLStatement(
            "UPDATE authgateway.token SET lease_until = \(end) WHERE key = \(key) AND revision = \(revision) RETURNING revision",
            values.list,
            isRepeatable: true
        )
    }

    /// Nobody is told, because the record is unchanged: those that wait for the lease ask for it about every second.
    static func release(_ lease: TokenLease) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            UPDATE authgateway.token SET lease_until = NULL
            WHERE key = $1::text AND revision = $2::bigint AND lease_until IS NOT NULL
            """,
            [.text(lease.key.digest), .integer(lease.revision.value)],
            isRepeatable: true
        )
    }

    /// Rows of a mark, and of a record that has changed since `mark`, if any.
    ///
    /// A mark is the oldest transaction that may still be under way: of a transaction with a lower number everything is visible.
    /// A mark from the future is one of another server, so that all records are named.
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
            LEFT JOIN authgateway.token ON changed >= $1::bigint OR $1::bigint > high
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

/// What ``TokenStatement/load(_:)`` finds.
struct StoredRow {
    let keyCheck: String
    /// nil when the record was never written.
    let revision: TokenRevision?
    let sealed: SealedToken?
    let change: String?
    /// nil without a lease that lasts.
    let leaseTime: Duration?

    init?(_ row: PostgreSQLRow, of key: CredentialKey) {
        guard let check = row.text(0) else { return nil }
        keyCheck = check
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
