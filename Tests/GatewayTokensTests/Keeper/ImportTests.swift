import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Importing a token", .timeLimit(.minutes(5)))
struct ImportTests {
    private let pair = TokenOperation.import(ImportedToken(access: Secret("a"), refreshToken: Secret("r")))

    @Test func aSessionIsTriedAtOnce() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("two", expiresIn: 3600, refresh: "renewal-two")])
        try await KeeperBench(endpoint, grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            #expect(await bench.credential().problem?.kind == .loginRequired)
            let report = try await bench.perform(pair)
            #expect(report.token.generation == 2)
            #expect(bench.audit.last(.imported)?.generation == 1)
            #expect(bench.audit.last(.imported)?.trigger == .operator)
            #expect(bench.store[KeeperBench.key]?.token.refreshToken == Secret("renewal-two"))
        }
    }

    @Test func aRefusedOneIsNotTakenAndTheEarlierOneIsKept() async throws {
        let endpoint = ScriptedTokenEndpoint([
            .token("two", expiresIn: 3600, refresh: "renewal-two"), .error("invalid_grant"),
            .token("three", expiresIn: 3600, refresh: "renewal-three"),
        ])
        try await KeeperBench(endpoint, grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            _ = try await bench.perform(pair)
            let garbage = ImportedToken(access: Secret("b"), refreshToken: Secret("garbage"))
            let problem = await bench.keeper.perform(.import(garbage)).problem
            #expect(problem?.detail.hasPrefix("Nothing was imported, and the earlier token is kept.") == true)
            #expect(bench.store[KeeperBench.key]?.token.refreshToken == Secret("renewal-two"))
            #expect(bench.status.state == .valid)
            // The earlier one still renews.
            let tried = try await bench.perform(.refresh)
            #expect(tried.token.state == .valid)
            #expect(bench.store[KeeperBench.key]?.token.refreshToken == Secret("renewal-three"))
        }
    }

    @Test(arguments: [true, false])
    func requestsGoOnWithTheEarlierTokenUntilItWasTried(isRefused: Bool) async throws {
        let endpoint = ScriptedTokenEndpoint([.token("two", expiresIn: 3600, refresh: "renewal-two"), .held])
        try await KeeperBench(endpoint, grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            _ = try await bench.perform(pair)
            #expect(bench.generation == 2)
            async let other = bench.keeper.perform(
                .import(ImportedToken(access: Secret("b"), refreshToken: Secret("s")))
            )
            try await endpoint.untilHeld()
            #expect(bench.generation == 2)
            endpoint.release(
                isRefused ? .error("invalid_grant") : .token("four", expiresIn: 3600, refresh: "renewal-four")
            )
            #expect(await (other.problem == nil) == !isRefused)
            #expect(bench.generation == (isRefused ? 2 : 4))
            #expect(bench.status.state == .valid)
            // The number of what was tried is not given again.
            endpoint.append(.token("five", expiresIn: 3600, refresh: "renewal-five"))
            #expect(try await bench.perform(.refresh).token.generation == (isRefused ? 4 : 5))
        }
    }

    @Test func aTokenThatServesIsNotGivenUpForAPairThatCouldNotBeTried() async throws {
        let lost = ScriptedTokenEndpoint.Answer.failure(.init(.connectionLost, mayHaveBeenProcessed: true))
        let endpoint = ScriptedTokenEndpoint([.token("two", expiresIn: 3600, refresh: "renewal-two"), lost])
        try await KeeperBench(endpoint, grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            _ = try await bench.perform(pair)
            let other = ImportedToken(access: Secret("b"), refreshToken: Secret("s"))
            let problem = await bench.keeper.perform(.import(other)).problem
            #expect(problem?.detail.hasPrefix("Nothing was imported, and the earlier token is kept.") == true)
            #expect(problem?.command == nil)
            #expect(bench.status.state == .valid && bench.generation == 2)
            #expect(bench.store[KeeperBench.key]?.token.refreshToken == Secret("renewal-two"))
            #expect(bench.audit.last(.imported)?.outcome == .failed)
        }
    }

    @Test func aPairThatCouldNotBeTriedIsTriedAgainAfterAPause() async throws {
        let lost = ScriptedTokenEndpoint.Answer.failure(.init(.connectionLost, mayHaveBeenProcessed: true))
        let endpoint = ScriptedTokenEndpoint([lost, .token("two", expiresIn: 3600, refresh: "renewal-two")])
        try await KeeperBench(endpoint, grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            let report = try await bench.perform(pair)
            #expect(report.token.state == .rotationUncertain)
            #expect(bench.generation == 1)
            try await bench.clock.untilAsleep(atMost: .seconds(1))
            bench.clock.advance(by: .seconds(1))
            try await bench.audit.untilRecorded(.renewed, times: 1)
            #expect(endpoint.requests.count == 2)
        }
    }

    /// A late rejection of a token that was cleared must not hit the one that the configuration holds.
    @Test func theTokenOfTheConfigurationIsNewerThanOneThatWasCleared() async throws {
        let endpoint = ScriptedTokenEndpoint([
            .token("two", expiresIn: 3600, refresh: "renewal-two"), .error("invalid_grant"),
        ])
        let seed = TokenSet(
            access: Secret("one"),
            refreshToken: Secret("renewal-one"),
            obtainedAt: UnixTime(seconds: 1_772_357_400)
        )
        try await KeeperBench(endpoint, grant: SampleGrant(rotatesRefreshToken: true, initial: seed)).running { bench in
            #expect(try await bench.perform(.refresh).token.generation == 2)
            _ = try await bench.perform(.clear)
            #expect(await bench.keeper.perform(pair).problem?.kind == .reauthorizationRequired)
            #expect(bench.generation == 3)
        }
    }

    @Test func aRefusedFirstOneLeavesNothing() async throws {
        let endpoint = ScriptedTokenEndpoint([.error("invalid_grant")])
        try await KeeperBench(endpoint, grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            #expect(await bench.keeper.perform(pair).problem?.detail.hasPrefix("Nothing was imported.") == true)
            #expect(bench.store[KeeperBench.key] == nil)
            #expect(bench.generation == nil)
            #expect(bench.status.state == .loginRequired)
        }
    }

    @Test func anAuthorityThatIsDownDoesNotLoseIt() async throws {
        let down = ScriptedTokenEndpoint.Answer.failure(.init(.connectionRefused, mayHaveBeenProcessed: false))
        try await KeeperBench(ScriptedTokenEndpoint([down]), grant: SampleGrant(rotatesRefreshToken: true)).running {
            bench in
            let report = try await bench.perform(pair)
            #expect(report.message.contains("could not be tried yet"))
            #expect(bench.store[KeeperBench.key]?.token.refreshToken == Secret("r"))
            #expect(bench.generation == 1)
        }
    }

    @Test func theRefreshTokenAloneIsEnoughWhereItRenews() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("two", expiresIn: 3600, refresh: "renewal-two")])
        try await KeeperBench(endpoint, grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            let token = ImportedToken(access: nil, refreshToken: Secret("r"))
            let renewed = try await bench.perform(.import(token))
            #expect(renewed.token.state == .valid)
        }
        try await KeeperBench().running { bench in
            let token = ImportedToken(access: nil, refreshToken: Secret("r"))
            #expect(await bench.keeper.perform(.import(token)).problem?.kind == .requestRefused)
        }
    }

    @Test func anAccessTokenAloneIsUsedWithoutBeingTried() async throws {
        try await KeeperBench(grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            let token = ImportedToken(access: Secret("a"), lifetime: .seconds(600))
            let report = try await bench.perform(.import(token))
            #expect(report.token.state == .valid)
            #expect(report.token.remainingSeconds == 600)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aLockedCredentialTakesItUntried() async throws {
        try await KeeperBench(grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            await bench.keeper.lockForOperator()
            let untried = try await bench.perform(pair)
            #expect(untried.message.contains("locked"))
            #expect(bench.problem?.kind == .locked)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func whatCannotBeRecordedIsNotTaken() async throws {
        try await KeeperBench(grant: SampleGrant(rotatesRefreshToken: true)).running { bench in
            bench.audit.fail { $0.name == .imported }
            #expect(await bench.keeper.perform(pair).problem?.kind == .auditUnavailable)
            #expect(bench.store[KeeperBench.key] == nil)
        }
    }

    @Test func whatHasEndedIsNotTaken() async throws {
        try await KeeperBench().running { bench in
            let token = ImportedToken(access: Secret("a"), expiresAt: bench.clock.now().wall)
            #expect(await bench.keeper.perform(.import(token)).problem?.kind == .requestRefused)
        }
    }
}
