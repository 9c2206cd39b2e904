import Foundation
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayTokenStores

@Suite("Tokens in PostgreSQL", .timeLimit(.minutes(5)))
struct PostgreSQLTokenStoreTests {
    static let server = Result { try PostgreSQLTestServer() }
    let name = CredentialKey(digest: "00112233445566778899aabbccddeeff")

    private func key(_ first: UInt8 = 0) throws -> InstallationKey {
        try InstallationKey(bytes: Array(first..<first + 32))
    }

    func open(_ database: String, keys: [InstallationKey]? = nil) throws -> PostgreSQLTokenStore {
        let url = try PostgreSQLURL(try Self.server.get().url(database))
        let keys = try keys ?? [key()]
        return PostgreSQLTokenStore(PostgreSQLOptions(url), keys: keys.map { $0.derived(for: .tokenStore) })
    }

    func token(_ generation: Int = 3) -> StoredToken {
        StoredToken(
            generation: generation,
            token: TokenSet(access: Secret("canary-\(generation)"), obtainedAt: UnixTime(seconds: 1_772_357_400))
        )
    }

    @Test func itKeepsItsPromises() async throws {
        let server = try Self.server.get()
        let databases = Databases()
        try await TokenStoreConformance(
            makeStore: {
                let database = try server.makeDatabase()
                let store = try open(database)
                await databases.note(database, for: store)
                return store
            },
            reopen: { store in
                let database = try #require(await databases.name(of: store))
                await store.close()
                let new = try open(database)
                await databases.note(database, for: new)
                return new
            },
            beside: { try open(try #require(await databases.name(of: $0))) },
            damage: { store, name in
                let database = try #require(await databases.name(of: store))
                try server.administrate(
                    "UPDATE authgateway.token SET ciphertext = sha256(ciphertext) WHERE key = '\(name.digest)'",
                    database: database
                )
            }
        ).check()
    }

    @Test func manyGatewaysMayBeginWithAnEmptyDatabase() async throws {
        let database = try Self.server.get().makeDatabase()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 1...6 {
                group.addTask {
                    let store = try open(database)
                    try await store.prepare()
                    try await store.replace(token(index), for: CredentialKey(digest: "\(index)"))
                    await store.close()
                }
            }
            try await group.waitForAll()
        }
        let store = try open(database)
        for index in 1...6 {
            #expect(try await store.load(CredentialKey(digest: "\(index)")).token == token(index))
        }
        await store.close()
    }

    @Test func nothingSecretIsInTheDatabase() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        try await store.replace(token(), for: name)
        try server.administrate(
            "DO $$ BEGIN IF EXISTS (SELECT 1 FROM authgateway.token WHERE position('canary' IN encode(ciphertext, 'escape')) > 0) "
                + "OR NOT EXISTS (SELECT 1 FROM authgateway.token) THEN RAISE 'secret'; END IF; END $$",
            database: database
        )
        await store.close()
    }

    @Test func anotherKeyIsAClearError() async throws {
        let database = try Self.server.get().makeDatabase()
        let store = try open(database)
        try await store.replace(token(), for: name)
        let other = try open(database, keys: [key(1)])
        await requireDamage("tokens.previous_encryption_key") { _ = try await other.load(name) }
        await requireDamage("another key") { try await other.replace(token(4), for: name) }
        // Both keys are known while one is being replaced.
        let both = try open(database, keys: [key(1), key()])
        try await both.replace(token(5), for: name)
        #expect(try await store.load(name).token == token(5))
        for store in [store, other, both] { await store.close() }
    }

    @Test func aGatewayThatNamesRowsInAnotherWayIsAClearError() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let open = { (names: InstallationKey) throws in
            PostgreSQLTokenStore(
                PostgreSQLOptions(try PostgreSQLURL(server.url(database))),
                keys: [try key().derived(for: .tokenStore)],
                names: names.derived(for: .credentialKey)
            )
        }
        // Tables of an earlier program have no mark: the first gateway that starts leaves one.
        let earlier = try self.open(database)
        try await earlier.prepare()
        let (store, same, late) = (try open(key()), try open(key()), try open(key(1)))
        try await store.prepare()
        try await store.replace(token(), for: name)
        try await same.prepare()
        await requireDamage("named with another key") { try await late.prepare() }
        for store in [earlier, store, same, late] { await store.close() }
    }

    @Test func aKeyIsReplacedWhileGatewaysWithBothGoOn() async throws {
        let database = try Self.server.get().makeDatabase()
        let old = try open(database)
        for index in 1...5 { try await old.replace(token(index), for: CredentialKey(digest: "\(index)")) }
        try await old.replace(nil, for: CredentialKey(digest: "5"))
        let both = try open(database, keys: [key(1), key()])
        #expect(try await both.load(CredentialKey(digest: "1")).token == token(1))
        let entry = try await both.load(CredentialKey(digest: "2"))
        let tool = try open(database, keys: [key(1), key()])
        #expect(try await tool.encrypt() == 4)
        #expect(try await tool.encrypt() == 0)
        // What it knew of the record is still true.
        guard case .saved = try await both.save(token(9), for: CredentialKey(digest: "2"), expecting: entry.revision)
        else {
            Issue.record("a new encryption is no change")
            return
        }
        let new = try open(database, keys: [key(1)])
        #expect(try await new.load(CredentialKey(digest: "2")).token == token(9))
        #expect(try await new.load(CredentialKey(digest: "4")).token == token(4))
        await requireDamage("another key") { _ = try await old.load(CredentialKey(digest: "1")) }
        for store in [old, both, tool, new] { await store.close() }
    }

    @Test func locksAreShared() async throws {
        let database = try Self.server.get().makeDatabase()
        let (one, other) = (try open(database), try open(database))
        #expect(try await one.update(locking: [], unlocking: []).names == [])
        #expect(try await one.update(locking: ["a \"\\é", "b"], unlocking: []).names == ["a \"\\é", "b"])
        #expect(try await other.update(locking: ["c", "b"], unlocking: ["b"]).names == ["a \"\\é", "c"])
        #expect(try await one.update(locking: [], unlocking: []).names == ["a \"\\é", "c"])
        for store in [one, other] { await store.close() }
    }

    @Test func tablesOfANewerProgramAreRefused() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        #expect(try await store.migrate() == nil)
        #expect(try await store.migrate() == 1)
        await store.close()
        try server.administrate("UPDATE authgateway.store SET value = '2' WHERE name = 'schema'", database: database)
        let next = try open(database)
        await requireDamage("newer authgateway (schema 2; this one knows 1)") { try await next.prepare() }
        await requireDamage("newer") { _ = try await next.migrate() }
        await next.close()
        try server.administrate("UPDATE authgateway.store SET value = '0' WHERE name = 'schema'", database: database)
        let old = try open(database)
        do throws(TokenStoreError) {
            try await old.prepare()
            Issue.record("tables of an older program are used")
        } catch {
            #expect(error.reason.contains("older authgateway (schema 0; this one needs 1)"), "\(error.reason)")
        }
        #expect(try await old.migrate() == 0)
        try await old.prepare()
        await old.close()
    }

    /// What docs/fleet.md says about the roles.
    @Test func aRoleWithoutTheRightToMakeTablesIsEnough() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let role = "gateway_\(database)"
        try server.administrate("CREATE ROLE \(role) LOGIN", database: database)
        let url = try PostgreSQLURL(server.url(database, user: role))
        let keys = [try key().derived(for: .tokenStore)]
        let early = PostgreSQLTokenStore(PostgreSQLOptions(url), keys: keys)
        do throws(TokenStoreError) {
            try await early.prepare()
            Issue.record("a role without rights made tables")
        } catch {
            #expect(error.reason.contains("authgateway store migrate"), "\(error.reason)")
        }
        await early.close()
        let owner = try open(database)
        _ = try await owner.migrate()
        try server.administrate(
            """
            GRANT USAGE ON SCHEMA authgateway TO \(role);
            GRANT SELECT ON authgateway.store TO \(role);
            GRANT SELECT, INSERT, UPDATE ON authgateway.token TO \(role);
            GRANT SELECT, INSERT, DELETE ON authgateway.lock TO \(role);
            """,
            database: database
        )
        let store = PostgreSQLTokenStore(PostgreSQLOptions(url), keys: keys)
        let revision = try await store.replace(token(), for: name)
        guard
            case .granted(let lease) = try await store.lease(name, expecting: revision, for: .seconds(5), writing: nil)
        else {
            Issue.record("no lease")
            return
        }
        #expect(try await store.commit(nil, under: lease) == .saved(lease.revision.next))
        #expect(try await store.update(locking: ["a"], unlocking: ["b"]).names == ["a"])
        #expect(try await store.update(locking: [], unlocking: ["a"]).names.isEmpty)
        for store in [store, owner] { await store.close() }
    }

    @Test func aReadOnlyDatabaseIsReadAndRefusesWrites() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        try await store.replace(token(), for: name)
        try server.administrate("ALTER DATABASE \(database) SET default_transaction_read_only = on")
        let second = try open(database)
        #expect(try await second.load(name).token == token())
        do throws(TokenStoreError) {
            try await second.replace(token(4), for: name)
            Issue.record("written")
        } catch {
            #expect(error.reason.contains("accepts no writes"), "\(error.reason)")
        }
        #expect(second.failure != nil)
        await second.look()
        #expect(second.failure?.reason.contains("accepts no writes") == true)
        // A read says nothing of writes.
        #expect(try await second.load(name).token == token())
        #expect(second.failure?.reason.contains("accepts no writes") == true)
        for _ in 0..<20 { await second.look() }
        #expect(second.connection.connections == 1, "a connection that has just begun is kept")
        try server.administrate("ALTER DATABASE \(database) SET default_transaction_read_only = off")
        // The next connection comes after a pause.
        for _ in 0..<100 where second.failure != nil {
            try await Task.sleep(for: .milliseconds(100))
            await second.look()
        }
        #expect(second.failure == nil)
        #expect(second.connection.connections <= 3)
        try await second.replace(token(5), for: name)
        let report = try await second.inspect()
        #expect(report.synchronousCommit == "on" && report.keepsLastCommit && report.listens)
        #expect(abs(report.clockOffset.wholeMilliseconds) < 1000)
        for store in [store, second] { await store.close() }
    }

    @Test func manyRenewalsOfManyGatewaysAreOnePerGeneration() async throws {
        let database = try Self.server.get().makeDatabase()
        let stores = [try open(database), try open(database), try open(database)]
        try await stores[0].replace(token(0), for: name)
        let commits = try await withThrowingTaskGroup(of: Int.self) { group in
            for store in stores {
                group.addTask {
                    var commits = 0
                    while true {
                        let entry = try await store.load(name)
                        let generation = entry.token?.generation ?? 0
                        guard generation < 100 else { return commits }
                        let answer = try await store.lease(
                            name,
                            expecting: entry.revision,
                            for: .seconds(5),
                            writing: nil
                        )
                        guard case .granted(let lease) = answer else {
                            try await Task.sleep(for: .milliseconds(5))
                            continue
                        }
                        guard case .saved = try await store.commit(token(generation + 1), under: lease) else {
                            throw ConformanceFailure("a commit under a lease failed")
                        }
                        commits += 1
                    }
                }
            }
            return try await group.reduce(0, +)
        }
        #expect(commits == 100)
        for store in stores { await store.close() }
    }

    func requireDamage(_ words: String, _ body: () async throws -> Void) async {
        do {
            try await body()
            Issue.record("expected damage")
        } catch TokenStoreError.damaged(let reason) {
            #expect(reason.contains(words), "\(reason)")
        } catch {
            Issue.record("expected damage, got \(error)")
        }
    }
}

/// Which database a store was opened with.
private actor Databases {
    private var names: [ObjectIdentifier: String] = [:]
    func note(_ name: String, for store: PostgreSQLTokenStore) { names[ObjectIdentifier(store)] = name }
    func name(of store: PostgreSQLTokenStore) -> String? { names[ObjectIdentifier(store)] }
}
