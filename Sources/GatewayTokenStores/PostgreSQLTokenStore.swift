package import Crypto
import Foundation
package import GatewayFiles
package import GatewayHTTP
package import GatewayTokens
import Synchronization

/// Keeps tokens in a PostgreSQL database that many gateways share, each row encrypted.
///
/// Each call is one short statement, and a transaction of its own: no transaction lasts over a call to a server, and a pooler
/// in between may hand out a connection per transaction. Leases are compared with the database's clock alone.
package final class PostgreSQLTokenStore: TokenStore {
    private struct State {
        /// The connection in which the tables and the key were looked at.
        var lookedAt = 0
        /// Which of ``sealers`` the database is encrypted with.
        var sealer = 0
        /// Why the last statement failed; nil when it did not.
        var lastFailure: TokenStoreError?
        /// The database takes no writes, although it may be read.
        var isReadOnly = false
    }

    package var isShared: Bool { true }

    /// For messages: without a password.
    private let name: String
    /// Internal, as the next two, ``ask(_:)`` and ``run(_:)`` are, for tests that look at the database beside the store.
    let connection: PostgreSQLConnection
    let listener: PostgreSQLConnection
    let feed = TokenChangeFeed()
    private let loads = TokenLoads()
    private let sealers: [TokenSealer]
    /// Recognises the key that the rows are named with; nil where that is not looked at.
    private let nameCheck: String?
    private let limit: Duration
    /// Whether an empty database gets its tables.
    private let makesTables: Bool
    private let state = Mutex(State())

    /// Connects in the background; returns at once. ``prepare()`` finds out whether the database can be used.
    ///
    /// - Parameters:
    ///   - listening: How to reach the server for LISTEN, where a pooler is between it and `options`.
    ///   - keys: See ``SQLiteTokenStore``. All gateways need the key of the database.
    ///   - names: What the rows are named with: a gateway with another key would find none of them.
    ///   - limit: How long a caller waits.
    package init(
        _ options: PostgreSQLOptions,
        listening: PostgreSQLOptions? = nil,
        keys: [SymmetricKey],
        names: SymmetricKey? = nil,
        makesTables: Bool = true,
        limit: Duration = .seconds(5)
    ) {
        name = "the token database \(options.url)"
        self.limit = limit
        self.makesTables = makesTables
        sealers = keys.map { TokenSealer(key: $0) }
        nameCheck = names.map { TokenSealer(key: $0).keyCheck }
        connection = PostgreSQLConnection(options)
        var listening = listening ?? options
        listening.channel = TokenNotification.channel
        listener = PostgreSQLConnection(
            listening,
            onNotification: { [feed] in feed.take($0) },
            onConnection: { [feed] in feed.note(listens: $0.listens) },
            onDisconnection: { [feed] in feed.note(listens: false) }
        )
    }

    // MARK: Health

    package var failure: TokenStoreError? {
        if let failure = connection.failure { return .unavailable("\(name) cannot be used: \(failure.reason)") }
        return state.withLock { $0.lastFailure ?? ($0.isReadOnly ? readOnly : nil) }
    }

    package func look() async {
        _ = try? await inspect()
    }

    package func close() async {
        feed.close()
        await connection.close(within: .seconds(3))
        await listener.close(within: .seconds(1))
    }

    // MARK: Statements

    private enum WriteEnd {
        case done([PostgreSQLRow])
        /// Another session has locked a row, and nothing was changed.
        case held(TokenStoreError)
    }

    /// Runs a statement that changes something: see ``run(_:)``.
    private func write(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> [PostgreSQLRow] {
        switch try await writeUnlessHeld(statement) {
        case .done(let rows): return rows
        case .held(let error): throw error
        }
    }

    /// A row that is held says nothing of the others, so that ``failure`` stays as it is.
    private func writeUnlessHeld(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> WriteEnd {
        do throws(TokenStoreError) {
            try await ensureReady()
            let end = try await writeAlone(statement)
            if case .done = end { state.withLock { ($0.lastFailure, $0.isReadOnly) = (nil, false) } }
            return end
        } catch {
            state.withLock { $0.lastFailure = error }
            throw error
        }
    }

    private func writeAlone(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> WriteEnd {
        do throws(PostgreSQLFailure) {
            return .done(try await connection.run(statement, within: limit))
        } catch {
            guard error.isOfHeldRow else { throw noted(error) }
            return .held(noted(error))
        }
    }

    /// Runs a statement once the tables and the key are known to be right.
    func run(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> [PostgreSQLRow] {
        do throws(TokenStoreError) {
            try await ensureReady()
            let rows = try await ask(statement)
            state.withLock { $0.lastFailure = nil }
            return rows
        } catch {
            state.withLock { $0.lastFailure = error }
            throw error
        }
    }

    func ask(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> [PostgreSQLRow] {
        do throws(PostgreSQLFailure) {
            return try await connection.run(statement, within: limit)
        } catch {
            throw noted(error)
        }
    }

    private func noted(_ failure: PostgreSQLFailure) -> TokenStoreError {
        if failure.isReadOnly { state.withLock { $0.isReadOnly = true } }
        return .unavailable(failure.words(for: name))
    }

    private var readOnly: TokenStoreError {
        .unavailable(PostgreSQLFailure(.refused("25006"), "the database is read-only").words(for: name))
    }
}

// MARK: - Records

/// Reads and changes records.
extension PostgreSQLTokenStore {
    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry {
        let row = try await loads.load(key, within: limit) { [self] keys async throws(TokenStoreError) in
            try await rows(of: keys)
        }
        return try entry(of: row)
    }

    package func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await saved(key, .token(token), .free(revision))
    }

    @discardableResult
    package func replace(
        _ token: StoredToken?,
        for key: CredentialKey
    ) async throws(TokenStoreError) -> TokenRevision {
        let answer = try await saved(key, RecordContent(token), .always)
        guard case .saved(let revision) = answer else {
            throw .unavailable(
                "a record of \(name) was not replaced, because others changed it at the same time; try again"
            )
        }
        return revision
    }

    package func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(key, token.map { .token($0) } ?? .same, .free(revision), .taken(time))
    }

    package func prolong(_ lease: TokenLease, for time: Duration) async throws(TokenStoreError) -> TokenLeaseAnswer {
        guard try await write(TokenStatement.prolong(lease, for: time)).isEmpty else { return .granted(lease) }
        return .changed(try await load(lease.key))
    }

    package func save(_ token: StoredToken, under lease: TokenLease) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await leased(lease.key, .token(token), .leased(lease.revision), .kept)
    }

    package func commit(_ token: StoredToken?, under lease: TokenLease) async throws(TokenStoreError) -> TokenSaveAnswer
    {
        try await saved(lease.key, RecordContent(token), .leased(lease.revision))
    }

    package func release(_ lease: TokenLease) async throws(TokenStoreError) {
        _ = try await write(TokenStatement.release(lease, by: feed.sender))
    }

    // MARK: One record

    private func saved(
        _ key: CredentialKey,
        _ content: RecordContent,
        _ condition: TokenStatement.Condition
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        let (decision, row) = try await change(key, content, condition, .ended)
        return try TokenSaveAnswer(decision) { () throws(TokenStoreError) in try entry(of: row) }
    }

    private func leased(
        _ key: CredentialKey,
        _ content: RecordContent,
        _ condition: TokenStatement.Condition,
        _ lease: TokenStatement.Lease
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        let (decision, row) = try await change(key, content, condition, lease)
        return try TokenLeaseAnswer(decision, of: key) { () throws(TokenStoreError) in try entry(of: row) }
    }

    /// A second round where the lease that was in the way has just ended, or the database has got another key.
    private static let rounds = 3

    private func change(
        _ key: CredentialKey,
        _ content: RecordContent,
        _ condition: TokenStatement.Condition,
        _ lease: TokenStatement.Lease
    ) async throws(TokenStoreError) -> (decision: RecordDecision, row: StoredRow) {
        let id = Hexadecimal.text(of: (0..<12).map { _ in UInt8.random(in: .min ... .max) })
        var round = 0
        while true {
            round += 1
            let sealer = sealers[state.withLock { $0.sealer }]
            let statement = TokenStatement(
                key: key,
                id: id,
                sender: feed.sender,
                keyCheck: sealer.keyCheck,
                condition: condition,
                lease: lease,
                // The gateway's clock, for people; nothing is compared with it.
                content: try content.sealed(for: key, by: sealer, at: SQLiteTokenStore.wallClock(), in: name)
            )
            if let revision = try await write(statement.statement).first?.integer(0) {
                return (.allowed(TokenRevision(revision)), .missing)
            }
            let row = try await row(of: key)
            // Its answer was lost, and it was sent again.
            if row.change == id, let revision = row.revision { return (.allowed(revision), row) }
            switch condition {
            case .free(let known):
                if let time = row.leaseTime { return (.held(for: time), row) }
                if row.revision == known, round < Self.rounds { continue }
            case .leased(let known): if row.revision == known, round < Self.rounds { continue }
            case .always: if round < Self.rounds { continue }
            }
            return (.changed, row)
        }
    }

    // MARK: Reading

    private func row(of key: CredentialKey) async throws(TokenStoreError) -> StoredRow {
        guard let row = try await rows(of: [key])[key] else { throw missingKey }
        return row
    }

    /// - Returns: One for each key.
    private func rows(of keys: [CredentialKey]) async throws(TokenStoreError) -> [CredentialKey: StoredRow] {
        let found = try await run(TokenStatement.load(keys))
        guard let check = found.first?.text(0) else { throw missingKey }
        try use(check)
        let missing = Dictionary(keys.map { ($0, StoredRow.missing) }) { first, _ in first }
        let present = found.compactMap { row in
            row.text(9).map { CredentialKey(digest: $0) }.map { ($0, StoredRow(row, of: $0)) }
        }
        return missing.merging(present) { $1 }
    }

    private func entry(of row: StoredRow) throws(TokenStoreError) -> TokenEntry {
        guard let revision = row.revision else { return .nothing }
        guard let sealed = row.sealed else { throw damagedRow }
        guard !sealed.isRemoved else { return TokenEntry(token: nil, revision: revision) }
        guard sealed.version == TokenRecord.version else {
            throw .damaged(
                "a row of \(name) has format \(sealed.version) and this program knows \(TokenRecord.version); run the newer "
                    + "program on all gateways, or run `authgateway token clear NAME`"
            )
        }
        // While the key is being replaced, rows of both are there.
        guard let token = sealers.lazy.compactMap({ $0.open(sealed) }).first else { throw damagedRow }
        return TokenEntry(token: token, revision: revision)
    }

    private var damagedRow: TokenStoreError {
        .damaged(
            "a row of \(name) was changed after it was written; run `authgateway token clear NAME` to forget that token, or "
                + "restore the database from a backup"
        )
    }
}

// MARK: - Changes of others

/// Follows what other gateways change.
extension PostgreSQLTokenStore {
    package func changes() -> AsyncStream<TokenChange>? {
        feed.watch { [weak self] in await self?.poll() ?? false }
    }

    package func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        let rows = try await run(TokenStatement.changes(since: mark))
        guard let low = rows.first?.integer(0) else { throw .unavailable("\(name) did not report its transactions") }
        var changes = TokenChanges(mark: TokenStoreMark(low), upTo: rows.first?.integer(3).map { FleetMark($0) })
        for row in rows {
            guard let key = row.text(1), let revision = row.integer(2) else { continue }
            changes.revisions[CredentialKey(digest: key)] = TokenRevision(revision)
        }
        return changes
    }

    /// Where notifications do not arrive, asking for changes takes their place.
    ///
    /// - Returns: Whether the store is still there.
    private func poll() async -> Bool {
        guard !feed.isClosed else { return false }
        guard !feed.listens else {
            feed.mark = nil
            return true
        }
        let before = feed.mark
        guard let changes = try? await changes(since: before) else { return true }
        feed.mark = changes.mark
        if before != nil { for (key, revision) in changes.revisions { feed.tell(key, revision) } }
        return true
    }
}

// MARK: - Locks

extension PostgreSQLTokenStore: SharedLocks {
    package var sharedLocks: (any SharedLocks)? { self }

    /// With this number of rows that others hold, the rest waits for the next call.
    private static let maximumHeld = 3

    package func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> SharedLockNames {
        let added = added.subtracting(removed)
        guard !added.isEmpty || !removed.isEmpty else { return try await lockedNames() }
        switch try await writeUnlessHeld(Self.change(added, removed)) {
        case .done(let rows): return Self.answer(rows)
        case .held(let error):
            let held = try await updateEach(of: added, removed)
            var answer = try await lockedNames()
            (answer.held, answer.reason) = (held, error.reason)
            return answer
        }
    }

    /// A row that another session holds keeps no other name from being told.
    ///
    /// - Returns: The names whose rows are held.
    private func updateEach(
        of added: Set<String>,
        _ removed: Set<String>
    ) async throws(TokenStoreError) -> Set<String> {
        let all = added.union(removed)
        guard all.count > 1 else { return all }
        var held: Set<String> = []
        // Each time in another order, so that every name has its turn.
        for name in all.shuffled() {
            if held.count < Self.maximumHeld,
                case .done = try await writeUnlessHeld(
                    Self.change(added.intersection([name]), removed.intersection([name]))
                )
            {
                continue
            }
            held.insert(name)
        }
        return held
    }

    private func lockedNames() async throws(TokenStoreError) -> SharedLockNames {
        Self.answer(try await run(Self.names))
    }

    private static func answer(_ rows: [PostgreSQLRow]) -> SharedLockNames {
        SharedLockNames(
            Set(rows.compactMap { $0.text(0) }),
            upTo: rows.first?.integer(1).map { FleetMark($0) }
        )
    }

    /// One row without a name where none is locked, for the mark.
    private static let names = PostgreSQLStatement(
        "SELECT name, \(FleetStatement.upTo) FROM (VALUES (1)) AS one LEFT JOIN authgateway.lock ON true",
        isRepeatable: true
    )

    /// What a statement changes is not yet visible in it.
    private static func change(_ added: Set<String>, _ removed: Set<String>) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            WITH added AS (SELECT jsonb_array_elements_text($1::jsonb) AS name),
            removed AS (SELECT jsonb_array_elements_text($2::jsonb) AS name),
            unlocked AS (DELETE FROM authgateway.lock WHERE name IN (SELECT name FROM removed) AND \(RowWait.isLimited)),
            locked AS (INSERT INTO authgateway.lock (name) SELECT name FROM added WHERE \(RowWait.isLimited)
            ON CONFLICT (name) DO NOTHING)
            SELECT name, \(FleetStatement.upTo) FROM authgateway.lock WHERE name NOT IN (SELECT name FROM removed)
            UNION SELECT name, \(FleetStatement.upTo) FROM added
            """,
            [.text(list(added)), .text(list(removed))],
            isRepeatable: true
        )
    }

    private static func list(_ names: Set<String>) -> String {
        "[" + names.sorted().map(JSONString.quoted).joined(separator: ",") + "]"
    }
}

// MARK: - Fleet

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
            throw .unavailable("\(name) did not report its transactions")
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

// MARK: - Tables and key

/// Makes and checks the tables, and the key that they were written with.
extension PostgreSQLTokenStore {
    package static let schemaVersion = SharedSchema.version

    /// Looks at the tables and the key, and makes the tables of an empty database. Call it while starting.
    ///
    /// - Throws: ``TokenStoreError/damaged(_:)`` when another key or a newer program has written it.
    package func prepare() async throws(TokenStoreError) { try await ensureReady() }

    /// Makes the tables, or brings those of an earlier program up to date: `authgateway store migrate`.
    ///
    /// - Returns: The version before; nil when there were no tables.
    package func migrate() async throws(TokenStoreError) -> Int64? {
        let version = try await version()
        if let version { try requireKnown(version) }
        _ = try await ask(PostgreSQLStatement(makeTables, isRepeatable: true))
        return version
    }

    private func ensureReady() async throws(TokenStoreError) {
        let number = connection.connections
        guard number == 0 || state.withLock({ $0.lookedAt != number }) else { return }
        guard let version = try await version() else {
            guard makesTables else { throw noTables }
            _ = try await migrate()
            return try await ensureKey(number)
        }
        try requireCurrent(version)
        try await ensureKey(number)
    }

    private func ensureKey(_ number: Int) async throws(TokenStoreError) {
        let statement = PostgreSQLStatement(
            "SELECT name, value FROM authgateway.store WHERE name IN ('key_check', 'name_check')",
            isRepeatable: true
        )
        let checks = try await ask(statement)
        guard let check = checks.first(where: { $0.text(0) == "key_check" })?.text(1) else { throw missingKey }
        try use(check)
        var found = checks.first { $0.text(0) == "name_check" }?.text(1)
        if found == nil, nameCheck != nil { found = try await markNames() }
        if let nameCheck, let found, found != nameCheck {
            throw .damaged(
                "the tokens in \(name) are named with another key; all gateways of a fleet need the same tokens.key: copy its "
                    + "file from a gateway that works"
            )
        }
        state.withLock { $0.lookedAt = max(number, 1) }
    }

    /// Tables of an earlier program have no mark of the key that names records. The first gateway that may write one does, so
    /// that one with another key is refused.
    ///
    /// - Returns: The mark, which another gateway may have written at the same time; nil where gateways may not write one.
    private func markNames() async throws(TokenStoreError) -> String? {
        let right = PostgreSQLStatement(
            "SELECT has_table_privilege('authgateway.store', 'INSERT')",
            isRepeatable: true
        )
        guard let nameCheck, try await ask(right).first?.boolean(0) == true else { return nil }
        // A block takes no parameters; a check is hexadecimal digits.
        let insert =
            "INSERT INTO authgateway.store (name, value) VALUES ('name_check', '\(nameCheck)') ON CONFLICT (name) DO NOTHING"
        _ = try await ask(PostgreSQLStatement(insert, isRepeatable: true))
        let read = PostgreSQLStatement(
            "SELECT value FROM authgateway.store WHERE name = 'name_check'",
            isRepeatable: true
        )
        return try await ask(read).first?.text(0)
    }

    /// nil when there are no tables.
    private func version() async throws(TokenStoreError) -> Int64? {
        let present = PostgreSQLStatement("SELECT to_regclass('authgateway.store') IS NOT NULL", isRepeatable: true)
        guard try await ask(present).first?.boolean(0) == true else { return nil }
        return try await ask(SharedSchema.question).first?.integer(0)
    }

    private func requireCurrent(_ version: Int64) throws(TokenStoreError) {
        try requireKnown(version)
        guard version < Self.schemaVersion else { return }
        throw .unavailable(
            "\(name) has the tables of an older authgateway (schema \(version); this one needs \(Self.schemaVersion)); run "
                + "`authgateway store migrate`"
        )
    }

    private func requireKnown(_ version: Int64) throws(TokenStoreError) {
        if let problem = SharedSchema.problem(with: version, in: name) { throw .damaged(problem) }
    }

    /// Chooses the key that the database is encrypted with.
    private func use(_ check: String) throws(TokenStoreError) {
        guard let index = sealers.firstIndex(where: { $0.keyCheck == check }) else {
            throw .damaged(
                "\(name) was encrypted with another key; all gateways of a fleet need the same one: copy the file of tokens.key "
                    + "from a gateway that works, or name the key that the database was encrypted with as "
                    + "tokens.previous_encryption_key"
            )
        }
        state.withLock { $0.sealer = index }
    }

    private var noTables: TokenStoreError {
        .unavailable("\(name) has no tables yet; run `authgateway store migrate` as the owner of the database")
    }

    private var missingKey: TokenStoreError {
        .damaged("\(name) has tables without a key check; run `authgateway store migrate`")
    }

    /// One statement, so that it is one transaction. Gateways that start at the same time wait for each other.
    ///
    /// `changed` is the transaction that changed the row: a query for what came later misses none
    /// (PostgreSQL documentation, section 9.27, pg_snapshot_xmin).
    private var makeTables: String {
        // A block takes no parameters; a check is hexadecimal digits.
        let checks = sealers.map { "'\($0.keyCheck)'" }.joined(separator: ", ")
        let mark = nameCheck.map { check in
            """
            INSERT INTO authgateway.store (name, value) SELECT 'name_check', '\(check)'
                WHERE EXISTS (SELECT 1 FROM authgateway.store WHERE name = 'key_check' AND value IN (\(checks)))
                ON CONFLICT (name) DO NOTHING;
            """
        }
        return """
            DO $$ BEGIN
            PERFORM pg_advisory_xact_lock(hashtextextended('authgateway schema', 0));
            IF to_regnamespace('authgateway') IS NULL THEN CREATE SCHEMA authgateway; END IF;
            CREATE TABLE IF NOT EXISTS authgateway.store (name text PRIMARY KEY, value text NOT NULL);
            CREATE TABLE IF NOT EXISTS authgateway.token (
                key text PRIMARY KEY,
                revision bigint NOT NULL,
                lease_until timestamptz,
                change text NOT NULL,
                changed bigint NOT NULL,
                generation bigint NOT NULL,
                updated_at text NOT NULL,
                version int NOT NULL,
                nonce bytea NOT NULL,
                ciphertext bytea NOT NULL
            );
            CREATE TABLE IF NOT EXISTS authgateway.lock (name text PRIMARY KEY);
            CREATE INDEX IF NOT EXISTS token_changed ON authgateway.token (changed);
            \(FleetTables.statements)
            INSERT INTO authgateway.store (name, value) VALUES ('schema', '\(Self.schemaVersion)')
                ON CONFLICT (name) DO UPDATE SET value = excluded.value;
            INSERT INTO authgateway.store (name, value) VALUES ('key_check', '\(sealers[0].keyCheck)')
                ON CONFLICT (name) DO NOTHING;
            \(mark ?? "")
            END $$
            """
    }
}

// MARK: - Encryption

/// Encrypts all records anew.
extension PostgreSQLTokenStore {
    /// Encrypts every row with the first key: `authgateway store encrypt`. Gateways that have both keys go on meanwhile.
    ///
    /// It can be begun again after a crash at any instant: the database says which key is written with, and a row opens with either.
    ///
    /// - Returns: How many rows were re-encrypted.
    package func encrypt() async throws(TokenStoreError) -> Int {
        try await ensureReady()
        let next = sealers[0]
        let present = sealers[state.withLock { $0.sealer }]
        if present.keyCheck != next.keyCheck {
            _ = try await ask(
                PostgreSQLStatement(
                    "UPDATE authgateway.store SET value = $1::text WHERE name = 'key_check' AND value = $2::text",
                    [.text(next.keyCheck), .text(present.keyCheck)],
                    isRepeatable: true
                )
            )
        }
        var total = 0
        // A write that began before the change may end after a row was looked at: until nothing is left to do.
        while true {
            let count = try await encryptOnce(with: next)
            total += count
            guard count > 0 else { return total }
        }
    }

    private func encryptOnce(with next: TokenSealer) async throws(TokenStoreError) -> Int {
        let list = PostgreSQLStatement(
            "SELECT key FROM authgateway.token WHERE version <> \(SealedToken.removedVersion)",
            isRepeatable: true
        )
        var count = 0
        for found in try await run(list) {
            guard let name = found.text(0) else { continue }
            let key = CredentialKey(digest: name)
            guard let sealed = try await row(of: key).sealed, !sealed.isRemoved, next.plaintext(of: sealed) == nil
            else {
                continue
            }
            guard let renewed = sealers.lazy.compactMap({ next.sealAgain(sealed, openedBy: $0) }).first else {
                throw .damaged(
                    "a row of \(self.name) cannot be decrypted with any of the keys; `authgateway token list` names the "
                        + "credential, and `authgateway token clear NAME` forgets its token"
                )
            }
            let update = PostgreSQLStatement(
                "UPDATE authgateway.token SET nonce = $1::bytea, ciphertext = $2::bytea WHERE key = $3::text AND nonce = $4::bytea",
                [
                    .bytes(Array(renewed.nonce)), .bytes(Array(renewed.ciphertext)), .text(name),
                    .bytes(Array(sealed.nonce)),
                ],
                isRepeatable: true
            )
            _ = try await ask(update)
            count += 1
        }
        return count
    }
}

// MARK: - For doctor

/// What `doctor` asks.
extension PostgreSQLTokenStore {
    /// Looks at the database, for `doctor`.
    package func inspect() async throws(TokenStoreError) -> DatabaseObservation {
        let begun = Date()
        guard let row = try await run(Self.inspection).first, let time = row.integer(5) else {
            throw .unavailable("\(name) did not report its settings")
        }
        // In the middle of question and answer.
        let now = Int64((begun.timeIntervalSince1970 + Date().timeIntervalSince1970) / 2 * 1000)
        var found = DatabaseObservation(serverVersion: row.text(0) ?? "")
        found.isReadOnly = row.boolean(1) ?? false
        found.synchronousCommit = row.text(2) ?? ""
        found.synchronousStandbys = Int(row.integer(3) ?? 0)
        found.standbys = Int(row.integer(4) ?? 0)
        found.clockOffset = .milliseconds(time - now)
        found.listens = feed.listens
        state.withLock { $0.isReadOnly = found.isReadOnly }
        // The setting of a session outlasts its change in the database.
        if found.isReadOnly { connection.renew() }
        return found
    }

    /// A role without rights sees standbys, but not their state.
    private static let inspection = PostgreSQLStatement(
        """
        SELECT current_setting('server_version'), current_setting('transaction_read_only') = 'on',
        current_setting('synchronous_commit'),
        (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
        (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NOT NULL),
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        """,
        isRepeatable: true
    )

    /// Returns once changes of others arrive by themselves, at the latest after `limit`.
    package func waitForNotifications(within limit: Duration) async {
        let end = ContinuousClock.now.advanced(by: limit)
        while !feed.listens, listener.server == nil, ContinuousClock.now < end {
            guard (try? await Task.sleep(for: .milliseconds(20))) != nil else { return }
        }
    }
}

/// What PostgreSQL says about itself: how safe a commit is there, and what its clock says.
package struct DatabaseObservation: Hashable, Sendable {
    /// Such as 15.3.
    package var serverVersion: String
    package var isReadOnly = false
    /// The server's setting.
    package var synchronousCommit = "on"
    /// Standbys, and those that a commit waits for.
    package var standbys = 0
    package var synchronousStandbys = 0
    /// The database's clock minus the gateway's.
    package var clockOffset: Duration = .zero
    /// Changes of other gateways arrive by LISTEN.
    package var listens = true

    package init(serverVersion: String) { self.serverVersion = serverVersion }

    /// After a failover the tokens of the last commit are there.
    package var keepsLastCommit: Bool {
        guard !["off", "local"].contains(synchronousCommit) else { return false }
        return standbys == 0 || synchronousStandbys > 0
    }
}
