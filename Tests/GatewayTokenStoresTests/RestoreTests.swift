import Foundation
import GRDB
import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayTokenStores

@Suite("Copies of the token store", .timeLimit(.minutes(5)))
struct RestoreTests {
    let directory: TemporaryDirectory
    let key: InstallationKey
    let renewable = CredentialKey(digest: "renewable")
    let plain = CredentialKey(digest: "plain")

    init() throws {
        directory = try TemporaryDirectory()
        key = try InstallationKey(bytes: Array(0..<32))
    }

    private func open(_ name: String = "tokens.sqlite") throws(TokenStoreError) -> SQLiteTokenStore {
        try SQLiteTokenStore(path: directory.file(name), key: key.derived(for: .tokenStore))
    }

    private func token(refresh: String?) -> StoredToken {
        let token = TokenSet(
            access: Secret("access"),
            refreshToken: refresh.map { Secret($0) },
            obtainedAt: UnixTime(seconds: 1_772_357_400)
        )
        return StoredToken(generation: 4, token: token, previousRefreshToken: refresh.map { Secret("before-\($0)") })
    }

    private func copy() throws(TokenStoreError) -> SQLiteTokenStore.Copy {
        let keys = [key.derived(for: .tokenStore)]
        return try SQLiteTokenStore.copy(directory.file("tokens.sqlite"), to: directory.file("copy.sqlite"), keys: keys)
    }

    @Test func aCopyOfAnOpenStoreHoldsWhatWasCommitted() async throws {
        let store = try open()
        try await store.replace(token(refresh: "renewal"), for: renewable)
        try await store.replace(token(refresh: nil), for: plain)
        let copy = try copy()
        #expect((copy.tokens, copy.schema) == (2, SQLiteTokenStore.schemaVersion))
        #expect(try directory.mode(of: "copy.sqlite") == 0o600)
        #expect(try directory.content(of: "copy.sqlite").count == 1, "it has no write-ahead log")
        try await store.replace(token(refresh: "later"), for: renewable)
        await store.close()
        let copied = try open("copy.sqlite")
        #expect(try await copied.load(renewable).token == token(refresh: "renewal"))
        await copied.close()
        #expect(throws: TokenStoreError.self, "it replaces nothing") { try self.copy() }
    }

    @Test func aRefreshTokenIsMarkedAsRestoredAndThePreviousOneIsGone() async throws {
        let store = try open()
        try await store.replace(token(refresh: "renewal"), for: renewable)
        try await store.replace(token(refresh: nil), for: plain)
        let before = try await store.load(renewable).revision
        #expect(try await store.markRestored(at: UnixTime(seconds: 1_772_357_500)) == 1)
        #expect(try await store.load(renewable).revision > before)
        await store.close()
        let reopened = try open()
        var expected = token(refresh: "renewal")
        expected.isRestored = true
        expected.previousRefreshToken = nil
        #expect(try await reopened.load(renewable).token == expected)
        #expect(try await reopened.load(plain).token == token(refresh: nil))
        await reopened.close()
    }

    @Test func aRowThatDoesNotOpenLeavesAllAsTheyWere() async throws {
        let store = try open()
        try await store.replace(token(refresh: "renewal"), for: renewable)
        try await store.replace(token(refresh: "other"), for: plain)
        try await store.write { try $0.execute(sql: "UPDATE tokens SET generation = 9 WHERE key = 'renewable'") }
        await #expect(throws: TokenStoreError.self) { try await store.markRestored(at: UnixTime(seconds: 0)) }
        #expect(try await store.load(plain).token?.isRestored == false)
        await store.close()
    }

    @Test func tablesOfANewerVersionAreRefused() async throws {
        await (try open()).close()
        let newer = SQLiteTokenStore.schemaVersion + 1
        let database = try DatabaseQueue(path: directory.file("tokens.sqlite"))
        try await database.write { try $0.execute(sql: "PRAGMA user_version = \(newer)") }
        try database.close()
        func expectRefusal(_ body: () throws -> Void) {
            let error = #expect(throws: TokenStoreError.self) { try body() }
            #expect(error?.reason.contains("newer authgateway (schema \(newer);") == true, "\(error as Any)")
        }
        expectRefusal { _ = try open() }
        expectRefusal {
            _ = try SQLiteTokenReader(path: directory.file("tokens.sqlite"), keys: [key.derived(for: .tokenStore)])
        }
    }
}
