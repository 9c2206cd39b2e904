import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import ServiceLifecycle
import Synchronization
import Testing

@testable import GatewayTokens

@Suite("Single flight", .timeLimit(.minutes(5)))
struct SingleFlightTests {
    @Test func aThousandParallelRequestsOnAColdCredentialCauseOneCall() async throws {
        let endpoint = ScriptedTokenEndpoint([.held])
        try await KeeperBench(endpoint).running { bench in
            let results = try await withThrowingTaskGroup(of: Int?.self) { group in
                for _ in 0..<1000 { group.addTask { await bench.credential().generation } }
                try await endpoint.untilHeld()
                endpoint.release(.token("one", expiresIn: 3600))
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results == Array(repeating: 1, count: 1000))
            #expect(endpoint.requests.count == 1)
            #expect(bench.audit.names.prefix(2) == [.acquiring, .acquired])
        }
    }

    @Test func waitersShareTheFailureToo() async throws {
        let endpoint = ScriptedTokenEndpoint([.held])
        try await KeeperBench(endpoint).running { bench in
            let problems = try await withThrowingTaskGroup(of: GatewayProblem?.self) { group in
                for _ in 0..<100 { group.addTask { await bench.credential().problem } }
                try await endpoint.untilHeld()
                endpoint.release(.error("invalid_client", status: 401))
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(problems.allSatisfy { $0?.kind == .credentialMisconfigured })
            #expect(endpoint.requests.count == 1)
        }
    }

    @Test func aThousandLateRejectionsOfOneGenerationCauseOneRenewal() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .token("two", expiresIn: 3600)])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<500 { group.addTask { bench.keeper.rejected(generation: 1, by: .sample) } }
            }
            let fresh = await bench.credential()
            #expect(fresh.generation == 2)
            for _ in 0..<500 { bench.keeper.rejected(generation: 1, by: .sample) }
            #expect(bench.generation == 2)
            #expect(endpoint.requests.count == 2)
            try await bench.audit.untilRecorded(.rejected)
            #expect(bench.audit.count(of: .rejected) == 1)
            #expect(bench.audit.last(.renewing)?.trigger == .rejected)
            #expect(bench.audit.last(.renewing)?.demand == .sample)
        }
    }

    @Test func aWaiterThatGoesAwayDoesNotStopTheCall() async throws {
        let endpoint = ScriptedTokenEndpoint([.held])
        try await KeeperBench(endpoint).running { bench in
            let answers = Mutex<[Result<Credential, GatewayProblem>]>([])
            let ticket = bench.keeper.wait(for: .sample) { answer in answers.withLock { $0.append(answer) } }
            try await endpoint.untilHeld()
            async let other = bench.credential()
            bench.keeper.cancel(ticket)
            #expect(answers.withLock { $0.map(\.problem?.kind) } == [.requestTimeout])
            endpoint.release(.token("one", expiresIn: 3600))
            #expect(await other.generation == 1)
            bench.keeper.cancel(ticket)
            #expect(answers.withLock { $0.count } == 1, "done is called exactly once")
            #expect(endpoint.requests.count == 1)
        }
    }

    @Test func whoStillWaitsAtShutdownIsTold() async throws {
        let endpoint = ScriptedTokenEndpoint([.held])
        let bench = KeeperBench(endpoint)
        let run = Task { try await bench.keeper.run() }
        async let waiting = bench.credential()
        try await endpoint.untilHeld()
        run.cancel()
        try await run.value
        #expect(await waiting.problem != nil)
        let late = await bench.credential()
        #expect(late.problem?.kind == .draining)
    }

    @Test(arguments: [false, true]) func shutdownGivesUpACallUnlessItSpendsARefreshToken(_ rotatesRefreshToken: Bool)
        async throws
    {
        let endpoint = ScriptedTokenEndpoint([.held])
        let seed = TokenSet(access: Secret("one"), refreshToken: Secret("r1"), obtainedAt: UnixTime(seconds: 0))
        let bench = KeeperBench(
            endpoint,
            grant: SampleGrant(rotatesRefreshToken: rotatesRefreshToken, initial: rotatesRefreshToken ? seed : nil)
        )
        let group = ServiceGroup(services: [bench.keeper], logger: Logger(label: "test"))
        async let run: Void = group.run()
        async let outcome = bench.keeper.perform(.refresh)
        try await endpoint.untilHeld()
        await group.triggerGracefulShutdown()
        if rotatesRefreshToken {
            #expect(endpoint.heldNow == 1)
            endpoint.release(.token("two", expiresIn: 3600, refresh: "r2"))
        }
        try await run
        _ = await outcome
        #expect(endpoint.heldNow == 0)
        #expect(
            try await bench.store.load(KeeperBench.key).token?.token.access
                == (rotatesRefreshToken ? Secret("two") : nil)
        )
    }
}
