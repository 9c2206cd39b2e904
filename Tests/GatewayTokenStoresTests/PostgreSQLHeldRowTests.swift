import GatewayFiles
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayTokenStores

/// Rows that somebody has locked in an open transaction, or written by hand.
@Suite("Rows that a person holds in PostgreSQL", .timeLimit(.minutes(5)))
struct PostgreSQLHeldRowTests {
    private static let server = Result { try PostgreSQLTestServer() }
    private let held = CredentialKey(digest: "00")
    private let free = CredentialKey(digest: "ff")

    private func open(_ database: String) throws -> PostgreSQLTokenStore {
        let key = try InstallationKey(bytes: Array(0..<32))
        return PostgreSQLTokenStore(try options(database), keys: [key.derived(for: .tokenStore)])
    }

    private func options(_ database: String) throws -> PostgreSQLOptions {
        PostgreSQLOptions(try PostgreSQLURL(try Self.server.get().url(database)))
    }

    private func token(_ generation: Int) -> StoredToken {
        let token = TokenSet(access: Secret("token-\(generation)"), obtainedAt: UnixTime(seconds: 1_772_357_400))
        return StoredToken(generation: generation, token: token)
    }

    /// Runs `body` while a transaction that has run `statement` is open.
    private func whileOpen(_ statement: String, in database: String, _ body: () async throws -> Void) async throws {
        let session = PostgreSQLConnection(try options(database))
        for text in ["BEGIN", statement] { _ = try await session.run(PostgreSQLStatement(text), within: .seconds(10)) }
        try await body()
        _ = try await session.run(PostgreSQLStatement("ROLLBACK"), within: .seconds(10))
        await session.close(within: .seconds(1))
    }

    private func refusal<T>(of body: () async throws(TokenStoreError) -> T) async -> String? {
        do throws(TokenStoreError) {
            _ = try await body()
            return nil
        } catch {
            return error.reason
        }
    }

    // MARK: Tokens

    @Test func aRowThatIsHeldFailsAloneAndIsWrittenLater() async throws {
        let database = try Self.server.get().makeDatabase()
        let store = try open(database)
        for key in [held, free] { try await store.replace(token(1), for: key) }
        let revision = try await store.load(held).revision
        guard
            case .granted(let lease) = try await store.lease(held, expecting: revision, for: .seconds(60), writing: nil)
        else {
            Issue.record("no lease")
            return
        }
        let row = "SELECT key FROM authgateway.token WHERE key = '\(held.digest)' FOR UPDATE"
        try await whileOpen(row, in: database) {
            let begun = ContinuousClock.now
            async let refused = refusal { () async throws(TokenStoreError) in
                try await store.commit(token(2), under: lease)
            }
            async let written = store.replace(token(3), for: free)
            _ = try await written
            let reason = try #require(await refused)
            #expect(reason.contains("another session has locked rows") && reason.contains("55P03"), "\(reason)")
            #expect(ContinuousClock.now - begun < .seconds(3))
            #expect(store.failure == nil, "the store works for other credentials")
            #expect(try await store.load(held).token == token(1))
            #expect(try await store.load(free).token == token(3))
        }
        #expect(try await store.commit(token(2), under: lease) == .saved(lease.revision.next))
        #expect(try await store.load(held).token == token(2))
        await store.close()
    }

    @Test func everyWriteOfARowThatIsHeldIsLimited() async throws {
        let database = try Self.server.get().makeDatabase()
        let store = try open(database)
        let revision = try await store.replace(token(1), for: held)
        let lease = TokenLease(key: held, revision: revision)
        let row = "SELECT key FROM authgateway.token WHERE key = '\(held.digest)' FOR UPDATE"
        _ = try await store.ask(
            PostgreSQLStatement("UPDATE authgateway.token SET lease_until = clock_timestamp() + interval '1 hour'")
        )
        try await whileOpen(row, in: database) {
            let begun = ContinuousClock.now
            let reasons = [
                await refusal { () async throws(TokenStoreError) in try await store.replace(nil, for: held) },
                await refusal { () async throws(TokenStoreError) in try await store.save(token(2), under: lease) },
                await refusal { () async throws(TokenStoreError) in try await store.prolong(lease, for: .seconds(9)) },
                await refusal { () async throws(TokenStoreError) in try await store.release(lease) },
            ]
            #expect(reasons.allSatisfy { $0?.contains("55P03") == true }, "\(reasons)")
            #expect(ContinuousClock.now - begun < .seconds(4))
        }
        await store.close()
    }

    /// A pooler gives the session to others.
    @Test func noLimitIsLeftInTheSession() async throws {
        let database = try Self.server.get().makeDatabase()
        let store = try open(database)
        try await store.replace(token(1), for: free)
        _ = try await store.update(locking: ["box"], unlocking: [])
        let setting = PostgreSQLStatement("SELECT current_setting('lock_timeout')", isRepeatable: true)
        #expect(try await store.ask(setting).first?.text(0) == "0")
        await store.close()
    }

    // MARK: Locks

    @Test func aLockThatIsHeldKeepsNoOtherFromBeingTold() async throws {
        let database = try Self.server.get().makeDatabase()
        let store = try open(database)
        _ = try await store.update(locking: ["box"], unlocking: [])
        try await whileOpen("DELETE FROM authgateway.lock", in: database) {
            let answer = try await store.update(locking: ["box", "other"], unlocking: ["third"])
            #expect(answer.held == ["box"] && answer.names.contains("other") && answer.upTo != nil)
            #expect(answer.reason?.contains("55P03") == true)
            #expect(store.failure == nil)
        }
        try await whileOpen("SELECT name FROM authgateway.lock FOR UPDATE", in: database) {
            let answer = try await store.update(locking: [], unlocking: ["box"])
            #expect(answer.held == ["box"] && answer.names == ["box", "other"])
        }
        let answer = try await store.update(locking: [], unlocking: ["box"])
        #expect(answer.held.isEmpty && answer.names == ["other"])
        await store.close()
    }

    // MARK: Times

    @Test func anInfiniteLeaseFailsNoOtherLoad() async throws {
        let server = try Self.server.get()
        let database = try server.makeDatabase()
        let store = try open(database)
        let past = CredentialKey(digest: "aa")
        for key in [held, past, free] { try await store.replace(token(1), for: key) }
        try server.administrate(
            """
            UPDATE authgateway.token SET lease_until = 'infinity' WHERE key = '\(held.digest)';
            UPDATE authgateway.token SET lease_until = '-infinity' WHERE key = '\(past.digest)'
            """,
            database: database
        )
        // One statement, as of many keepers that ask at the same time.
        let rows = try await store.run(TokenStatement.load([held, past, free]))
        #expect(Set(rows.compactMap { $0.text(9) }) == [held.digest, past.digest, free.digest])
        for key in [held, past, free] { #expect(try await store.load(key).token == token(1)) }
        let revision = try await store.load(held).revision
        guard case .held(let time) = try await store.lease(held, expecting: revision, for: .seconds(5), writing: nil)
        else {
            Issue.record("a lease without an end is held")
            return
        }
        #expect(time > .seconds(3600))
        guard case .granted = try await store.lease(past, expecting: revision, for: .seconds(5), writing: nil) else {
            Issue.record("a lease that ended before all time has ended")
            return
        }
        // As `token clear` does.
        let cleared = try await store.replace(nil, for: held)
        guard case .granted = try await store.lease(held, expecting: cleared, for: .seconds(5), writing: nil) else {
            Issue.record("an operator ends a lease without an end")
            return
        }
        await store.close()
    }
}
