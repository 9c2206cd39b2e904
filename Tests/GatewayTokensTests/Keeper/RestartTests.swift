import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Restart", .timeLimit(.minutes(5)))
struct RestartTests {
    private let now = ManualClock().now().wall

    private func stored(
        _ generation: Int,
        lifetime: Duration = .seconds(3600),
        age: Duration = .zero,
        isRejected: Bool = false
    ) -> RecordingTokenStore {
        let obtainedAt = now + (.zero - age)
        let token = TokenSet(access: Secret("stored"), obtainedAt: obtainedAt, expiresAt: obtainedAt + lifetime)
        return RecordingTokenStore([
            KeeperBench.key: StoredToken(generation: generation, token: token, isRejected: isRejected)
        ])
    }

    @Test func aStoredTokenIsUsedWithoutACall() async throws {
        try await KeeperBench(store: stored(7)).running { bench in
            #expect(await bench.credential().generation == 7)
            #expect(bench.endpoint.requests.isEmpty)
            #expect(bench.audit.names == [.loaded])
            #expect(bench.audit.last(.loaded)?.trigger == .startup)
            #expect(bench.status.state == .valid)
        }
    }

    @Test func whatOneRunObtainedTheNextOneUses() async throws {
        let store = RecordingTokenStore()
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600)])
        try await KeeperBench(endpoint, store: store).running { _ = await $0.credential() }
        try await KeeperBench(endpoint, store: store).running { bench in
            #expect(await bench.credential().generation == 1)
            #expect(endpoint.requests.count == 1)
        }
    }

    @Test(arguments: [true, false])
    func aStoredTokenThatIsDeadIsReplaced(byRejection: Bool) async throws {
        let store = byRejection ? stored(7, isRejected: true) : stored(7, age: .seconds(3600))
        let endpoint = ScriptedTokenEndpoint([.token("eight", expiresIn: 3600)])
        try await KeeperBench(endpoint, store: store).running { bench in
            #expect(await bench.credential().generation == 8)
            #expect(endpoint.requests.count == 1)
        }
    }

    @Test func aRejectionIsStoredSoThatItOutlivesTheProcess() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .held])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            bench.keeper.rejected(generation: 1, by: .sample)
            try await bench.store.untilSaved { $0.generation == 1 && $0.isRejected }
        }
    }

    @Test func withoutAStoredTokenTheConfiguredOneIsUsed() async throws {
        let seed = TokenSet(access: Secret("seed"), obtainedAt: now, expiresAt: now + .seconds(3600))
        try await KeeperBench(grant: SampleGrant(isRenewable: false, initial: seed)).running { bench in
            #expect(await bench.credential().generation == 1)
            #expect(bench.audit.last(.loaded)?.detail == ["from": "configuration"])
            #expect(bench.store[KeeperBench.key]?.token == seed, "its countdown goes on after a restart")
        }
    }

    @Test func aTokenThatNobodyCanRenewIsAnnouncedAndEnds() async throws {
        let seed = TokenSet(access: Secret("seed"), obtainedAt: now, expiresAt: now + .seconds(3600))
        try await KeeperBench(grant: SampleGrant(isRenewable: false, initial: seed)).running { bench in
            _ = await bench.credential()
            try await bench.clock.untilAsleep(moreThan: .seconds(2900), atMost: .seconds(3000))
            bench.clock.advance(by: .seconds(3000))
            try await bench.audit.untilRecorded(.expiringSoon)
            try await bench.clock.untilAsleep(moreThan: .seconds(500), atMost: .seconds(600))
            bench.clock.advance(by: .seconds(600))
            try await bench.audit.untilRecorded(.expired)
            #expect(bench.audit.last(.expired)?.errorCode == "static-token-expired")
            #expect(await bench.credential().problem?.kind == .staticTokenExpired)
            #expect(bench.status.state == .expired)
            #expect(bench.status.needsPerson)
            #expect(bench.audit.count(of: .expired) == 1)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aStoreThatCannotBeReadCostsAGrantWithoutRotationOneCall() async throws {
        let store = stored(7)
        store.fail { $0 == .load ? .unavailable("locked") : nil }
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600)])
        try await KeeperBench(endpoint, store: store).running { bench in
            #expect(await bench.credential().generation == 1)
            #expect(bench.audit.count(of: .storeFailed) == 1)
        }
    }

    @Test func aTokenThatCannotBeStoredIsUsedAndStoredLater() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600)])
        let bench = KeeperBench(endpoint)
        bench.store.fail { if case .save = $0 { .unavailable("disk full") } else { nil } }
        try await bench.running { bench in
            #expect(await bench.credential().generation == 1)
            #expect(bench.audit.last(.storeFailed)?.detail["operation"] == "save")
            try await bench.clock.untilAsleep(atMost: .seconds(5))
            bench.clock.advance(by: .seconds(5))
            try await bench.audit.untilRecorded(.storeFailed, times: 2)
            bench.store.fail(nil)
            try await bench.clock.untilAsleep(atMost: .seconds(5))
            bench.clock.advance(by: .seconds(5))
            try await bench.store.untilSaved { $0.generation == 1 }
            #expect(endpoint.requests.count == 1)
        }
    }
}
