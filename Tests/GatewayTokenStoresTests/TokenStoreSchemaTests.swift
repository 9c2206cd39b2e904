import Foundation
import GRDB
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayTokenStores

/// Files of earlier and later programs, and of an earlier process.
@Suite("Schema of the token store", .timeLimit(.minutes(5)))
struct TokenStoreSchemaTests {
    let directory: TemporaryDirectory
    let key: InstallationKey
    let name = CredentialKey(digest: "00112233445566778899aabbccddeeff")
    let token = StoredToken(
        generation: 3,
        token: TokenSet(access: Secret("access"), obtainedAt: UnixTime(seconds: 1_772_357_400))
    )

    init() throws {
        directory = try TemporaryDirectory()
        key = try InstallationKey(bytes: Array(0..<32))
    }

    private var path: String { directory.file("tokens.sqlite") }

    private func open(ownsFile: Bool = false) throws(TokenStoreError) -> SQLiteTokenStore {
        try SQLiteTokenStore(path: path, key: key.derived(for: .tokenStore), ownsFile: ownsFile)
    }

    private func execute(_ sql: String) throws {
        try DatabaseQueue(path: path).inDatabase { try $0.execute(sql: sql) }
    }

    @Test func aFileWithoutRevisionsIsUpgraded() async throws {
        let store = try open()
        try await store.replace(token, for: name)
        await store.close()
        try execute("ALTER TABLE tokens DROP COLUMN revision; ALTER TABLE tokens DROP COLUMN lease_until")
        try execute("PRAGMA user_version = 0")
        let reader = try SQLiteTokenReader(path: path, keys: [key.derived(for: .tokenStore)])
        #expect(try reader.load(name) == token, "a reader needs no upgrade")

        let upgraded = try open()
        let entry = try await upgraded.load(name)
        #expect(entry.token == token)
        #expect(entry.revision > .none)
        guard case .saved = try await upgraded.save(token, for: name, expecting: entry.revision) else {
            Issue.record("a record of an earlier program has a revision")
            return
        }
    }

    @Test func aFileOfANewerProgramIsRefused() async throws {
        let store = try open()
        try await store.replace(token, for: name)
        await store.close()
        try execute("PRAGMA user_version = 2")
        let error = #expect(throws: TokenStoreError.self) { try open() }
        guard case .damaged(let reason)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(reason.contains("newer authgateway (schema 2; this one knows 1)"))
        #expect(throws: TokenStoreError.self) {
            try SQLiteTokenReader(path: path, keys: [key.derived(for: .tokenStore)])
        }
    }

    @Test func theLeaseOfAProcessThatDiedDoesNotLast() async throws {
        let store = try open()
        let revision = try await store.replace(token, for: name)
        let answer = try await store.lease(name, expecting: revision, for: .seconds(3600), writing: token)
        guard case .granted(let lease) = answer else {
            Issue.record("\(answer)")
            return
        }
        await store.close()
        let beside = try open()
        let held = try await beside.lease(name, expecting: lease.revision, for: .seconds(1), writing: nil)
        guard case .held = held else {
            Issue.record("another process may be alive")
            return
        }
        await beside.close()
        let alone = try open(ownsFile: true)
        let taken = try await alone.lease(name, expecting: lease.revision, for: .seconds(1), writing: nil)
        guard case .granted = taken else {
            Issue.record("\(taken)")
            return
        }
    }

    @Test func whatRemovedRecordsLeaveGoesWithTheProcess() async throws {
        let store = try open()
        try await store.replace(token, for: name)
        let removed = try await store.replace(nil, for: name)
        #expect(try await store.load(name) == TokenEntry(token: nil, revision: removed))
        let reader = try SQLiteTokenReader(path: path, keys: [key.derived(for: .tokenStore)])
        #expect(try reader.load(name) == nil)
        await store.close()
        let next = try open(ownsFile: true)
        #expect(try await next.load(name) == .nothing)
    }
}

/// What a renewal costs in statements.
@Suite("Statements of the token store", .timeLimit(.minutes(5)))
struct TokenStoreStatementTests {
    private final class Statements: Sendable {
        private let all = Mutex<[String]>([])
        var count: Int { all.withLock { $0.count } }
        var words: [String] { all.withLock { $0.map { String($0.prefix { $0 != " " }) } } }
        func add(_ statement: String) { all.withLock { $0.append(statement) } }
    }

    @Test func aRenewalIsTwoTransactionsOfOneLookAndOneWrite() async throws {
        let directory = try TemporaryDirectory()
        let key = try InstallationKey(bytes: Array(0..<32)).derived(for: .tokenStore)
        let store = try SQLiteTokenStore(path: directory.file("tokens.sqlite"), key: key)
        let name = CredentialKey(digest: "00")
        let token = StoredToken(
            generation: 1,
            token: TokenSet(access: Secret("access"), obtainedAt: UnixTime(seconds: 1_772_357_400))
        )
        let revision = try await store.replace(token, for: name)
        let statements = Statements()
        store.database?.inDatabase { $0.trace { statements.add("\($0)") } }
        let answer = try await store.lease(name, expecting: revision, for: .seconds(20), writing: token)
        guard case .granted(let lease) = answer else {
            Issue.record("\(answer)")
            return
        }
        let transaction = ["BEGIN", "SELECT", "INSERT", "COMMIT"]
        #expect(statements.words == transaction, "the lease comes with the journal")
        _ = try await store.commit(token, under: lease)
        #expect(statements.words == transaction + transaction, "the lease ends with the commit")
    }
}
