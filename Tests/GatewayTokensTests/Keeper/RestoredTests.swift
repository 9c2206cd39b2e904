import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

/// Tokens that came back with a backup.
@Suite("Restored tokens", .timeLimit(.minutes(5)))
struct RestoredTests {
    private static let now = ManualClock().now().wall
    private let key = KeeperBench.key
    private let next = ScriptedTokenEndpoint.Answer.token("access-two", expiresIn: 3600, refresh: "renewal-two")

    private func bench(
        _ answers: [ScriptedTokenEndpoint.Answer],
        age: Duration,
        rotates: Bool = true
    ) -> KeeperBench {
        let store = RecordingTokenStore()
        let token = TokenSet(
            access: Secret("access-one"),
            refreshToken: Secret("renewal-one"),
            obtainedAt: Self.now + (.zero - age),
            expiresAt: Self.now + (.zero - age) + .seconds(3600)
        )
        var stored = StoredToken(generation: 3, token: token)
        stored.isRestored = true
        store[key] = stored
        let grant = SampleGrant(rotatesRefreshToken: rotates)
        return KeeperBench(ScriptedTokenEndpoint(answers), grant: grant, store: store)
    }

    @Test func aRefreshTokenThatMayBeSpentIsNotSentByItself() async throws {
        try await bench([], age: .seconds(4000)).running { bench in
            let problem = await bench.credential().problem
            #expect(problem?.kind == .reauthorizationRequired)
            #expect(problem?.detail.contains("comes from a backup") == true)
            #expect(problem?.detail.contains("authgateway token refresh box-service") == true)
            #expect(bench.status.state == .rotationUncertain)
            #expect(bench.status.needsPerson)
            #expect(bench.audit.last(.loaded)?.detail["renewal"] == "restored")
            #expect(bench.audit.count(of: .loginRequired) == 1)
            bench.clock.advance(by: .seconds(86_400))
            _ = await bench.credential()
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aLiveTokenIsUsedToItsEnd() async throws {
        try await bench([], age: .seconds(60)).running { bench in
            #expect(await bench.credential().generation == 3)
            #expect(bench.status.state == .rotationUncertain)
            #expect(bench.status.action != nil)
            bench.clock.advance(by: .seconds(3600))
            #expect(await bench.credential().problem?.kind == .reauthorizationRequired)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aPersonMayHaveItSent() async throws {
        try await bench([next], age: .seconds(4000)).running { bench in
            _ = await bench.credential()
            _ = try await bench.perform(.refresh)
            #expect(await bench.credential().generation == 4)
            #expect(bench.status.state == .valid)
            #expect(bench.store[key]?.isRestored == false)
        }
    }

    @Test func aRefusalSaysThatTheBackupIsTooOld() async throws {
        try await bench([.error("invalid_grant")], age: .seconds(4000)).running { bench in
            _ = try? await bench.perform(.refresh)
            let problem = await bench.credential().problem
            #expect(problem?.kind == .reauthorizationRequired)
            #expect(problem?.detail.contains("it was used after the backup, or it has expired") == true)
            #expect(bench.endpoint.requests.count == 1)
        }
    }

    @Test func aRefreshTokenThatIsValidManyTimesIsSentAsEver() async throws {
        try await bench([next], age: .seconds(4000), rotates: false).running { bench in
            #expect(await bench.credential().generation == 4)
            #expect(bench.status.state == .valid)
        }
    }
}
