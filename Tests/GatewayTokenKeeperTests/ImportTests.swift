import GatewayCore
import GatewayTesting
import GatewayTokenKeeper
import Testing

@Suite("Importing a token", .timeLimit(.minutes(1)))
struct ImportTests {
    private let pair = TokenOperation.import(ImportedToken(access: Secret("a"), renewal: Secret("r")))

    @Test func aSessionIsTriedAtOnce() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("two", expiresIn: 3600, refresh: "renewal-two")])
        try await KeeperBench(endpoint, grant: SampleGrant(rotates: true)).running { bench in
            #expect(await bench.credential().problem?.kind == .loginRequired)
            let report = try await bench.order(pair)
            #expect(report.token.generation == 2)
            #expect(bench.audit.last(.imported)?.generation == 1)
            #expect(bench.audit.last(.imported)?.trigger == .operator)
            #expect(bench.store[KeeperBench.key]?.token.renewal == Secret("renewal-two"))
        }
    }

    @Test func aRefusedOneIsNotTakenAndTheEarlierOneIsKept() async throws {
        let endpoint = ScriptedTokenEndpoint([
            .token("two", expiresIn: 3600, refresh: "renewal-two"), .error("invalid_grant"),
            .token("three", expiresIn: 3600, refresh: "renewal-three"),
        ])
        try await KeeperBench(endpoint, grant: SampleGrant(rotates: true)).running { bench in
            _ = try await bench.order(pair)
            let garbage = ImportedToken(access: Secret("b"), renewal: Secret("garbage"))
            let problem = await bench.keeper.perform(.import(garbage)).problem
            #expect(problem?.detail.hasPrefix("Nothing was imported, and the earlier token is kept.") == true)
            #expect(bench.store[KeeperBench.key]?.token.renewal == Secret("renewal-two"))
            #expect(bench.status.state == .valid)
            // The earlier one still renews.
            let tried = try await bench.order(.refresh)
            #expect(tried.token.state == .valid)
            #expect(bench.store[KeeperBench.key]?.token.renewal == Secret("renewal-three"))
        }
    }

    @Test func aRefusedFirstOneLeavesNothing() async throws {
        let endpoint = ScriptedTokenEndpoint([.error("invalid_grant")])
        try await KeeperBench(endpoint, grant: SampleGrant(rotates: true)).running { bench in
            #expect(await bench.keeper.perform(pair).problem?.detail.hasPrefix("Nothing was imported.") == true)
            #expect(bench.store[KeeperBench.key] == nil)
            #expect(bench.generation == nil)
            #expect(bench.status.state == .loginRequired)
        }
    }

    @Test func anAuthorityThatIsDownDoesNotLoseIt() async throws {
        let down = ScriptedTokenEndpoint.Answer.failure(.init(.connectionRefused, mayHaveBeenProcessed: false))
        try await KeeperBench(ScriptedTokenEndpoint([down]), grant: SampleGrant(rotates: true)).running { bench in
            let report = try await bench.order(pair)
            #expect(report.message.contains("could not be tried yet"))
            #expect(bench.store[KeeperBench.key]?.token.renewal == Secret("r"))
            #expect(bench.generation == 1)
        }
    }

    @Test func theRenewalTokenAloneIsEnoughWhereItRenews() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("two", expiresIn: 3600, refresh: "renewal-two")])
        try await KeeperBench(endpoint, grant: SampleGrant(rotates: true)).running { bench in
            let token = ImportedToken(access: nil, renewal: Secret("r"))
            let renewed = try await bench.order(.import(token))
            #expect(renewed.token.state == .valid)
        }
        try await KeeperBench().running { bench in
            let token = ImportedToken(access: nil, renewal: Secret("r"))
            #expect(await bench.keeper.perform(.import(token)).problem?.kind == .requestRefused)
        }
    }

    @Test func anAccessTokenAloneIsUsedWithoutBeingTried() async throws {
        try await KeeperBench(grant: SampleGrant(rotates: true)).running { bench in
            let token = ImportedToken(access: Secret("a"), lifetime: .seconds(600))
            let report = try await bench.order(.import(token))
            #expect(report.token.state == .valid)
            #expect(report.token.remainingSeconds == 600)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aLockedCredentialTakesItUntried() async throws {
        try await KeeperBench(grant: SampleGrant(rotates: true)).running { bench in
            _ = await bench.keeper.perform(.lock)
            let untried = try await bench.order(pair)
            #expect(untried.message.contains("locked"))
            #expect(bench.problem?.kind == .locked)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func whatCannotBeRecordedIsNotTaken() async throws {
        try await KeeperBench(grant: SampleGrant(rotates: true)).running { bench in
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
