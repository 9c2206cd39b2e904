package import GatewayCore
import GatewayFiles
import Synchronization

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

    func ensureReady() async throws(TokenStoreError) {
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
    func use(_ check: String) throws(TokenStoreError) {
        guard let index = sealers.firstIndex(where: { $0.keyCheck == check }) else {
            throw .damaged(
                "\(name) was encrypted with another key; all gateways of a fleet need the same one: copy the file of tokens.key "
                    + "from a gateway that works, or name the key that the database was encrypted with as "
                    + "tokens.previous_encryption_key"
            )
        }
        state.withLock { $0.sealer = index }
    }

    var noTables: TokenStoreError {
        .unavailable("\(name) has no tables yet; run `authgateway store migrate` as the owner of the database")
    }

    var missingKey: TokenStoreError {
        .damaged("\(name) has tables without the mark of a key; run `authgateway store migrate`")
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
