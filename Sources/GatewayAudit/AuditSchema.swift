import GRDB
import GatewayEvents
import GatewayFiles

/// The database's tables, views and guards. Plain SQL: the `sqlite3` shell reads all of it.
package enum AuditSchema {
    /// The version of the tables below. Raise it, and add the step to ``create(in:)``, when they change so that an earlier program
    /// would misread or break them.
    package static let version = 1

    /// The columns that the chain covers, in the order of the table.
    static let columns = [
        "id", "at", "event", "credential", "strategy", "subject", "generation", "trigger", "route", "client",
        "request_id", "outcome", "http_status", "error_code", "expires_at", "duration_ms", "waiters",
        "token_fingerprint", "instance", "detail",
    ]

    static let allColumns = columns + ["previous_hash", "hash"]

    static let checkpointColumns = ["id", "at", "pruned_to_id", "pruned_to_hash", "previous_hash", "hash"]

    /// The columns of `token_requests`, which is outside the chain.
    static let requestColumns = [
        "id", "at", "request_id", "route", "client", "method", "status", "problem", "credential", "generation",
        "replayed", "bytes_received", "bytes_sent", "duration_ms", "instance", "client_request_id", "reason",
        "credential_ms", "connection_ms", "response_ms",
    ]

    /// The key of `token_use`, which is outside the chain, too.
    static let useKey = ["minute", "route", "client", "credential", "generation", "status_class"]

    /// How many of the requests of a row were answered with 401, 403 and 429. NULL in rows of a version that did not count them, and
    /// in rows that such a version has begun.
    static let refusalColumns = ["status_401", "status_403", "status_429"]

    /// What `token_use` counts.
    static let useCounts = ["requests", "bytes_received", "bytes_sent"] + refusalColumns

    static let useColumns = useKey + useCounts

    /// Columns that a database of an earlier version lacks, by table.
    private static let laterColumns: [(table: String, column: String, definition: String)] = [
        ("token_events", "client_request_id", clientRequestID),
        ("token_requests", "client_request_id", "TEXT"), ("token_requests", "reason", "TEXT"),
        ("token_requests", "credential_ms", "INTEGER"), ("token_requests", "connection_ms", "INTEGER"),
        ("token_requests", "response_ms", "INTEGER"),
        ("token_use", "status_401", "INTEGER"), ("token_use", "status_403", "INTEGER"),
        ("token_use", "status_429", "INTEGER"),
    ]

    /// The table as it is read. An index that somebody has put into the file may lack rows, and would hide them. Those of ``AuditIndex/verified``
    /// are used by their names, to find the numbers of the rows that a question is about.
    static let rows = "token_events NOT INDEXED"

    /// As both databases spell them: `trigger` is a word of SQL.
    static let quotedColumns = allColumns.map { "\"\($0)\"" }
    static let columnList = quotedColumns.joined(separator: ", ")

    /// Worked out from `detail`, which the chain covers. A detail that is no JSON any more must not end a query.
    private static let clientRequestID = """
        TEXT GENERATED ALWAYS AS
        (CASE WHEN json_valid(detail) THEN json_extract(detail, '$.client_request_id') END) VIRTUAL
        """

    /// Makes the tables, or brings those of an earlier version up to this one. In one transaction.
    ///
    /// - Parameter limit: Tables with more rows do not get the indices that they lack: that takes a second for a million rows.
    static func create(in database: Database, indexingUpTo limit: Int = 200_000) throws {
        try SQLiteSchema.require(atMost: version, in: database)
        if let name = try replacedTable(in: database) { throw isReplaced(name) }
        try database.execute(sql: tables)
        for (table, column, definition) in laterColumns where try !has(column, in: table, of: database) {
            try database.execute(sql: "ALTER TABLE \(table) ADD COLUMN \(column) \(definition)")
        }
        for (name, rule) in triggers { try database.execute(sql: "CREATE TRIGGER IF NOT EXISTS \(name) \(rule)") }
        for (name, view) in views { try create(view: name, view, in: database) }
        for index in AuditIndex.all where try !hasIndex(index, in: database) {
            guard try rows(of: index.table, upTo: limit, in: database) <= limit else { continue }
            try create(index, in: database)
        }
        try SQLiteSchema.set(version, in: database)
    }

    /// `table_xinfo` also names columns that are worked out from others.
    private static func has(_ column: String, in table: String, of database: Database) throws -> Bool {
        let sql = "SELECT 1 FROM pragma_table_xinfo(?) WHERE name = ?"
        return try Int.fetchOne(database, sql: sql, arguments: [table, column]) == 1
    }

    /// The columns of `token_requests` as they are read: one that an earlier version did not have is NULL.
    static func readableRequestColumns(in database: Database) throws -> [String] {
        try readable(requestColumns, of: "token_requests", in: database)
    }

    /// - Returns: The columns, with `NULL AS NAME` for each that the table does not have.
    static func readable(_ columns: [String], of table: String, in database: Database) throws -> [String] {
        try columns.map { try has($0, in: table, of: database) ? $0 : "NULL AS \($0)" }
    }

    /// One that is the same is left alone, because each start would wait for the disk.
    private static func create(view name: String, _ sql: String, in database: Database) throws {
        if let made = try object(name, in: database) {
            guard made.type == "view" else {
                throw AuditError(
                    "the audit log has a \(made.type) \(name) in the place of a view of the gateway; rename it with "
                        + "`ALTER TABLE \(name) RENAME TO` and another name in sqlite3, and restart the gateway"
                )
            }
            guard made.sql != sql else { return }
            try database.execute(sql: "DROP VIEW \(name)")
        }
        try database.execute(sql: sql)
    }

    /// What stands under a name. SQLite tells no letters apart that differ in case only.
    private static func object(_ name: String, in database: Database) throws -> (type: String, sql: String)? {
        let known = "SELECT type, sql FROM sqlite_schema WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')"
        guard let row = try Row.fetchOne(database, sql: known, arguments: [name]) else { return nil }
        let values = Array(row.databaseValues)
        return (String.fromDatabaseValue(values[0]) ?? "", String.fromDatabaseValue(values[1]) ?? "")
    }

    /// The first table in whose place something else stands, such as a view, which may have any rows and no end.
    static func replacedTable(in database: Database) throws -> String? {
        try tableNames.first { name in
            guard let made = try object(name, in: database) else { return false }
            return made.type != "table" || !made.sql.hasPrefix("CREATE TABLE")
        }
    }

    static func isReplaced(_ table: String) -> AuditError {
        AuditError(
            "\(table) in the audit log is no longer a table: somebody has replaced it; restore the audit log from a "
                + "backup, or move it and its .head file away to begin a new one"
        )
    }

    /// The first view that is not the one that the gateway makes. One that is not there hides nothing.
    static func replacedView(in database: Database) throws -> String? {
        try views.first { name, sql in
            guard let made = try object(name, in: database) else { return false }
            return made.type != "view" || made.sql != sql
        }?.key
    }

    private static let tableNames = ["token_events", "audit_checkpoints", "audit_log", "token_use", "token_requests"]

    static func create(_ index: AuditIndex, in database: Database) throws {
        try database.execute(sql: "DROP INDEX IF EXISTS \(index.name)")
        try database.execute(sql: index.sql)
    }

    /// How many rows a table has, or a larger number than `limit`. Looks at no more rows than that.
    static func rows(of table: String, upTo limit: Int, in database: Database) throws -> Int {
        // The numbers of rows have no gaps to speak of. A table of uses has no numbers.
        let sql =
            table == "token_use"
            ? "SELECT count(*) FROM (SELECT 1 FROM token_use LIMIT \(limit) + 1)"
            : "SELECT coalesce(max(id) - min(id) + 1, 0) FROM \(table)"
        return try Int.fetchOne(database, sql: sql) ?? 0
    }

    /// Whether the index is there, and is the one that the gateway makes: another one of its name may lack rows.
    static func hasIndex(_ index: AuditIndex, in database: Database) throws -> Bool {
        let sql = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?"
        return try String.fetchOne(database, sql: sql, arguments: [index.name]) == index.sql
    }

    private static let tables = """
        CREATE TABLE IF NOT EXISTS token_events (
            id INTEGER PRIMARY KEY,
            at TEXT NOT NULL,
            event TEXT NOT NULL,
            credential TEXT,
            strategy TEXT,
            subject TEXT,
            generation INTEGER,
            "trigger" TEXT,
            route TEXT,
            client TEXT,
            request_id TEXT,
            outcome TEXT NOT NULL,
            http_status INTEGER,
            error_code TEXT,
            expires_at TEXT,
            duration_ms INTEGER,
            waiters INTEGER,
            token_fingerprint TEXT,
            instance TEXT NOT NULL,
            detail TEXT NOT NULL,
            previous_hash TEXT NOT NULL,
            hash TEXT NOT NULL
        ) STRICT;
        CREATE INDEX IF NOT EXISTS token_events_by_credential ON token_events (credential, id);
        CREATE TABLE IF NOT EXISTS audit_checkpoints (
            id INTEGER PRIMARY KEY,
            at TEXT NOT NULL,
            pruned_to_id INTEGER NOT NULL,
            pruned_to_hash TEXT NOT NULL,
            previous_hash TEXT NOT NULL,
            hash TEXT NOT NULL
        ) STRICT;
        CREATE TABLE IF NOT EXISTS audit_log (
            name TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS token_use (
            minute TEXT NOT NULL,
            route TEXT NOT NULL,
            client TEXT NOT NULL,
            credential TEXT NOT NULL,
            generation INTEGER NOT NULL,
            status_class INTEGER NOT NULL,
            requests INTEGER NOT NULL,
            bytes_received INTEGER NOT NULL,
            bytes_sent INTEGER NOT NULL,
            PRIMARY KEY (minute, route, client, credential, generation, status_class)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS token_requests (
            id INTEGER PRIMARY KEY,
            at TEXT NOT NULL,
            request_id TEXT NOT NULL,
            route TEXT NOT NULL,
            client TEXT,
            method TEXT NOT NULL,
            status INTEGER NOT NULL,
            problem TEXT,
            credential TEXT,
            generation INTEGER,
            replayed INTEGER NOT NULL,
            bytes_received INTEGER NOT NULL,
            bytes_sent INTEGER NOT NULL,
            duration_ms INTEGER NOT NULL,
            instance TEXT NOT NULL
        ) STRICT;
        """

    /// The triggers by name, as SQLite keeps their text.
    static let guards = Dictionary(
        uniqueKeysWithValues: triggers.map { name, rule in (name, "CREATE TRIGGER \(name) \(rule)") }
    )

    private static let triggers: KeyValuePairs = [
        "token_events_refuse_update": """
        BEFORE UPDATE ON token_events
        BEGIN SELECT RAISE(ABORT, 'token_events is append-only'); END
        """,
        "token_events_refuse_delete": """
        BEFORE DELETE ON token_events
        WHEN OLD.id > (SELECT coalesce(max(pruned_to_id), 0) FROM audit_checkpoints)
        BEGIN SELECT RAISE(ABORT, 'token_events is append-only'); END
        """,
        "token_events_gapless": """
        BEFORE INSERT ON token_events
        WHEN NEW.id IS NOT 1 + max(
            (SELECT coalesce(max(id), 0) FROM token_events),
            (SELECT coalesce(max(pruned_to_id), 0) FROM audit_checkpoints))
        BEGIN SELECT RAISE(ABORT, 'ids of token_events are gapless'); END
        """,
        "audit_checkpoints_refuse_update": """
        BEFORE UPDATE ON audit_checkpoints
        BEGIN SELECT RAISE(ABORT, 'audit_checkpoints is append-only'); END
        """,
        "audit_checkpoints_refuse_delete": """
        BEFORE DELETE ON audit_checkpoints
        BEGIN SELECT RAISE(ABORT, 'audit_checkpoints is append-only'); END
        """,
    ]

    /// The views by name, as SQLite keeps them: without a semicolon.
    private static let views: KeyValuePairs = [
        "credential_history": history, "uses": uses, "failures": failures, "renewals": renewals, "requests": requests,
    ]

    /// `at` and `minute` stay as they are in each view: an index finds rows by them. `time` is for people.
    private static let uses = """
        CREATE VIEW uses AS
        SELECT datetime(minute, 'localtime') AS time, credential, nullif(client, '') AS client, route,
            CASE status_class WHEN 0 THEN 'no response' ELSE status_class || 'xx' END AS status,
            requests, status_401, status_403, status_429, bytes_received, bytes_sent, generation, minute
        FROM token_use
        """

    private static let failures = """
        CREATE VIEW failures AS
        SELECT datetime(at, 'localtime') AS time, event, credential, route, client, http_status AS status,
            error_code AS error, CASE WHEN json_valid(detail) THEN json_extract(detail, '$.explanation') END AS explanation,
            coalesce(CASE WHEN json_valid(detail) THEN CAST(json_extract(detail, '$.count') AS INTEGER) END, 1) AS count,
            request_id, at, id
        FROM token_events WHERE outcome = 'failed'
        """

    private static let renewals = """
        CREATE VIEW renewals AS
        SELECT datetime(at, 'localtime') AS time, credential, event, "trigger" AS reason, generation,
            datetime(expires_at, 'localtime') AS expires, duration_ms, waiters, outcome, error_code AS error, request_id,
            at, id
        FROM token_events
        WHERE event IN ('acquired', 'acquisition_failed', 'renewed', 'renewal_failed', 'imported', 'login_completed')
        """

    private static let requests = """
        CREATE VIEW requests AS
        SELECT datetime(at, 'localtime') AS time, client, route, method, status, credential, generation, problem, reason,
            duration_ms, replayed, bytes_received, bytes_sent, request_id, client_request_id, at, id
        FROM token_requests
        """

    /// The view of an earlier version took a request that failed for a failure of its credential.
    private static let history = """
        CREATE VIEW credential_history AS
        SELECT
            names.credential,
            good.at AS last_good_at,
            good.event AS last_good_event,
            good.generation AS last_good_generation,
            good.expires_at AS last_good_expires_at,
            good.token_fingerprint AS last_good_fingerprint,
            failure.at AS last_failure_at,
            failure.event AS last_failure_event,
            failure.http_status AS last_failure_http_status,
            failure.error_code AS last_failure_error_code,
            (SELECT json_group_object(generation, calls) FROM (
                SELECT CAST(generation AS TEXT) AS generation, sum(requests) AS calls FROM token_use
                WHERE token_use.credential = names.credential GROUP BY 1 ORDER BY token_use.generation
            )) AS calls_per_generation
        FROM (
            SELECT credential FROM token_events WHERE credential IS NOT NULL
            UNION SELECT credential FROM token_use
        ) AS names
        LEFT JOIN token_events AS good ON good.id = (
            SELECT max(id) FROM token_events
            WHERE credential = names.credential AND outcome = 'ok'
                AND event IN ('acquired', 'renewed', 'loaded', 'imported', 'adopted', 'login_completed'))
        LEFT JOIN token_events AS failure ON failure.id = (
            SELECT max(id) FROM token_events
            WHERE credential = names.credential AND outcome = 'failed' AND event != 'request_failed')
        """
}

/// An index that the gateway makes, for questions to a log of many million rows.
struct AuditIndex: Hashable, Sendable {
    let name: String
    let table: String
    /// What stands behind the name of the table.
    let columns: String

    /// As SQLite keeps it.
    var sql: String { "CREATE INDEX \(name) ON \(table) \(columns)" }

    /// Made together with the tables, and by 0.1.0, too.
    static let eventsByCredential = AuditIndex(
        name: "token_events_by_credential",
        table: "token_events",
        columns: "(credential, id)"
    )
    static let eventsByTime = AuditIndex(name: "token_events_by_at", table: "token_events", columns: "(at)")
    static let eventsByName = AuditIndex(name: "token_events_by_event", table: "token_events", columns: "(event, at)")
    static let eventsByRequest = AuditIndex(
        name: "token_events_by_request",
        table: "token_events",
        columns: "(request_id) WHERE request_id IS NOT NULL"
    )
    static let eventsByClientRequest = AuditIndex(
        name: "token_events_by_client_request",
        table: "token_events",
        columns: "(client_request_id) WHERE client_request_id IS NOT NULL"
    )
    static let requestsByID = AuditIndex(
        name: "token_requests_by_request",
        table: "token_requests",
        columns: "(request_id)"
    )
    static let requestsByClientID = AuditIndex(
        name: "token_requests_by_client_request",
        table: "token_requests",
        columns: "(client_request_id) WHERE client_request_id IS NOT NULL"
    )
    static let requestsByTime = AuditIndex(name: "token_requests_by_at", table: "token_requests", columns: "(at)")
    static let requestsByCredential = AuditIndex(
        name: "token_requests_by_credential",
        table: "token_requests",
        columns: "(credential, at)"
    )
    static let usesByCredential = AuditIndex(
        name: "token_use_by_credential",
        table: "token_use",
        columns: "(credential, minute)"
    )

    /// The indices of events by which commands find rows. `audit verify` compares each with the rows.
    static let verified = [eventsByTime, eventsByName, eventsByCredential, eventsByRequest, eventsByClientRequest]

    /// What a log of an earlier version may lack.
    static let all = [
        eventsByTime, eventsByName, eventsByRequest, eventsByClientRequest, requestsByID, requestsByClientID,
        requestsByTime, requestsByCredential, usesByCredential,
    ]
}
