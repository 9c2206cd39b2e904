import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

/// The kits hold for our own doubles, and notice what they are there to notice.
@Suite("Conformance kits", .timeLimit(.minutes(5)))
struct ConformanceKitTests {
    @Test func theRecordingStoreConforms() async throws {
        let start = ContinuousClock().now
        let makeStore: @Sendable () -> RecordingTokenStore = {
            RecordingTokenStore(now: { UnixTime(milliseconds: 0) + (ContinuousClock().now - start) })
        }
        try await TokenStoreConformance(makeStore: makeStore, reopen: { $0 }, beside: { $0 }).check()
    }

    @Test(arguments: [false, true])
    func theSampleGrantConforms(rotatesRefreshToken: Bool) throws {
        let reply = TokenReply(status: 200, body: Array(#"{"access_token":"new","expires_in":3600}"#.utf8))
        try TokenGrantConformance(SampleGrant(rotatesRefreshToken: rotatesRefreshToken), success: reply).check()
        let fixed = SampleGrant(isRenewable: false)
        try TokenGrantConformance(fixed, success: reply).check()
    }

    @Test func anInputLeftOutOfTheIdentityIsNoticed() throws {
        let grants = [SampleGrant(identity: .sample(secret: "one")), SampleGrant(identity: .sample(secret: "two"))]
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
        #expect(throws: ConformanceFailure.self) {
            try TokenGrantConformance.checkIdentitiesDiffer([grants[0], grants[0]])
        }
    }

    @Test func aStoreThatMixesUpItsKeysIsNoticed() async throws {
        await #expect(throws: ConformanceFailure.self) { try await TokenStoreConformance { MixingStore() }.check() }
    }

    @Test func theClockWakesSleepersWhenTheirTimeHasCome() async throws {
        let clock = ManualClock()
        try await withThrowingTaskGroup(of: Int.self) { group in
            group.addTask {
                try await clock.sleep(for: .seconds(10))
                return 10
            }
            try await clock.untilAsleep(moreThan: .seconds(9), atMost: .seconds(10))
            clock.advance(by: .seconds(9))
            #expect(clock.nextWake == .seconds(1))
            clock.jumpWall(by: .seconds(3600))
            #expect(clock.nextWake == .seconds(1))
            clock.advance(by: .seconds(1))
            let outcome1 = try await group.next()
            #expect(outcome1 == 10)
            #expect(clock.nextWake == nil)
        }
    }

    @Test func aCancelledSleeperLeaves() async throws {
        let clock = ManualClock()
        let sleeper = Task { try await clock.sleep(for: .seconds(10)) }
        try await clock.untilAsleep()
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
        #expect(clock.nextWake == nil)
    }
}

/// Keeps every record under one key.
private struct MixingStore: TokenStore {
    let store = RecordingTokenStore()
    let only = CredentialKey(digest: "00")

    var isShared: Bool { false }

    func load(_ key: CredentialKey) async throws(TokenStoreError) -> TokenEntry { try await store.load(only) }

    func save(
        _ token: StoredToken,
        for key: CredentialKey,
        expecting revision: TokenRevision
    ) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await store.save(token, for: only, expecting: revision)
    }

    func replace(_ token: StoredToken?, for key: CredentialKey) async throws(TokenStoreError) -> TokenRevision {
        try await store.replace(token, for: only)
    }

    func lease(
        _ key: CredentialKey,
        expecting revision: TokenRevision,
        for time: Duration,
        writing token: StoredToken?
    ) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await store.lease(only, expecting: revision, for: time, writing: token)
    }

    func prolong(_ lease: TokenLease, for time: Duration) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await store.prolong(lease, for: time)
    }

    func save(_ token: StoredToken, under lease: TokenLease) async throws(TokenStoreError) -> TokenLeaseAnswer {
        try await store.save(token, under: lease)
    }

    func commit(_ token: StoredToken?, under lease: TokenLease) async throws(TokenStoreError) -> TokenSaveAnswer {
        try await store.commit(token, under: lease)
    }

    func release(_ lease: TokenLease) async throws(TokenStoreError) { try await store.release(lease) }

    func changes(since mark: TokenStoreMark?) async throws(TokenStoreError) -> TokenChanges {
        try await store.changes(since: mark)
    }
}
