import GRDB
package import GatewayEvents
package import GatewayFiles
import GatewayHTTP

/// Reads the audit logs that gateways have shipped to their PostgreSQL database.
package final class SharedAuditReader: Sendable {
    /// For messages: without a password.
    package let name: String
    private let connection: PostgreSQLConnection
    private let pageSize: Int
    private let limit: Duration

    /// Connects in the background; returns at once. Call ``prepare()`` first, and ``close()`` in the end.
    ///
    /// - Parameters:
    ///   - pageSize: The maximum number of rows that are in memory.
    ///   - limit: How long the server may take for one page. A filter without an index looks at many rows.
    package init(_ options: PostgreSQLOptions, pageSize: Int = 5000, limit: Duration = .seconds(60)) {
        name = "the token database \(options.url)"
        connection = PostgreSQLConnection(options)
        self.pageSize = pageSize
        self.limit = limit
    }

    /// - Throws: ``AuditError`` when the database cannot be used, or a newer program has made its tables.
    package func prepare() async throws(AuditError) {
        guard let version = try await ask(SharedSchema.question).first?.integer(0) else { return }
        if let problem = SharedSchema.problem(with: version, in: name) { throw AuditError(problem) }
    }

    package func close() async { await connection.close(within: .seconds(1)) }

    /// Hands over the rows of all chains that match, oldest first by time, chain and number.
    ///
    /// Pages are read one after another. A row that is shipped late is left out when its page was read before.
    ///
    /// - Parameter body: What it throws ends the reading and is thrown.
    package func forEach(_ filter: AuditFilter, _ body: (SharedAuditRow) throws -> Void) async throws {
        var selection = Self.events(filter)
        guard let limit = filter.limit else {
            try await forEachPage(of: selection) { rows in
                for row in try meant(rows, of: selection, filter) { try body(row) }
                return true
            }
            return
        }
        guard limit > 0 else { return }
        selection.isNewestFirst = true
        var newest: [SharedAuditRow] = []
        try await forEachPage(of: selection, size: min(limit, pageSize)) { rows in
            newest += try meant(rows, of: selection, filter).prefix(limit - newest.count)
            return newest.count < limit
        }
        for row in newest.reversed() { try body(row) }
    }

    /// The names of one kind that the logs have, at most 10,000 of them.
    ///
    /// - Parameter column: `credential`, `route` or `client`.
    package func names(in column: AuditUsage.Grouping) async throws(AuditError) -> [String] {
        guard column != .upstream else { return [] }
        let names = AuditSelection.names(in: column, of: ["authgateway.audit_event", "authgateway.audit_use"])
        return try await ask(PostgreSQLStatement(names + " LIMIT 10000", isRepeatable: true)).compactMap { $0.text(0) }
    }

    // MARK: Statements

    func ask(_ statement: PostgreSQLStatement) async throws(AuditError) -> [PostgreSQLRow] {
        do throws(PostgreSQLFailure) {
            return try await connection.run(statement, within: limit)
        } catch {
            throw AuditError(error.words(for: name))
        }
    }

    /// - Parameter body: false ends it.
    func forEachPage(
        of selection: AuditSelection,
        size: Int? = nil,
        _ body: ([PostgreSQLRow]) async throws -> Bool
    ) async throws {
        let size = size ?? pageSize
        var last: PostgreSQLRow?
        while true {
            let rows = try await ask(selection.page(after: last, size: size))
            guard !rows.isEmpty, try await body(rows), rows.count == size else { return }
            last = rows.last
        }
    }

    /// The values of ``AuditSelection/columns``, page by page.
    func forEachRow(
        of selection: AuditSelection,
        _ body: ([[DatabaseValue]]) async throws(AuditError) -> Void
    ) async throws(AuditError) {
        do {
            try await forEachPage(of: selection) { rows in
                try await body(rows.map { selection.values(of: $0) })
                return true
            }
        } catch {
            throw error as? AuditError ?? AuditError("\(name) cannot be read")
        }
    }

    private static func events(_ filter: AuditFilter) -> AuditSelection {
        AuditSelection(
            columns: ["(SELECT host FROM authgateway.audit_chain AS c WHERE c.chain = e.chain)"]
                + AuditSchema.quotedColumns,
            table: "authgateway.audit_event AS e",
            key: ["at", "chain", "id"],
            condition: filter.condition(for: .sharedEvents)
        )
    }

    private func meant(
        _ rows: [PostgreSQLRow],
        of selection: AuditSelection,
        _ filter: AuditFilter
    ) throws -> [SharedAuditRow] {
        try rows.compactMap { row in
            let values = selection.values(of: row)
            guard let chain = row.text(1), let event = AuditRow(Array(values.dropFirst())) else {
                throw AuditError("a row in \(name) was changed; run `authgateway audit verify --all`")
            }
            guard filter.isMeant(event) else { return nil }
            return SharedAuditRow(gateway: String.fromDatabaseValue(values[0]), chain: chain, row: event)
        }
    }
}

extension SharedAuditReader {
    /// The sum of each credential's events and calls in all chains, by name.
    ///
    /// - Parameter filter: A credential, a client and a time.
    package func stats(_ filter: AuditFilter = AuditFilter()) async throws(AuditError) -> AuditStats {
        let copy = try await sums(filter)
        return try await copy.use { try AuditStats(filter, from: $0) }
    }

    /// Requests and calls for tokens of all chains by what they are grouped by.
    ///
    /// - Parameters:
    ///   - filter: A credential, a client and a time.
    ///   - upstreams: Those of the routes, by name, for ``AuditUsage/Grouping/upstream``.
    package func usage(
        by grouping: AuditUsage.Grouping,
        _ filter: AuditFilter = AuditFilter(),
        upstreams: [String: String] = [:]
    ) async throws(AuditError) -> AuditUsage {
        let copy = try await sums(filter)
        return try await copy.use { try AuditUsage(by: grouping, filter, upstreams: upstreams, from: $0) }
    }

    /// Who used a credential, of all chains. Single requests stay with their gateway.
    package func who(_ question: AuditWho.Question) async throws(AuditError) -> AuditWho {
        let copy = try SharedAuditCopy()
        try await copy.use { try $0.execute(sql: Self.tables) }
        // Tables that 0.1.0 made have no columns for refusals, and a row as JSON has no such member then.
        let refusals = AuditSchema.refusalColumns.map { "(to_jsonb(u) ->> '\($0)')::bigint" }
        let names = ["minute", "route", "client", "credential", "status_class", "requests"]
        let uses = AuditSelection(
            columns: names + refusals,
            table: "authgateway.audit_use AS u",
            key: ["chain"] + AuditSchema.useKey,
            condition: question.filter.condition(for: .sharedUses)
        )
        try await forEachRow(of: uses) { rows throws(AuditError) in
            try await copy.insert(rows, into: "token_use", names + AuditSchema.refusalColumns)
        }
        let oldest = try await ask(PostgreSQLStatement(Self.oldestUse, isRepeatable: true)).first?.text(0)
        return try await copy.use {
            try AuditReader.who(question, recordedSince: oldest, in: $0)
        }
    }

    /// Chain by chain, since the table has no index by time alone.
    private static let oldestUse = """
        SELECT min(oldest.minute) FROM authgateway.audit_chain AS c CROSS JOIN LATERAL
            (SELECT minute FROM authgateway.audit_use AS u WHERE u.chain = c.chain ORDER BY minute LIMIT 1) AS oldest
        """

    /// What ``AuditStats`` and ``AuditUsage`` read, of all chains. Events have new numbers, in the order of time.
    private func sums(_ filter: AuditFilter) async throws(AuditError) -> SharedAuditCopy {
        let copy = try SharedAuditCopy()
        try await copy.use { try $0.execute(sql: Self.tables) }
        let events = AuditSelection(
            columns: ["at", "event", "credential", "route", "client", "outcome", "duration_ms", "error_code"],
            table: "authgateway.audit_event",
            key: ["at", "chain", "id"],
            condition: filter.condition(for: .sharedEvents)
        )
        let uses = AuditSelection(
            columns: [
                "minute", "route", "client", "credential", "status_class", "requests", "bytes_received", "bytes_sent",
            ],
            table: "authgateway.audit_use",
            key: ["chain"] + AuditSchema.useKey,
            condition: filter.condition(for: .sharedUses)
        )
        for (selection, table) in [(events, "token_events"), (uses, "token_use")] {
            try await forEachRow(of: selection) { rows throws(AuditError) in
                try await copy.insert(rows, into: table, selection.columns)
            }
        }
        return copy
    }

    /// Uses have no key here: two gateways count the same one.
    private static let tables = """
        CREATE TABLE token_events (
            id INTEGER PRIMARY KEY,
            at TEXT NOT NULL,
            event TEXT NOT NULL,
            credential TEXT,
            route TEXT,
            client TEXT,
            outcome TEXT NOT NULL,
            duration_ms INTEGER,
            error_code TEXT
        ) STRICT;
        CREATE TABLE token_use (
            minute TEXT NOT NULL,
            route TEXT NOT NULL,
            client TEXT NOT NULL,
            credential TEXT NOT NULL,
            status_class INTEGER NOT NULL,
            requests INTEGER NOT NULL,
            bytes_received INTEGER NOT NULL DEFAULT 0,
            bytes_sent INTEGER NOT NULL DEFAULT 0,
            status_401 INTEGER,
            status_403 INTEGER,
            status_429 INTEGER
        ) STRICT;
        """
}

/// One of the logs that a database holds.
package struct SharedAuditChain: Hashable, Sendable {
    /// What a gateway says of its log, and of the newest row that it has shipped.
    struct Entry: Hashable, Sendable {
        let keyCheck: String
        let headID: Int64
        let headHash: String
    }

    package let name: String
    /// The host of the gateway; nil without an entry.
    package let gateway: String?
    /// nil when rows are there and their entry is not.
    let entry: Entry?

    fileprivate init?(_ row: PostgreSQLRow) {
        guard let name = row.text(0) else { return nil }
        self.name = name
        gateway = row.text(1)
        guard let keyCheck = row.text(2), let headID = row.integer(3), let headHash = row.text(4) else {
            entry = nil
            return
        }
        entry = Entry(keyCheck: keyCheck, headID: headID, headHash: headHash)
    }
}

extension SharedAuditReader {
    /// By host and name.
    package func chains() async throws(AuditError) -> [SharedAuditChain] {
        try await ask(PostgreSQLStatement(Self.chainsQuery, isRepeatable: true)).compactMap { SharedAuditChain($0) }
    }

    /// Copies a chain, recomputes it, and compares it with the newest row that its gateway has shipped.
    ///
    /// - Throws: ``AuditError`` when it cannot be read; a chain that was tampered with is a result.
    package func verify(_ chain: SharedAuditChain, keys: AuditKeys) async throws(AuditError) -> AuditVerification {
        guard let entry = chain.entry else {
            let words = "audit_chain has no entry for these rows, so rows may have been cut off the end"
            return Self.broken(.headMissing, words)
        }
        let key = AuditChain(key: keys.chain)
        let copy = try SharedAuditCopy()
        try await copy.use { database in
            try AuditSchema.create(in: database, indexingUpTo: -1)
            for name in AuditSchema.guards.keys { try database.execute(sql: "DROP TRIGGER \(name)") }
            let sql = "INSERT INTO audit_log (name, value) VALUES ('key_check', ?)"
            try database.execute(sql: sql, arguments: [entry.keyCheck])
        }
        // Rows of another key cannot be verified, so they are not fetched.
        if entry.keyCheck == key.keyCheck { try await fill(copy, with: chain.name) }
        var evidence = AuditEvidence()
        evidence.isCopy = true
        evidence.shipped = (entry.headID, entry.headHash)
        let verifier = AuditVerifier(chain: key, head: .missing, evidence: evidence)
        return try await copy.use { database in
            if let row = try Self.takeRemovedRows(from: database, key) {
                let words = "row \(row) was changed after it was written, or written without the key"
                return Self.broken(.changed, row: row, words)
            }
            for rule in AuditSchema.guards.values { try database.execute(sql: rule) }
            return try verifier.verify(database)
        }
    }

    /// Checkpoints after the rows: they explain which rows were gone by then.
    private func fill(_ copy: SharedAuditCopy, with chain: String) async throws(AuditError) {
        try await fetch(chain, "audit_event", AuditSchema.quotedColumns, into: "token_events", of: copy)
        try await fetch(chain, "audit_checkpoint", AuditSchema.checkpointColumns, into: "audit_checkpoints", of: copy)
    }

    /// A gateway removes rows from the database after the checkpoint that stands in their place, some at a time. Those that are left
    /// have gaps, so each is verified alone: its hash covers the number.
    ///
    /// - Returns: The first row that was changed; nil when none was.
    private static func takeRemovedRows(from database: Database, _ chain: AuditChain) throws -> Int64? {
        let condition = "id <= (SELECT max(pruned_to_id) FROM audit_checkpoints)"
        var changed: Int64?
        try StatementRow.forEach(
            of: "SELECT \(AuditSchema.columnList) FROM token_events WHERE \(condition) ORDER BY id",
            in: database
        ) { row in
            guard changed == nil else { return }
            let count = AuditSchema.columns.count
            var link = ChainLink(.event, columns: count, after: row.text(at: count) ?? "", chain: chain)
            if link.follow(row) != .fits { changed = row.integer(at: 0) }
        }
        if changed == nil { try database.execute(sql: "DELETE FROM token_events WHERE \(condition)") }
        return changed
    }

    private func fetch(
        _ chain: String,
        _ table: String,
        _ columns: [String],
        into target: String,
        of copy: SharedAuditCopy
    ) async throws(AuditError) {
        var selection = AuditSelection(columns: columns, table: "authgateway.\(table)")
        selection.condition.add("chain =", .text(chain))
        try await forEachRow(of: selection) { rows throws(AuditError) in
            try await copy.insert(rows, into: target, columns)
        }
    }

    private static func broken(
        _ fault: AuditVerification.Fault,
        row: Int64? = nil,
        _ explanation: String
    ) -> AuditVerification {
        var result = AuditVerification(rows: 0, prunedTo: 0)
        result.isCopy = true
        result.breach = AuditVerification.Breach(fault: fault, row: row, explanation: explanation)
        return result
    }

    /// A chain without an entry is found by its rows, from one name to the next one: a look at each row would take long.
    private static let chainsQuery = """
        WITH RECURSIVE found (chain) AS (
            (SELECT chain FROM authgateway.audit_event ORDER BY chain LIMIT 1)
            UNION ALL
            SELECT (SELECT e.chain FROM authgateway.audit_event AS e WHERE e.chain > found.chain ORDER BY e.chain LIMIT 1)
            FROM found WHERE found.chain IS NOT NULL
        ), named (chain) AS (
            SELECT chain FROM found WHERE chain IS NOT NULL UNION SELECT chain FROM authgateway.audit_chain
        )
        SELECT named.chain, c.host, c.key_check, c.head_id, c.head_hash
        FROM named LEFT JOIN authgateway.audit_chain AS c ON c.chain = named.chain
        ORDER BY c.host, named.chain
        """
}

/// A database that SQLite removes by itself, however the process ends: it is opened without a name, so its file has none, either
/// (https://www.sqlite.org/inmemorydb.html, "Temporary Databases"). Only this user may read it.
struct SharedAuditCopy: Sendable {
    private let database: DatabaseQueue

    init() throws(AuditError) {
        do {
            var configuration = Configuration()
            configuration.label = "audit-copy"
            database = try DatabaseQueue(path: "", configuration: configuration)
        } catch {
            throw Self.words(for: error)
        }
    }

    func use<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(AuditError) -> Value {
        do {
            return try await database.write(body)
        } catch {
            throw Self.words(for: error)
        }
    }

    func insert(_ rows: [[DatabaseValue]], into table: String, _ columns: [String]) async throws(AuditError) {
        let marks = repeatElement("?", count: columns.count).joined(separator: ", ")
        let sql = "INSERT INTO \(table) (\(columns.joined(separator: ", "))) VALUES (\(marks))"
        try await use { database in
            let statement = try database.makeStatement(sql: sql)
            for row in rows { try statement.execute(arguments: StatementArguments(row)) }
        }
    }

    private static func words(for error: any Error) -> AuditError {
        if let error = error as? AuditError { return error }
        let name = "the temporary copy of the audit log (in TMPDIR, or /var/tmp)"
        return AuditError(SQLiteFile.words(for: error, file: name, path: "/var/tmp"))
    }
}
