import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

/// `renew: false`.
@Suite("Tokens that only a person renews", .timeLimit(.minutes(5)))
struct ManualRenewalTests {
    private static let policy = RenewalPolicy(isAutomatic: false)
    private static let command = "authgateway token refresh box-service"
    private let now = ManualClock().now().wall

    private func bench(
        _ answers: [ScriptedTokenEndpoint.Answer],
        grant: SampleGrant = SampleGrant(),
        store: RecordingTokenStore = RecordingTokenStore()
    ) -> KeeperBench {
        KeeperBench(ScriptedTokenEndpoint(answers), grant: grant, policy: Self.policy, store: store)
    }

    @Test func theFirstIsFetchedOnDemandAndNothingFollowsItsEndUntilAPersonSaysSo() async throws {
        try await bench([.token("one", expiresIn: 3600), .token("two", expiresIn: 3600)]).running { bench in
            #expect(await bench.credential().generation == 1)
            #expect(!bench.keeper.isRenewable)
            let expiration = try #require(bench.keeper.expirations(at: bench.clock.now()).first)
            #expect((expiration.kind, expiration.action) == (.token, Self.command))
            try await bench.clock.untilAsleep(moreThan: .seconds(2900), atMost: .seconds(3000))
            bench.clock.advance(by: .seconds(3000))
            try await bench.audit.untilRecorded(.expiringSoon)
            try await bench.clock.untilAsleep(moreThan: .seconds(500), atMost: .seconds(600))
            #expect(bench.endpoint.requests.count == 1)
            bench.clock.advance(by: .seconds(600))
            try await bench.audit.untilRecorded(.expired)
            let problem = await bench.credential().problem
            #expect(problem?.kind == .staticTokenExpired)
            #expect(problem?.command == Self.command)
            #expect((bench.status.state, bench.status.needsPerson) == (.expired, true))
            #expect(bench.status.action == Self.command)
            #expect(bench.endpoint.requests.count == 1)
            _ = try await bench.perform(.refresh)
            #expect(await bench.credential().generation == 2)
            #expect((bench.status.state, bench.status.needsPerson) == (.valid, false))
        }
    }

    @Test func aRejectionIsNotAnsweredWithANewToken() async throws {
        try await bench([.token("one", expiresIn: 3600)]).running { bench in
            #expect(await bench.credential().generation == 1)
            bench.keeper.rejected(generation: 1, by: .sample)
            let problem = await bench.credential().problem
            #expect((problem?.kind, problem?.command) == (.staticTokenExpired, Self.command))
            #expect((bench.status.state, bench.status.needsPerson) == (.rejected, true))
            #expect(bench.endpoint.requests.count == 1)
        }
    }

    @Test func aTokenThatEndedWhileTheGatewayWasAwayStaysEnded() async throws {
        let token = TokenSet(access: Secret("old"), obtainedAt: now + .seconds(-3600), expiresAt: now)
        let store = RecordingTokenStore([KeeperBench.key: StoredToken(generation: 4, token: token)])
        try await bench([], store: store).running { bench in
            #expect(await bench.credential().problem?.command == Self.command)
            #expect(bench.status.state == .expired)
        }
    }

    @Test func afterItWasClearedTheNextIsAFirstOne() async throws {
        try await bench([.token("one", expiresIn: 3600), .token("two", expiresIn: 3600)]).running { bench in
            #expect(await bench.credential().generation == 1)
            _ = try await bench.perform(.clear)
            #expect(await bench.credential().generation == 2)
        }
    }

    /// A first token that did not come is asked for again.
    @Test func untilThereIsATokenFailuresAreWhatTheyAlwaysAre() async throws {
        try await bench([.json("", status: 503), .token("one", expiresIn: 3600)]).running { bench in
            #expect(await bench.credential().problem?.kind == .tokenTemporarilyUnavailable)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 1)
        }
    }

    @Test func aRefreshThatFailsLeavesTheTokenUntilItsEnd() async throws {
        try await bench([.token("one", expiresIn: 3600), .json("", status: 503)]).running { bench in
            #expect(await bench.credential().generation == 1)
            #expect(await bench.keeper.perform(.refresh).problem?.kind == .tokenTemporarilyUnavailable)
            #expect(await bench.credential().generation == 1)
            // Past the pause nothing is tried again; it sleeps until the warning is due.
            try await bench.clock.untilAsleep(moreThan: .seconds(2900), atMost: .seconds(3000))
            bench.clock.advance(by: .seconds(120))
            try await bench.clock.untilAsleep(moreThan: .seconds(2800), atMost: .seconds(2880))
            bench.clock.advance(by: .seconds(3500))
            try await bench.audit.untilRecorded(.expired)
            #expect(await bench.credential().problem?.command == Self.command)
            #expect(bench.endpoint.requests.count == 2)
        }
    }

    @Test func aRefreshTokenOfTheConfigurationBuysTheFirstTokenAndNoOther() async throws {
        let seed = TokenSet(access: Secret(""), refreshToken: Secret("r0"), obtainedAt: now, expiresAt: now)
        var grant = SampleGrant(rotatesRefreshToken: true, initial: seed)
        grant.renewsSeed = true
        try await bench([.token("one", expiresIn: 3600)], grant: grant).running { bench in
            #expect(await bench.credential().generation == 2)
            bench.keeper.rejected(generation: 2, by: .sample)
            #expect(await bench.credential().problem?.kind == .staticTokenExpired)
            #expect(bench.endpoint.requests.count == 1)
        }
    }
}
