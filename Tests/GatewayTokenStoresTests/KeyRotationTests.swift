import Foundation
import GRDB
import GatewayFiles
import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayTokenStores

@Suite("Rotation of the token store's key", .timeLimit(.minutes(5)))
struct KeyRotationTests {
    let directory: TemporaryDirectory
    let old: InstallationKey
    let new: InstallationKey
    let names = (1...5).map { CredentialKey(digest: "key-\($0)") }

    init() throws {
        directory = try TemporaryDirectory()
        old = try InstallationKey(bytes: Array(0..<32))
        new = try InstallationKey(bytes: Array(1...32))
    }

    private var path: String { directory.file("tokens.sqlite") }

    private func open(_ keys: InstallationKey...) throws(TokenStoreError) -> SQLiteTokenStore {
        try SQLiteTokenStore(path: path, keys: keys.map { $0.derived(for: .tokenStore) })
    }

    private func token(_ generation: Int) -> StoredToken {
        StoredToken(
            generation: generation,
            token: TokenSet(
                access: Secret("access-\(generation)"),
                refreshToken: Secret("renewal-\(generation)"),
                obtainedAt: UnixTime(seconds: 1_772_357_400)
            )
        )
    }

    private func fill(_ store: SQLiteTokenStore) async throws {
        for (number, name) in names.enumerated() { try await store.replace(token(number), for: name) }
    }

    private func expectAll(in store: SQLiteTokenStore) async throws {
        for (number, name) in names.enumerated() { #expect(try await store.load(name).token == token(number)) }
    }

    @Test func everyRowOpensWithTheNewKeyAndNoneWithTheOld() async throws {
        let store = try open(old)
        try await fill(store)
        #expect(try await store.rotate(to: new.derived(for: .tokenStore)) == names.count)
        try await expectAll(in: store)
        try await store.replace(token(9), for: names[0])
        #expect(try await store.load(names[0]).token == token(9), "it goes on with the new key")
        await store.close()
        #expect(throws: TokenStoreError.self) { try open(old) }
        let reopened = try open(old, new)
        #expect(reopened.keyIndex == 1)
        #expect(try await reopened.load(names[4]).token == token(4))
        await reopened.close()
    }

    @Test func whatTheOldKeyOpenedIsInNoFileAnyMore() async throws {
        let store = try open(old)
        try await fill(store)
        let before = try await #require(store.database).read { database in
            try Data.fetchAll(database, sql: "SELECT ciphertext FROM tokens")
        }
        #expect(before.count == names.count)
        _ = try await store.rotate(to: new.derived(for: .tokenStore))
        for content in try directory.content(of: "tokens.sqlite") {
            for ciphertext in before { #expect(content.range(of: ciphertext) == nil) }
        }
        await store.close()
    }

    @Test func aRowThatDoesNotOpenStopsItAndNothingChanges() async throws {
        let store = try open(old)
        try await fill(store)
        try await #require(store.database).write {
            try $0.execute(sql: "UPDATE tokens SET ciphertext = zeroblob(40) WHERE key = 'key-4'")
        }
        do throws(TokenStoreError) {
            _ = try await store.rotate(to: new.derived(for: .tokenStore))
            Issue.record("a row that cannot be read was carried over")
        } catch .damaged(let reason) {
            #expect(reason.contains("token clear"))
        } catch {
            Issue.record("expected damage, got \(error)")
        }
        #expect(store.isEncrypted(with: old.derived(for: .tokenStore)))
        #expect(try await store.load(names[0]).token == token(0))
        try await store.replace(nil, for: names[3])
        #expect(try await store.rotate(to: new.derived(for: .tokenStore)) == names.count - 1, "the way out works")
    }

    @Test func aRowOfANewerProgramIsCarriedOver() async throws {
        let store = try open(old)
        let sealer = TokenSealer(key: old.derived(for: .tokenStore))
        let row = try sealer.seal(token(1), for: names[0], at: UnixTime(seconds: 0))
        let newer = SealedToken(
            key: row.key,
            generation: row.generation,
            updatedAt: row.updatedAt,
            version: 99,
            nonce: Data(),
            ciphertext: Data()
        )
        let sealed = try sealer.seal(Data("of a later format".utf8), newer)
        let next = TokenSealer(key: new.derived(for: .tokenStore))
        let carried = try #require(next.sealAgain(sealed, openedBy: sealer))
        #expect(next.plaintext(of: carried) == Data("of a later format".utf8))
        #expect(next.plaintext(of: sealed) == nil)
        await store.close()
    }

    @Test func anotherProcessDoesNotMixItsRowsIn() async throws {
        let (store, other) = (try open(old), try open(old))
        try await fill(store)
        _ = try await store.rotate(to: new.derived(for: .tokenStore))
        await #expect(throws: TokenStoreError.self) { try await other.replace(token(7), for: names[0]) }
        do throws(TokenStoreError) {
            _ = try await other.load(names[0])
            Issue.record("a row of the new key was read with the old one")
        } catch .damaged(let reason) {
            #expect(reason.contains("restart"))
        } catch {
            Issue.record("expected damage, got \(error)")
        }
        try await expectAll(in: store)
    }

    /// What is on the disk in the middle of the work is what a killed process leaves.
    @Test func aCopyTakenAtAnyMomentOpensWithOneOfTheKeys() async throws {
        let store = try open(old)
        try await fill(store)
        let running = Task { try await store.rotate(to: new.derived(for: .tokenStore)) }
        for number in 1...20 {
            let copy = directory.file("copy\(number).sqlite")
            // The log first: a checkpoint in between puts into the database what the copy of the log has, too.
            for suffix in ["-wal", ""] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
            }
            let keys = [old, new].map { $0.derived(for: .tokenStore) }
            let reopened = try SQLiteTokenStore(path: copy, keys: keys)
            try await expectAll(in: reopened)
            await reopened.close()
        }
        #expect(try await running.value == names.count)
        await store.close()
    }

    // MARK: The file

    @Test func theNextKeyTakesTheOldOnesPlaceWhole() throws {
        let file = EncryptionKeyFile(path: directory.file("store.key"))
        #expect(try file.current() == nil && file.prepared() == nil)
        let first = try file.loadOrCreate()
        let next = try file.prepare()
        #expect(try directory.mode(of: "store.key.authgateway-rotation") == 0o600)
        #expect(try file.prepare().instanceName == next.instanceName, "the one that was prepared, not another")
        #expect(try file.current()?.instanceName == first.instanceName)
        try file.promote()
        #expect(try file.current()?.instanceName == next.instanceName)
        #expect(try directory.mode(of: "store.key") == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["store.key"])
    }

    @Test func whatACrashLeftOfMakingAKeyGoesAway() throws {
        let file = EncryptionKeyFile(path: directory.file("store.key"))
        let kept = try file.loadOrCreate()
        _ = try file.prepare()
        let temporary = "store.key.authgateway-rotation.\(UUID().uuidString).new"
        let others = [
            "store.key.new", "store.key.new.txt", "store.key.authgateway-rotation.txt",
            "store.key.authgateway-rotation.4711.new",
        ]
        for name in others + [temporary] {
            try Data(repeating: 7, count: 32).write(to: URL(fileURLWithPath: directory.file(name)))
        }
        #expect(file.discardPrepared() == ["store.key.authgateway-rotation", temporary])
        let left = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(left.sorted() == (others + ["store.key"]).sorted(), "what an operator put there stays")
        #expect(try file.current()?.instanceName == kept.instanceName)
    }

    @Test(arguments: [("too short", 0o600), (String(repeating: "k", count: 32), 0o644)])
    func whatIsNoKeyStaysAndIsNamed(_ content: String, _ mode: Int) throws {
        let file = EncryptionKeyFile(path: directory.file("store.key"))
        let path = directory.file("store.key.authgateway-rotation")
        try Data(content.utf8).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        let reading = #expect(throws: StateError.self) { try file.prepared() }
        let making = #expect(throws: StateError.self) { try file.prepare() }
        for error in [reading, making] { #expect(error?.description.contains("the key file \(path)") == true) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data(content.utf8))
    }

    @Test func aFolderThatCannotBeWrittenToTheDiskIsAnError() throws {
        try PrivateFile.synchronizeDirectory(of: directory.file("store.key"))
        let error = #expect(throws: PrivateFile.Failure.self) {
            try PrivateFile.synchronizeDirectory(of: directory.file("lost/store.key"))
        }
        #expect(error?.reason.contains("lost cannot be written to the disk: no such file") == true)
    }
}
