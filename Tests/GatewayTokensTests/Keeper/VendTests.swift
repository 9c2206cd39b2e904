import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Handing a token to a client", .timeLimit(.minutes(5)))
struct VendTests {
    private static let limit = Duration.seconds(20)

    private func hour(_ name: String) -> ScriptedTokenEndpoint.Answer { .token(name, expiresIn: 3600) }

    @Test func itIsRecordedWithItsClient() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([hour("one")])).running { bench in
            let token = try await bench.vend()
            #expect(token.access == Secret("one"))
            #expect(token.type == "Bearer")
            #expect(token.expiresIn == 3600)
            #expect(token.expiresAt == bench.clock.now().wall + .seconds(3600))
            let event = try #require(bench.audit.last(.vended))
            #expect(event.trigger == .demand && event.demand == .sample && event.generation == 1)
            #expect(event.token == Secret("one"))
            _ = try await bench.vend()
            #expect(bench.audit.count(of: .vended) == 2)
            #expect(bench.endpoint.requests.count == 1)
        }
    }

    @Test func aTokenThatIsDueIsRenewedBeforeItIsHandedOut() async throws {
        let endpoint = ScriptedTokenEndpoint([hour("one"), .held])
        try await KeeperBench(endpoint).running { bench in
            _ = try await bench.vend()
            bench.clock.advance(by: .seconds(3241))
            try await endpoint.untilHeld()
            async let token = bench.vend()
            try await bench.clock.untilAsleep(moreThan: .seconds(19), atMost: Self.limit)
            endpoint.release(hour("two"))
            #expect(try await token.access == Secret("two"))
            #expect(endpoint.requests.count == 2)
        }
    }

    @Test func whenTheAuthorityFailsTheOldOneServesAsLongAsItIsOfUse() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([hour("one")])).running { bench in
            _ = try await bench.vend()
            bench.clock.advance(by: .seconds(3589))
            let token = try await bench.vend()
            #expect(token.access == Secret("one") && token.expiresIn == 11)
            bench.clock.advance(by: .seconds(2))
            let problem = await bench.keeper.vend(for: .sample, within: Self.limit).problem
            #expect(problem?.kind == .tokenTemporarilyUnavailable)
            #expect(problem?.retryAfter != nil)
            #expect(bench.generation == 1, "requests still use it")
            #expect(bench.audit.count(of: .vended) == 2)
        }
    }

    @Test func ofAShortLifeAQuarterIsOfUse() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([.token("one", expiresIn: 8)])).running { bench in
            _ = try await bench.vend()
            bench.clock.advance(by: .seconds(6))
            #expect(try await bench.vend().expiresIn == 2)
            bench.clock.advance(by: .milliseconds(100))
            #expect(await bench.keeper.vend(for: .sample, within: Self.limit).problem != nil)
        }
    }

    @Test func aTokenThatNobodyCanRenewIsHandedOutWithoutACall() async throws {
        let initial = TokenSet(
            access: Secret("fixed"),
            obtainedAt: ManualClock().now().wall,
            expiresAt: ManualClock().now().wall + .seconds(3600)
        )
        try await KeeperBench(grant: SampleGrant(isRenewable: false, initial: initial)).running { bench in
            let token = try await bench.vend()
            #expect(token.access == Secret("fixed"))
            bench.clock.advance(by: .seconds(3595))
            let problem = await bench.keeper.vend(for: .sample, within: Self.limit).problem
            #expect(problem?.kind == .tokenTemporarilyUnavailable)
            #expect(problem?.retryAfter == nil)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func whatCannotBeRecordedIsNotHandedOut() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([hour("one")])).running { bench in
            bench.audit.fail { $0.name == .vended }
            #expect(await bench.keeper.vend(for: .sample, within: Self.limit).problem?.kind == .auditUnavailable)
        }
    }

    @Test func aLockedCredentialIsNotHandedOut() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([hour("one")])).running { bench in
            _ = await bench.credential()
            await bench.keeper.lockForOperator()
            #expect(await bench.keeper.vend(for: .sample, within: Self.limit).problem?.kind == .locked)
            #expect(bench.audit.count(of: .vended) == 0)
        }
    }

    @Test func whatIsLockedWhileTheEventIsWrittenDoesNotLeave() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([hour("one")])).running { bench in
            _ = await bench.credential()
            bench.audit.fail { event in
                if [.vended, .revealed].contains(event.name) { bench.keeper.lock() }
                return false
            }
            #expect(await bench.keeper.vend(for: .sample, within: Self.limit).problem?.kind == .locked)
            #expect(await bench.keeper.unlockForOperator() == nil)
            #expect(await bench.keeper.reveal().problem?.kind == .locked)
            #expect(bench.audit.count(of: .vended) == 1 && bench.audit.count(of: .revealed) == 1)
        }
    }

    @Test func anAuthorityThatDoesNotAnswerIsNotWaitedForForEver() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([.held])).running { bench in
            async let answer = bench.keeper.vend(for: .sample, within: Self.limit)
            try await bench.endpoint.untilHeld()
            try await bench.clock.untilAsleep(moreThan: .seconds(19), atMost: Self.limit)
            bench.clock.advance(by: Self.limit)
            let problem = await answer.problem
            #expect(problem?.kind == .tokenEndpointTimeout)
            #expect(problem?.detail.hasSuffix(" had no token within 20s (limits.credential_timeout).") == true)
            bench.endpoint.release(hour("one"))
        }
    }
}

extension KeeperBench {
    fileprivate func vend() async throws -> VendedToken {
        try await keeper.vend(for: .sample, within: .seconds(20)).get()
    }
}
