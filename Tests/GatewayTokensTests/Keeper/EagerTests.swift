import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

/// `acquire_on: startup`.
@Suite(.timeLimit(.minutes(5)))
struct EagerTests {
    private let eager = RenewalPolicy(acquireOn: .startup)

    @Test func theTokenIsThereBeforeAnybodyAsks() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600)])
        try await KeeperBench(endpoint, policy: eager).running { bench in
            try await bench.audit.untilRecorded(.acquired)
            #expect(bench.audit.names == [.acquiring, .acquired])
            #expect(bench.audit.last(.acquired)?.trigger == .startup)
            #expect(await bench.credential().generation == 1)
            #expect(endpoint.requests.count == 1)
        }
    }

    @Test func onDemandNobodyIsAskedBefore() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600)])
        try await KeeperBench(endpoint).running { bench in
            #expect(await bench.keeper.lockForOperator() == nil)
            #expect(endpoint.requests.isEmpty)
        }
    }

    @Test func aStoredTokenIsEnough() async throws {
        let now = ManualClock().now().wall
        let token = TokenSet(access: Secret("stored"), obtainedAt: now, expiresAt: now + .seconds(3600))
        let store = RecordingTokenStore([KeeperBench.key: StoredToken(generation: 7, token: token)])
        try await KeeperBench(policy: eager, store: store).running { bench in
            #expect(await bench.credential().generation == 7)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aStoredTokenThatWasRejectedIsReplaced() async throws {
        let now = ManualClock().now().wall
        let token = TokenSet(access: Secret("stored"), obtainedAt: now, expiresAt: now + .seconds(3600))
        let stored = StoredToken(generation: 7, token: token, isRejected: true)
        let endpoint = ScriptedTokenEndpoint([.token("eight", expiresIn: 3600)])
        let bench = KeeperBench(endpoint, policy: eager, store: RecordingTokenStore([KeeperBench.key: stored]))
        try await bench.running { bench in
            try await bench.audit.untilRecorded(.renewed)
            #expect(bench.audit.last(.renewed)?.trigger == .startup)
        }
    }

    @Test func aFailureIsShownAndTheNextRequestAsksAgain() async throws {
        let endpoint = ScriptedTokenEndpoint([
            .failure(TokenTransportFailure(.connectionRefused, mayHaveBeenProcessed: false)),
            .token("one", expiresIn: 3600),
        ])
        try await KeeperBench(endpoint, policy: eager).running { bench in
            try await bench.untilFailing()
            #expect(bench.status.failing?.reason.contains("refuses connections") == true)
            #expect(bench.status.lastError?.contains("refuses connections") == true)
            bench.clock.advance(by: .seconds(120))
            #expect(await bench.keeper.unlockForOperator() == nil)
            #expect(endpoint.requests.count == 1, "an idle gateway does not call a broken authority for ever")
            #expect(await bench.credential().generation == 1)
            #expect(bench.status.failing == nil)
        }
    }
}
