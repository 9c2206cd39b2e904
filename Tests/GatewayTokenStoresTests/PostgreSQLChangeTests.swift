import GatewayFiles
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayTokenStores

/// What others are told of changes, and what it costs to ask for them.
@Suite("Changes in PostgreSQL", .timeLimit(.minutes(5)))
struct PostgreSQLChangeTests {
    private static let server = PostgreSQLTokenStoreTests.server
    private let bench = PostgreSQLTokenStoreTests()
    private var name: CredentialKey { bench.name }

    private func open(_ database: String) throws -> PostgreSQLTokenStore { try bench.open(database) }
    private func token(_ generation: Int = 3) -> StoredToken { bench.token(generation) }

    @Test func aQuestionForChangesUsesTheIndex() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        try await store.prepare()
        try server.administrate(
            """
            INSERT INTO authgateway.token SELECT md5(i::text), 1, NULL, 'c', i % 700, 1, 'u', 1, 'n',
            decode(repeat('00', 400), 'hex') FROM generate_series(1, 20000) i;
            ANALYZE authgateway.token;
            """,
            database: database
        )
        let mark = try await store.changes(since: nil).mark
        let statement = TokenStatement.changes(since: mark)
        let plan = try await store.ask(PostgreSQLStatement("EXPLAIN " + statement.text, statement.parameters))
            .compactMap { $0.text(0) }.joined(separator: "\n")
        #expect(plan.contains("token_changed"), "\(plan)")
        #expect(!plan.contains("Seq Scan"), "\(plan)")
        await store.close()
    }

    /// The numbers of transactions start anew in another server.
    @Test func recordsFromTheFutureAreNotNamedAndTheirChangesAre() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        try await store.replace(token(), for: name)
        try await store.replace(token(), for: CredentialKey(digest: "other"))
        try server.administrate("UPDATE authgateway.token SET changed = changed + 1000000000", database: database)
        let start = try await store.changes(since: nil)
        #expect(try await store.changes(since: start.mark).revisions.isEmpty)
        let revision = try await store.replace(token(4), for: name)
        #expect(try await store.changes(since: start.mark).revisions == [name: revision])
        let past = try await store.changes(since: TokenStoreMark(start.mark.value + 1_000_000_000))
        #expect(past.revisions.count == 2, "a mark from the future is one of another server")
        await store.close()
    }

    @Test func othersAreToldOfTheEndOfARenewalAlone() async throws {
        let database = try Self.server.get().makeDatabase()
        let (one, other) = (try open(database), try open(database))
        let first = try await one.replace(token(1), for: name)
        let heard = try #require(other.changes())
        let own = try #require(one.changes())
        for store in [one, other] {
            try await store.prepare()
            for _ in 0..<100 where !store.feed.listens { try await Task.sleep(for: .milliseconds(20)) }
            #expect(store.feed.listens)
        }
        let mark = try await other.changes(since: nil).mark
        guard case .granted(let lease) = try await one.lease(name, expecting: first, for: .seconds(5), writing: nil),
            case .granted(let journal) = try await one.save(token(1), under: lease)
        else {
            Issue.record("no lease")
            return
        }
        #expect(try await other.changes(since: mark).revisions.isEmpty)
        guard case .saved(let last) = try await one.commit(token(2), under: journal) else {
            Issue.record("no commit")
            return
        }
        #expect(try await other.changes(since: mark).revisions == [name: last])
        let end = CredentialKey(digest: "end")
        try await other.replace(token(), for: end)
        #expect(
            await Self.first(of: heard, besides: first) == TokenChange(name, last),
            "neither the lease nor the journal"
        )
        #expect(await Self.first(of: own)?.key == end, "what it has written itself is no news")
        for store in [one, other] { await store.close() }
    }

    @Test func theEndOfALeaseIsToldWithItsRevision() async throws {
        let database = try Self.server.get().makeDatabase()
        let (one, other) = (try open(database), try open(database))
        let first = try await one.replace(token(1), for: name)
        let heard = try #require(other.changes())
        for _ in 0..<100 where !other.feed.listens { try await Task.sleep(for: .milliseconds(20)) }
        guard case .granted(let lease) = try await one.lease(name, expecting: first, for: .seconds(5), writing: nil)
        else {
            Issue.record("no lease")
            return
        }
        try await one.release(lease)
        // It may have heard of the first write, too.
        #expect(await Self.first(of: heard, besides: first) == TokenChange(name, lease.revision))
        for store in [one, other] { await store.close() }
    }

    @Test func aStoreWithoutNotificationsAsksForChanges() async throws {
        let database = try Self.server.get().makeDatabase()
        let (one, other) = (try open(database), try open(database))
        try await one.replace(token(), for: name)
        try await other.prepare()
        for _ in 0..<100 where !other.feed.listens { try await Task.sleep(for: .milliseconds(20)) }
        #expect(other.feed.listens)
        // Without the listener, as behind a pooler.
        await other.listener.close(within: .seconds(1))
        #expect(!other.feed.listens)
        let changes = try #require(other.changes())
        try await Task.sleep(for: .seconds(1))
        try await one.replace(token(4), for: name)
        var heard: [CredentialKey] = []
        for await change in changes {
            heard.append(change.key)
            break
        }
        #expect(heard == [name])
        for store in [one, other] { await store.close() }
    }

    private static func first(
        of changes: AsyncStream<TokenChange>,
        besides known: TokenRevision? = nil
    ) async -> TokenChange? {
        for await change in changes where known == nil || change.revision != known { return change }
        return nil
    }

    @Test func manyLoadsAtATimeGetTheirOwnRecords() async throws {
        let database = try Self.server.get().makeDatabase()
        let store = try open(database)
        for number in 0..<50 { try await store.replace(token(number), for: CredentialKey(digest: "\(number)")) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<1000 {
                group.addTask {
                    let entry = try await store.load(CredentialKey(digest: "\(number)"))
                    #expect(entry.token == (number < 50 ? token(number) : nil))
                    #expect(entry.revision == TokenRevision(number < 50 ? 1 : 0))
                }
            }
            try await group.waitForAll()
        }
        await store.close()
    }
}
