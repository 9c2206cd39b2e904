import GatewayHTTP
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayTokenStores

@Suite("Loads at the same time", .timeLimit(.minutes(1)))
struct TokenLoadsTests {
    private func key(_ number: Int) -> CredentialKey { CredentialKey(digest: "\(number)") }

    @Test func thoseThatWaitShareAStatement() async throws {
        let loads = TokenLoads()
        let (begun, goOn) = (Promise<Void>(), Promise<Void>())
        let statements = Mutex<[Int]>([])
        let rows: TokenLoads.Rows = { keys async throws(TokenStoreError) in
            let isFirst = statements.withLock { statements in
                statements.append(keys.count)
                return statements.count == 1
            }
            if isFirst {
                begun.keep(())
                await goOn.value()
            }
            return Dictionary(uniqueKeysWithValues: keys.map { ($0, StoredRow.missing) })
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { _ = try await loads.load(key(0), within: .seconds(30), from: rows) }
            await begun.value()
            for number in 1...200 {
                group.addTask { _ = try await loads.load(key(number), within: .seconds(30), from: rows) }
            }
            // All of them wait by then, as a rule; otherwise there are a few statements more.
            try await Task.sleep(for: .milliseconds(300))
            goOn.keep(())
            try await group.waitForAll()
        }
        let counts = statements.withLock { $0 }
        #expect(counts.reduce(0, +) == 201)
        #expect(counts.count <= 10, "\(counts)")
        #expect(counts.allSatisfy { $0 <= TokenLoads.maximumKeys })
    }

    @Test func aFailureIsThatOfAllWhoWait() async throws {
        let loads = TokenLoads()
        let (begun, goOn) = (Promise<Void>(), Promise<Void>())
        let rows: TokenLoads.Rows = { keys async throws(TokenStoreError) in
            guard !begun.isKept else { return Dictionary(uniqueKeysWithValues: keys.map { ($0, StoredRow.missing) }) }
            begun.keep(())
            await goOn.value()
            throw .unavailable("gone")
        }
        let first = Task { try await loads.load(key(1), within: .seconds(30), from: rows) }
        await begun.value()
        let second = Task { try await loads.load(key(2), within: .seconds(30), from: rows) }
        try await Task.sleep(for: .milliseconds(100))
        goOn.keep(())
        await #expect(throws: TokenStoreError.unavailable("gone")) { _ = try await first.value }
        await #expect(throws: TokenStoreError.unavailable("gone")) { _ = try await second.value }
        _ = try await loads.load(key(3), within: .seconds(30), from: rows)
    }

    @Test func whoHasWaitedForTooLongIsNotAskedFor() async throws {
        let loads = TokenLoads()
        let (begun, goOn) = (Promise<Void>(), Promise<Void>())
        let asked = Mutex<[CredentialKey]>([])
        let rows: TokenLoads.Rows = { keys async throws(TokenStoreError) in
            asked.withLock { $0 += keys }
            begun.keep(())
            if keys == [CredentialKey(digest: "1")] { await goOn.value() }
            return Dictionary(uniqueKeysWithValues: keys.map { ($0, StoredRow.missing) })
        }
        let first = Task { try await loads.load(key(1), within: .seconds(30), from: rows) }
        await begun.value()
        let second = Task { try await loads.load(key(2), within: .milliseconds(50), from: rows) }
        try await Task.sleep(for: .milliseconds(300))
        goOn.keep(())
        _ = try await first.value
        await #expect(throws: TokenStoreError.self) { _ = try await second.value }
        #expect(asked.withLock { $0 } == [key(1)])
    }
}
