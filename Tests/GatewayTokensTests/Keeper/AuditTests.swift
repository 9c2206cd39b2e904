import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Audit", .timeLimit(.minutes(5)))
struct AuditTests {
    @Test func aTokenIsNotUsedBeforeItsEventIsCommittedAndIsNotAskedForTwice() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600)])
        let bench = KeeperBench(endpoint)
        bench.audit.fail { $0.name == .acquired }
        try await bench.running { bench in
            #expect(await bench.credential().problem?.kind == .auditUnavailable)
            #expect(bench.generation == nil)
            bench.audit.fail(nil)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 1)
            #expect(endpoint.requests.count == 1, "the token that was obtained is the one that is used")
            #expect(bench.audit.names.contains(.acquired))
        }
    }

    @Test func noCallIsMadeThatCannotBeRecorded() async throws {
        let bench = KeeperBench(ScriptedTokenEndpoint([.token("one")]))
        bench.audit.fail { _ in true }
        try await bench.running { bench in
            #expect(await bench.credential().problem?.kind == .auditUnavailable)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aStoredTokenIsNotUsedBeforeItsEventIsCommitted() async throws {
        let clock = ManualClock()
        let token = TokenSet(access: Secret("a"), obtainedAt: clock.now().wall)
        let store = RecordingTokenStore([KeeperBench.key: StoredToken(generation: 3, token: token)])
        let bench = KeeperBench(store: store)
        bench.audit.fail { $0.name == .loaded }
        try await bench.running { bench in
            #expect(await bench.credential().problem?.kind == .auditUnavailable)
            bench.audit.fail(nil)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 3)
        }
    }

    @Test func aLiveTokenIsServedWhileTheAuditLogFails() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .token("two", expiresIn: 3600)])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            bench.audit.fail { _ in true }
            try await bench.clock.untilAsleep(moreThan: .seconds(3000))
            bench.clock.advance(by: .seconds(3240))
            try await bench.audit.untilRefused()
            #expect(bench.generation == 1)
            #expect(endpoint.requests.count == 1)
        }
    }

    @Test func withDegradeTheTokenIsUsedAllTheSame() async throws {
        let bench = KeeperBench(ScriptedTokenEndpoint([.token("one")]), onAuditFailure: .degrade)
        bench.audit.fail { _ in true }
        try await bench.running { bench in
            #expect(await bench.credential().generation == 1)
            #expect(bench.audit.events.isEmpty)
        }
    }

    @Test func anEventSaysWhoCausedTheCallAndWhatCameOfIt() async throws {
        let endpoint = ScriptedTokenEndpoint([.held])
        try await KeeperBench(endpoint).running { bench in
            async let waiting = bench.credential()
            try await endpoint.untilHeld()
            bench.clock.advance(by: .milliseconds(120))
            endpoint.release(.token("one", expiresIn: 3600))
            _ = await waiting
            let event = try #require(bench.audit.last(.acquired))
            #expect(event.credential == "box-service")
            #expect(event.strategy == "sample")
            #expect(event.generation == 1)
            #expect(event.trigger == .demand)
            #expect(event.demand == .sample)
            #expect(event.httpStatus == 200)
            #expect(event.duration == .milliseconds(120))
            #expect(event.waiters == 1)
            #expect(event.expiresAt == bench.clock.now().wall + .seconds(3600))
            #expect(event.token == Secret("one"))
        }
    }

    @Test func usesAreNotedInOrderWithoutBlocking() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .held])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            bench.keeper.note(.injected, generation: 1, by: .sample)
            bench.keeper.rejected(generation: 1, by: .sample)
            try await endpoint.untilHeld()
            bench.keeper.note(.withheld, generation: 1, by: .sample)
            bench.keeper.note(.replayed, generation: 2, by: .sample)
            // Written although the keeper waits for the authority.
            try await bench.audit.untilRecorded(.replayed)
            let uses = bench.audit.names.filter { [.injected, .rejected, .withheld, .replayed].contains($0) }
            #expect(uses == [.injected, .rejected, .withheld, .replayed])
        }
    }

    @Test func requestsThatCannotBeServedDoNotFillTheLog() async throws {
        let bench = KeeperBench(ScriptedTokenEndpoint([.token("one", expiresIn: 3600)]))
        try await bench.running { bench in
            for _ in 0..<500 { bench.keeper.note(.withheld, generation: 0, by: .sample) }
            try await bench.audit.untilRecorded(.withheld)
            bench.clock.advance(by: .seconds(1))
            bench.keeper.note(.withheld, generation: 0, by: .sample)
        }
        #expect(bench.audit.count(of: .withheld) == EventBudget.perSecond + 1)
        let unrecorded = 500 - EventBudget.perSecond
        // The last one may be written beside those before, when the keeper stops.
        let detailed = bench.audit.events.filter { $0.name == .withheld && !$0.detail.isEmpty }.map(\.detail)
        #expect(detailed == [["unrecorded_before": "\(unrecorded)"]])
    }

    @Test func whatWasNotedBeforeShutdownIsWritten() async throws {
        let bench = KeeperBench(ScriptedTokenEndpoint([.token("one", expiresIn: 3600)]))
        try await bench.running { bench in
            _ = await bench.credential()
            for _ in 0..<500 { bench.keeper.note(.replayed, generation: 1, by: .sample) }
        }
        #expect(bench.audit.count(of: .replayed) == 500)
    }

    @Test func theFirstUseOnARouteIsWrittenOnce() async throws {
        let bench = KeeperBench(ScriptedTokenEndpoint([.token("one", expiresIn: 3600)]))
        let elsewhere = CredentialRequest(route: "elsewhere", client: nil, requestID: "2")
        try await bench.running { bench in
            _ = await bench.credential()
            for demand in [CredentialRequest.sample, .sample, elsewhere, .sample, elsewhere] {
                bench.keeper.note(.injected, generation: 1, by: demand)
            }
        }
        #expect(bench.audit.count(of: .injected) == 2)
    }
}
