import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Showing a token", .timeLimit(.minutes(5)))
struct RevealTests {
    private let one = ScriptedTokenEndpoint.Answer.token("one", expiresIn: 3600)

    @Test func itIsRecordedAndObtainedWhenThereIsNone() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([one])).running { bench in
            let token = try await bench.reveal()
            #expect(token.access == Secret("one"))
            #expect(token.generation == 1)
            let event = bench.audit.last(.revealed)
            #expect(event?.generation == 1 && event?.trigger == .operator)
            #expect(event?.token == Secret("one"))
            _ = try await bench.reveal()
            #expect(bench.audit.count(of: .revealed) == 2)
            #expect(bench.endpoint.requests.count == 1)
        }
    }

    @Test func whatCannotBeRecordedIsNotShown() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([one])).running { bench in
            bench.audit.fail { $0.name == .revealed }
            #expect(await bench.keeper.reveal().problem?.kind == .auditUnavailable)
        }
    }

    @Test func whoChoseToDegradeSeesItAllTheSame() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([one]), onAuditFailure: .degrade).running { bench in
            bench.audit.fail { $0.name == .revealed }
            let shown = try await bench.reveal()
            #expect(shown.access == Secret("one"))
        }
    }

    @Test func aLockedCredentialIsNotShown() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([one])).running { bench in
            _ = await bench.credential()
            await bench.keeper.lockForOperator()
            #expect(await bench.keeper.reveal().problem?.kind == .locked)
            #expect(bench.audit.count(of: .revealed) == 0)
        }
    }

    @Test func anAuthorityThatDoesNotAnswerIsNotWaitedForForEver() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([.held])).running { bench in
            async let answer = bench.keeper.reveal()
            try await bench.endpoint.untilHeld()
            try await bench.clock.untilAsleep(moreThan: .seconds(19), atMost: .seconds(20))
            bench.clock.advance(by: .seconds(20))
            #expect(await answer.problem != nil)
            bench.endpoint.release(.token("one"))
        }
    }
}
