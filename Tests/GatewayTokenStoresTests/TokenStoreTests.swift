import Foundation
import GRDB
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayTokenStores

@Suite("Token stores", .timeLimit(.minutes(5)))
struct TokenStoreTests {
    let directory: TemporaryDirectory
    let key: InstallationKey
    let name = CredentialKey(digest: "00112233445566778899aabbccddeeff")

    init() throws {
        directory = try TemporaryDirectory()
        key = try InstallationKey(bytes: Array(0..<32))
    }

    private var path: String { directory.file("tokens.sqlite") }

    private func open(_ busyTimeout: Duration = .seconds(5)) throws(TokenStoreError) -> SQLiteTokenStore {
        try SQLiteTokenStore(path: path, key: key.derived(for: .tokenStore), busyTimeout: busyTimeout)
    }

    private func token(_ generation: Int = 3) -> StoredToken {
        StoredToken(
            generation: generation,
            token: TokenSet(
                access: Secret("canary-access-\(generation)"),
                refreshToken: Secret("canary-renewal-\(generation)"),
                obtainedAt: UnixTime(seconds: 1_772_357_400),
                expiresAt: UnixTime(seconds: 1_772_361_000)
            ),
            previousRefreshToken: Secret("canary-previous")
        )
    }

    @Test func aReaderReadsBesideTheStoreAndWritesNothing() async throws {
        let store = try open()
        try await store.replace(token(), for: name)
        let reader = try SQLiteTokenReader(
            path: path,
            keys: [key.derived(for: .auditChain), key.derived(for: .tokenStore)]
        )
        #expect(try reader.load(name) == token())
        #expect(try reader.load(CredentialKey(digest: "ff")) == nil)
        // The store goes on writing, and the reader sees it.
        try await store.replace(token(4), for: name)
        #expect(try reader.load(name)?.generation == 4)
        await store.close()
        #expect(throws: TokenStoreError.self) {
            try SQLiteTokenReader(path: path, keys: [key.derived(for: .auditChain)])
        }
        #expect(throws: TokenStoreError.self) { try SQLiteTokenReader(path: path + ".none", keys: []) }
    }

    @Test func theMemoryStoreKeepsItsPromises() async throws {
        try await TokenStoreConformance(makeStore: { MemoryTokenStore(isShared: true) }, beside: { $0 }).check()
    }

    @Test func theSQLiteStoreKeepsItsPromises() async throws {
        let directory = directory
        let key = key.derived(for: .tokenStore)
        let paths = PathsByStore()
        try await TokenStoreConformance(
            makeStore: {
                let path = directory.file("\(UUID().uuidString)/tokens.sqlite")
                let store = try SQLiteTokenStore(path: path, key: key)
                await paths.note(path, for: store)
                return store
            },
            reopen: { store in
                let path = try #require(await paths.path(of: store))
                await store.close()
                return try SQLiteTokenStore(path: path, key: key)
            },
            beside: { try SQLiteTokenStore(path: $0.path, key: key) },
            damage: { store, name in
                let path = try #require(await paths.path(of: store))
                try await DatabaseQueue(path: path).write { database in
                    try database.execute(
                        sql: "UPDATE tokens SET ciphertext = zeroblob(length(ciphertext)) WHERE key = ?",
                        arguments: [name.digest]
                    )
                }
            }
        ).check()
    }

    @Test func nothingSecretIsInTheFiles() async throws {
        let store = try open()
        for generation in 1...20 { try await store.replace(token(generation), for: name) }
        let contents = try directory.content(of: "tokens.sqlite")
        #expect(contents.count >= 2, "the database and its write-ahead log")
        for content in contents { #expect(content.range(of: Data("canary".utf8)) == nil) }
        await store.close()
        for content in try directory.content(of: "tokens.sqlite") {
            #expect(content.range(of: Data("canary".utf8)) == nil)
        }
    }

    @Test func onlyTheOwnerMayReadTheFiles() async throws {
        let store = try SQLiteTokenStore(
            path: directory.file("state/tokens.sqlite"),
            key: key.derived(for: .tokenStore)
        )
        try await store.replace(token(), for: name)
        #expect(try directory.mode(of: "state") == 0o700)
        for file in ["state/tokens.sqlite", "state/tokens.sqlite-wal", "state/tokens.sqlite-shm"] {
            #expect(try directory.mode(of: file) == 0o600)
        }
    }

    @Test func anotherKeyIsDamageAndNotAnEmptyStore() async throws {
        let store = try open()
        try await store.replace(token(), for: name)
        await store.close()
        let other = try InstallationKey(bytes: Array(1...32))
        do throws(TokenStoreError) {
            _ = try SQLiteTokenStore(path: path, key: other.derived(for: .tokenStore))
            Issue.record("a store of another key was opened")
        } catch .damaged(let reason) {
            #expect(reason.contains("token.key"))
        } catch {
            Issue.record("expected damage, got \(error)")
        }
        #expect(try await open().load(name).token == token(), "the attempt changed nothing")
    }

    @Test(arguments: [
        "UPDATE tokens SET generation = 4", "UPDATE tokens SET updated_at = '2020-01-01T00:00:00.000Z'",
        "UPDATE tokens SET version = 2", "UPDATE tokens SET nonce = zeroblob(12)", "UPDATE tokens SET nonce = x''",
        "UPDATE tokens SET ciphertext = zeroblob(4)", "UPDATE tokens SET ciphertext = x''",
        "UPDATE tokens SET ciphertext = CAST(ciphertext || x'00' AS BLOB)",
        "UPDATE tokens SET nonce = (SELECT nonce FROM tokens WHERE key = 'other'), "
            + "ciphertext = (SELECT ciphertext FROM tokens WHERE key = 'other')",
        """
        DROP TABLE tokens;
        CREATE TABLE tokens (
            key PRIMARY KEY, generation, updated_at, version, nonce, ciphertext, revision, lease_until
        );
        INSERT INTO tokens VALUES ('00112233445566778899aabbccddeeff', NULL, 1, 'x', 2.5, NULL, 'y', 0.5)
        """,
    ])
    func anEditedRowIsReportedWithAWayOut(_ edit: String) async throws {
        let store = try open()
        try await store.replace(token(), for: name)
        try await store.replace(token(3), for: CredentialKey(digest: "other"))
        try await DatabaseQueue(path: path).write { try $0.execute(sql: edit) }
        do throws(TokenStoreError) {
            _ = try await store.load(name).token
            Issue.record("an edited row was read")
        } catch .damaged(let reason) {
            #expect(reason.contains("authgateway token clear"))
        } catch {
            Issue.record("expected damage, got \(error)")
        }
        try await store.replace(nil, for: name)
        #expect(try await store.load(name).token == nil, "the way out works")
    }

    @Test func aFileThatIsNoDatabaseIsDamageAndIsLeftAlone() throws {
        let content = Data("this is not a database, it is a letter to my aunt".utf8)
        try content.write(to: URL(fileURLWithPath: path))
        do throws(TokenStoreError) {
            _ = try open()
            Issue.record("a letter was opened as a store")
        } catch .damaged {
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == content)
        } catch {
            Issue.record("expected damage, got \(error)")
        }
    }

    @Test func aLockOfAnotherProgramIsUnavailableAndPasses() async throws {
        let store = try open(.milliseconds(50))
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        for _ in 0..<2 {
            let error = await #expect(throws: TokenStoreError.self) { try await store.replace(token(), for: name) }
            guard case .unavailable(let reason) = error else {
                Issue.record("a lock is no damage")
                return
            }
            #expect(reason.contains("another process holds a write transaction on \(path)"))
            await store.look()
            #expect(store.failure == .unavailable(reason))
        }
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        await store.look()
        #expect(store.failure == nil)
        try await store.replace(token(), for: name)
        #expect(try await store.load(name).token == token())
    }

    @Test func aFullDiskIsUnavailableAndPasses() async throws {
        let store = try open()
        try await store.replace(token(), for: name)
        try await #require(store.database).writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1") }
        var large = token(4)
        large.token.access = Secret(String(repeating: "x", count: 100_000))
        do throws(TokenStoreError) {
            try await store.replace(large, for: name)
            Issue.record("a full disk took a record")
        } catch .unavailable(let reason) {
            #expect(reason.contains("full"))
        } catch {
            Issue.record("expected unavailable, got \(error)")
        }
        #expect(try await store.load(name).token == token(), "the old record is whole")
        try await #require(store.database).writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA max_page_count = 100000")
        }
        try await store.replace(large, for: name)
        #expect(try await store.load(name).token == large)
    }

    @Test func aStoreThatWasMovedAwayDoesNotPretendToSave() async throws {
        let store = try open()
        try await store.replace(token(), for: name)
        try FileManager.default.moveItem(atPath: path, toPath: path + ".moved")
        await #expect(throws: TokenStoreError.self) { try await store.replace(token(4), for: name) }
        try FileManager.default.moveItem(atPath: path + ".moved", toPath: path)
        try await store.replace(token(4), for: name)
        #expect(try await store.load(name).token == token(4))
    }

    @Test func aWriteIsFinishedAlthoughItsTaskWasCancelled() async throws {
        let store = try open()
        let (token, name) = (token(), name)
        let save = Task {
            unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
            try await store.replace(token, for: name)
        }
        try await save.value
        #expect(try await store.load(name).token == token)
    }

    @Test func aClosedStoreSaysSo() async throws {
        let store = try open()
        await store.close()
        await #expect(throws: TokenStoreError.self) { try await store.load(name).token }
        await #expect(throws: TokenStoreError.self) { try await store.replace(token(), for: name) }
        await #expect(throws: TokenStoreError.self) { try await store.replace(nil, for: name) }
    }

    /// What is on the disk in the middle of the work is what a killed process leaves.
    @Test func aCopyTakenAtAnyMomentOpens() async throws {
        let store = try open()
        for generation in 1...30 {
            try await store.replace(token(generation), for: name)
            let copy = directory.file("copy\(generation).sqlite")
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
            }
            let reopened = try SQLiteTokenStore(path: copy, key: key.derived(for: .tokenStore))
            #expect(try await reopened.load(name).token == token(generation))
            await reopened.close()
        }
    }

    /// SQLite keeps no checksums: what it does not notice, the seal of the row does. Nothing traps.
    @Test func aFlippedByteAnywhereNeverMakesAnotherToken() async throws {
        let store = try open()
        for number in 1...5 { try await store.replace(token(number), for: CredentialKey(digest: "key-\(number)")) }
        try await store.replace(token(), for: name)
        await store.close()
        let content = try Data(contentsOf: URL(fileURLWithPath: path))
        var damaged = 0
        for offset in stride(from: 0, to: content.count, by: 53) {
            var changed = content
            changed[offset] ^= 0x15
            let path = directory.file("flipped-\(offset).sqlite")
            try changed.write(to: URL(fileURLWithPath: path))
            do {
                let store = try SQLiteTokenStore(path: path, key: key.derived(for: .tokenStore))
                let loaded = try await store.load(name).token
                #expect(loaded == nil || loaded == token(), "the byte at \(offset)")
                await store.close()
            } catch {
                damaged += 1
            }
        }
        #expect(damaged > 2)
    }

    @Test func commitsReachTheDiskBeforeTheyAreReported() async throws {
        let store = try open()
        let (mode, synchronous) = try await #require(store.database).read { database in
            (
                try String.fetchOne(database, sql: "PRAGMA journal_mode"),
                try Int.fetchOne(database, sql: "PRAGMA synchronous")
            )
        }
        #expect(mode == "wal")
        #expect(synchronous == 2)
    }
}

private actor PathsByStore {
    private var paths: [ObjectIdentifier: String] = [:]
    /// Keeps identities from being used twice.
    private var stores: [SQLiteTokenStore] = []

    func note(_ path: String, for store: SQLiteTokenStore) {
        paths[ObjectIdentifier(store)] = path
        stores.append(store)
    }

    func path(of store: SQLiteTokenStore) -> String? { paths[ObjectIdentifier(store)] }
}
