import Foundation
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayTokenStores

@Suite("Gateways in PostgreSQL", .timeLimit(.minutes(5)))
struct PostgreSQLFleetTests {
    private static let server = Result { try PostgreSQLTestServer() }

    private func open(_ database: String, user: String = "postgres") throws -> PostgreSQLTokenStore {
        let url = try PostgreSQLURL(try Self.server.get().url(database, user: user))
        let key = try InstallationKey(bytes: Array(0..<32))
        return PostgreSQLTokenStore(PostgreSQLOptions(url), keys: [key.derived(for: .tokenStore)])
    }

    private func heartbeat(_ id: String, acknowledged: Int64 = 0) -> FleetHeartbeat {
        FleetHeartbeat(
            id: id,
            host: "host \"\(id)\"",
            version: "1.2.3",
            startedAt: "2026-11-25T08:00:00.000Z",
            configurationDigest: "8a04c3",
            clockOffset: .milliseconds(-1500),
            unshipped: 7,
            acknowledged: FleetMark(acknowledged)
        )
    }

    @Test func aGatewayIsSeenUntilItLeaves() async throws {
        let database = try Self.server.get().makeDatabase()
        let (one, other) = (try open(database), try open(database))
        let time = try await one.beat(heartbeat("1"))
        #expect(abs(Double(time.milliseconds) / 1000 - Date().timeIntervalSince1970) < 5)
        var later = heartbeat("2")
        _ = try await other.beat(later)
        later.unshipped = 0
        _ = try await other.beat(later)
        let members = try await one.members()
        #expect(members.map(\.heartbeat) == [later, heartbeat("1")])
        #expect(members.allSatisfy { $0.seen < .seconds(5) })
        try await one.leave("1")
        #expect(try await other.members().map(\.id) == ["2"])
        for store in [one, other] { await store.close() }
    }

    /// Statements about tokens go over the same connection.
    @Test func aHeartbeatDoesNotWaitForASessionThatHasLockedItsRow() async throws {
        let database = try Self.server.get().makeDatabase()
        let store = try open(database)
        _ = try await store.beat(heartbeat("1"))
        let session = PostgreSQLConnection(PostgreSQLOptions(try PostgreSQLURL(try Self.server.get().url(database))))
        let lock = PostgreSQLStatement(
            """
            WITH held AS (UPDATE authgateway.gateway SET host = host RETURNING id)
            SELECT count(*), pg_sleep(6) FROM held
            """
        )
        async let held = session.run(lock, within: .seconds(20))
        // Nobody tells when the row is locked.
        try await Task.sleep(for: .seconds(1))
        let begun = ContinuousClock.now
        await #expect(throws: TokenStoreError.self) { _ = try await store.beat(heartbeat("1")) }
        #expect(ContinuousClock.now - begun < .seconds(3))
        #expect(store.failure == nil)
        _ = try await held
        _ = try await store.beat(heartbeat("1"))
        await session.close(within: .seconds(1))
        await store.close()
    }

    @Test func aGatewayThatWasNotSeenForADayIsForgotten() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        for id in ["old", "new"] { _ = try await store.beat(heartbeat(id)) }
        try server.administrate(
            "UPDATE authgateway.gateway SET seen_at = clock_timestamp() - interval '25 hours' WHERE id = 'old'",
            database: database
        )
        #expect(try await store.members().map(\.id) == ["new"])
        _ = try await store.beat(heartbeat("new"))
        try server.administrate(
            "DO $$ BEGIN IF EXISTS (SELECT 1 FROM authgateway.gateway WHERE id = 'old') THEN RAISE 'there'; END IF; END $$",
            database: database
        )
        // One that comes back is there again.
        _ = try await store.beat(heartbeat("old"))
        #expect(try await Set(store.members().map(\.id)) == ["new", "old"])
        await store.close()
    }

    @Test(arguments: [(999, 1000), (1000, 1000)])
    func aThousandGatewaysAreListed(others: Int, listed: Int) async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        _ = try await store.beat(heartbeat("newest"))
        try server.administrate(
            """
            INSERT INTO authgateway.gateway SELECT (jsonb_populate_record(g, jsonb_build_object('id', 'other ' || n,
            'seen_at', g.seen_at - interval '1 second'))).* FROM authgateway.gateway g, generate_series(1, \(others)) n
            """,
            database: database
        )
        let members = try await store.members()
        #expect(members.count == listed)
        #expect(members.first?.id == "newest")
        await store.close()
    }

    @Test func rightsThatAHeartbeatNeedsAreNamed() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let owner = try open(database)
        #expect(try await owner.missingFleetRights().isEmpty)
        try server.administrate(
            """
            CREATE ROLE few_\(database) LOGIN; GRANT USAGE ON SCHEMA authgateway TO few_\(database);
            GRANT SELECT ON authgateway.store, authgateway.gateway TO few_\(database);
            GRANT UPDATE ON authgateway.gateway TO few_\(database);
            """,
            database: database
        )
        let few = try open(database, user: "few_\(database)")
        #expect(try await few.missingFleetRights() == ["INSERT", "DELETE"])
        await #expect(throws: TokenStoreError.self) { _ = try await few.beat(heartbeat("1")) }
        #expect(few.failure == nil, "tokens are stored all the same")
        for store in [owner, few] { await store.close() }
    }

    @Test func aCopyOfAGatewayIsNamed() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        var copy = heartbeat("1")
        copy.startedAt = "2026-11-25T09:00:00.000Z"
        _ = try await store.beat(copy)
        let error = await #expect(throws: TokenStoreError.self) { _ = try await store.beat(heartbeat("1")) }
        #expect(error?.reason.contains("has the same id, 1,") == true)
        #expect(error?.reason.contains("`authgateway state restore FOLDER --replace`") == true)
        #expect(try await store.members().map(\.heartbeat) == [copy])
        try server.administrate(
            "UPDATE authgateway.gateway SET seen_at = clock_timestamp() - interval '6 seconds'",
            database: database
        )
        _ = try await store.beat(heartbeat("1"))
        #expect(try await store.members().map(\.heartbeat) == [heartbeat("1")])
        await store.close()
    }

    @Test func whatWasCommittedBeforeACallIsSeenByWhoAcknowledgesIt() async throws {
        let database = try Self.server.get().makeDatabase()
        let (one, other) = (try open(database), try open(database))
        var mark = try await other.changes(since: nil).mark
        for number in 1...40 {
            let key = CredentialKey(digest: "\(number)")
            let revision = try await one.replace(nil, for: key)
            _ = try await one.update(locking: ["lock-\(number)"], unlocking: [])
            let call = try await one.call()
            let changes = try await other.changes(since: mark)
            let locks = try await other.update(locking: [], unlocking: [])
            #expect(try #require(changes.upTo) >= call && changes.revisions[key] == revision)
            #expect(try #require(locks.upTo) >= call && locks.names.contains("lock-\(number)"))
            mark = changes.mark
        }
        for store in [one, other] { await store.close() }
    }

    @Test func whatIsCommittedAfterALookIsNotAcknowledgedByIt() async throws {
        let database = try Self.server.get().makeDatabase()
        let (one, other) = (try open(database), try open(database))
        for _ in 1...20 {
            let before = try await other.changes(since: nil)
            let locks = try await other.update(locking: [], unlocking: [])
            _ = try await one.replace(nil, for: CredentialKey(digest: "a"))
            let call = try await one.call()
            #expect(try #require(before.upTo) < call)
            #expect(try #require(locks.upTo) < call)
        }
        for store in [one, other] { await store.close() }
    }

    @Test func aLongTransactionOfOthersKeepsNobodyFromAcknowledging() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        let long = Task.detached {
            try? server.administrate(
                "BEGIN; SELECT pg_current_xact_id(); SELECT pg_sleep(3); COMMIT",
                database: database
            )
        }
        try await Task.sleep(for: .seconds(1))
        let call = try await store.call()
        #expect(try #require(await store.changes(since: nil).upTo) >= call)
        await long.value
        await store.close()
    }

    @Test func noAcknowledgementIsFromTheFuture() async throws {
        let database = try Self.server.get().makeDatabase()
        let store = try open(database)
        // Of a database that was restored from a backup since.
        _ = try await store.beat(heartbeat("1", acknowledged: 1 << 50))
        let call = try await store.call()
        let member = try #require(await store.members().first)
        #expect(!member.hasFollowed(call))
        await store.close()
    }

    @Test func aCallIsHeardByAll() async throws {
        let database = try Self.server.get().makeDatabase()
        let (one, other) = (try open(database), try open(database))
        for store in [one, other] { await store.waitForNotifications(within: .seconds(10)) }
        let changed = Mutex<[CredentialKey]>([])
        let changes = try #require(other.changes())
        let watching = Task { for await change in changes { changed.withLock { $0.append(change.key) } } }
        for listener in [one, other] {
            let calls = listener.calls()
            _ = try await one.call()
            var iterator = calls.makeAsyncIterator()
            #expect(await iterator.next() != nil)
        }
        #expect(changed.withLock { $0 }.isEmpty, "a call is no change of a record")
        watching.cancel()
        for store in [one, other] { await store.close() }
    }

    @Test func withoutTheRightTokensAreUsedAsBefore() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let owner = try open(database)
        _ = try await owner.migrate()
        try server.administrate(
            """
            CREATE ROLE plain LOGIN; GRANT USAGE ON SCHEMA authgateway TO plain; GRANT SELECT ON authgateway.store TO plain;
            GRANT SELECT, INSERT, UPDATE ON authgateway.token TO plain
            """,
            database: database
        )
        let url = try PostgreSQLURL(server.url(database, user: "plain"))
        let key = try InstallationKey(bytes: Array(0..<32))
        let store = PostgreSQLTokenStore(PostgreSQLOptions(url), keys: [key.derived(for: .tokenStore)])
        let error = await #expect(throws: TokenStoreError.self) { _ = try await store.beat(heartbeat("1")) }
        #expect(error?.reason.contains("lacks a privilege") == true)
        #expect(store.failure == nil)
        _ = try await store.load(CredentialKey(digest: "a"))
        for store in [owner, store] { await store.close() }
    }
}
