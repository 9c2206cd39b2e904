import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayTokens

@Suite("Commands of an operator", .timeLimit(.minutes(5)))
struct OperatorCommandTests {
    private let two = [
        ScriptedTokenEndpoint.Answer.token("one", expiresIn: 3600), .token("two", expiresIn: 3600),
    ]

    @Test func refreshRenewsNow() async throws {
        try await KeeperBench(ScriptedTokenEndpoint(two)).running { bench in
            _ = await bench.credential()
            let status = try await bench.perform(.refresh).token
            #expect(status.generation == 2)
            #expect(status.state == .valid)
            #expect(status.remainingSeconds == 3600)
            #expect(bench.generation == 2)
            #expect(bench.audit.last(.renewed)?.trigger == .operator)
        }
    }

    /// What was opened with a credential, a tunnel, ends when that grows.
    @Test func whatAnOperatorTakesAwayIsToldFromWhatIsReplaced() async throws {
        try await KeeperBench(ScriptedTokenEndpoint(two)).running { bench in
            _ = try await bench.credential().get()
            _ = try await bench.perform(.refresh)
            #expect(bench.keeper.timesWithdrawn == 0)
            #expect(await bench.keeper.lockForOperator() == nil)
            #expect(bench.keeper.timesWithdrawn == 1)
            #expect(await bench.keeper.unlockForOperator() == nil)
            #expect(bench.keeper.timesWithdrawn == 1)
            _ = try await bench.perform(.clear)
            #expect(bench.keeper.timesWithdrawn > 1)
        }
    }

    @Test func refreshTriesAgainAfterAFinalRefusal() async throws {
        let endpoint = ScriptedTokenEndpoint([.error("invalid_client"), .error("invalid_client"), .token("one")])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            guard case .failure(let problem) = await bench.keeper.perform(.refresh) else {
                Issue.record("a refused refresh says so")
                return
            }
            #expect(problem.kind == .credentialMisconfigured)
            let outcome1 = try await bench.perform(.refresh).token.generation
            #expect(outcome1 == 1)
        }
    }

    @Test func refreshOfATokenThatNobodyCanRenewFailsAndKeepsIt() async throws {
        let now = ManualClock().now().wall
        let seed = TokenSet(access: Secret("seed"), obtainedAt: now, expiresAt: now + .seconds(3600))
        try await KeeperBench(grant: SampleGrant(isRenewable: false, initial: seed)).running { bench in
            _ = await bench.credential()
            guard case .failure = await bench.keeper.perform(.refresh) else {
                Issue.record("it cannot be renewed")
                return
            }
            #expect(bench.generation == 1)
            #expect(bench.status.state == .valid)
        }
    }

    @Test func clearForgetsHereAndInTheStoreAndTheNextRequestAsksAgain() async throws {
        try await KeeperBench(ScriptedTokenEndpoint(two)).running { bench in
            _ = await bench.credential()
            let status = try await bench.perform(.clear).token
            #expect(status.state == .empty)
            #expect(bench.generation == nil)
            #expect(bench.store[KeeperBench.key] == nil)
            #expect(bench.audit.last(.cleared)?.trigger == .operator)
            #expect(await bench.credential().generation == 2)
        }
    }

    @Test func aLockedCredentialIsNeitherUsedNorRenewed() async throws {
        try await KeeperBench(ScriptedTokenEndpoint(two)).running { bench in
            _ = await bench.credential()
            await bench.keeper.lockForOperator()
            #expect(bench.status.state == .locked)
            #expect(bench.problem?.kind == .locked)
            bench.clock.advance(by: .seconds(3300))
            #expect(await bench.credential().problem?.kind == .locked)
            #expect(bench.endpoint.requests.count == 1)
            await bench.keeper.unlockForOperator()
            let outcome3 = try await bench.untilGeneration(after: 1).generation
            #expect(outcome3 == 2)
            #expect(bench.audit.names.filter { $0 == .locked || $0 == .unlocked } == [.locked, .unlocked])
        }
    }

    @Test func anOrderThatDoesNotGetItsTurnIsDroppedInTime() async throws {
        try await KeeperBench(ScriptedTokenEndpoint(always: { _, _ in .held })).running { bench in
            async let waiting = bench.credential()
            try await bench.endpoint.untilHeld()
            async let outcome = bench.keeper.perform(.import(ImportedToken(access: Secret("imported"))))
            try await bench.clock.untilAsleep(moreThan: .seconds(49), atMost: .seconds(50))
            bench.clock.advance(by: .seconds(50))
            let problem = await outcome.problem
            #expect(problem?.detail.contains("did not start within") == true)
            bench.endpoint.release(.token("one", expiresIn: 3600))
            #expect(await waiting.generation == 1)
            _ = await bench.keeper.perform(.clear)
            #expect(bench.audit.count(of: .imported) == 0, "a dropped command is not carried out later")
        }
    }

    @Test func anOrderAfterShutdownIsRefused() async throws {
        let bench = KeeperBench()
        try await bench.running { _ in }
        guard case .failure(let problem) = await bench.keeper.perform(.refresh) else {
            Issue.record("nobody is there to carry it out")
            return
        }
        #expect(problem.kind == .draining)
    }

    // MARK: Without a gateway

    private static let noWrites: @Sendable (RecordingTokenStore.Operation) -> TokenStoreError? = { operation in
        switch operation {
        case .save, .remove: .unavailable("the program ended with 1")
        case .load, .lease, .release: nil
        }
    }

    @Test(arguments: [false, true])
    func anImportFailsIfTheStoreDoesNotTakeIt(rotates: Bool) async throws {
        let bench = KeeperBench(grant: SampleGrant(rotatesRefreshToken: rotates))
        bench.store.fail(Self.noWrites)
        let imported = ImportedToken(access: Secret("imported"), refreshToken: rotates ? Secret("renewal") : nil)
        let problem = await bench.keeper.performAlone(.import(imported)).problem
        #expect(problem?.kind == .storeUnavailable)
        #expect(bench.store[KeeperBench.key] == nil)
        // It is not spent for a successor that would be lost as well.
        #expect(bench.endpoint.requests.isEmpty)
    }

    @Test func anImportIsStoredAtTheSecondAttempt() async throws {
        let bench = KeeperBench()
        let attempts = Mutex(0)
        bench.store.fail { operation in
            guard case .save = operation else { return nil }
            return attempts.withLock { attempts in
                attempts += 1
                return attempts == 1 ? .unavailable("the program ended with 1") : nil
            }
        }
        _ = try await bench.keeper.performAlone(.import(ImportedToken(access: Secret("imported")))).get()
        #expect(bench.store[KeeperBench.key]?.token.access == Secret("imported"))
    }

    @Test func aRefusedImportSaysIfTheEarlierTokenIsNotPutBack() async throws {
        let now = ManualClock().now().wall
        let token = TokenSet(access: Secret("old"), refreshToken: Secret("first"), obtainedAt: now)
        let store = RecordingTokenStore([KeeperBench.key: StoredToken(generation: 1, token: token)])
        let endpoint = ScriptedTokenEndpoint { _, _ in .error("invalid_grant") }
        let bench = KeeperBench(endpoint, grant: SampleGrant(rotatesRefreshToken: true), store: store)
        store.fail { operation in
            guard case .save(let saved) = operation, saved.token.refreshToken == Secret("first") else { return nil }
            return .unavailable("the program ended with 1")
        }
        let imported = ImportedToken(access: Secret("imported"), refreshToken: Secret("second"))
        let problem = await bench.keeper.performAlone(.import(imported)).problem
        #expect(problem?.detail.contains("Nothing was imported") == true)
        #expect(problem?.detail.contains("The token store did not accept the change to box-service") == true)
    }

    /// With a token in the configuration, the store has to remember that it was revoked.
    @Test(arguments: [false, true])
    func aRevocationFailsIfTheStoreStillHoldsTheToken(isSeeded: Bool) async throws {
        let now = ManualClock().now().wall
        let token = TokenSet(access: Secret("old"), obtainedAt: now, expiresAt: now + .seconds(3600))
        let store = RecordingTokenStore([KeeperBench.key: StoredToken(generation: 1, token: token)])
        let grant = SampleGrant(initial: isSeeded ? token : nil, revokes: true)
        let bench = KeeperBench(ScriptedTokenEndpoint([.reply(TokenReply(status: 200))]), grant: grant, store: store)
        store.fail(Self.noWrites)
        let problem = await bench.keeper.performAlone(.revoke).problem
        #expect(problem != nil)
        #expect(bench.endpoint.requests.count == 1)
        #expect(bench.audit.count(of: .revoked) == 1)
    }

    @Test func aLoginFailsIfTheStoreDoesNotTakeIt() async throws {
        let bench = KeeperBench(grant: SampleGrant(rotatesRefreshToken: true))
        bench.store.fail(Self.noWrites)
        bench.keeper.runOffline()
        try await bench.running { bench in
            let token = TokenSet(access: Secret("a"), refreshToken: Secret("r"), obtainedAt: bench.clock.now().wall)
            #expect(await bench.keeper.logIn(with: token).problem?.kind == .storeUnavailable)
        }
        #expect(bench.store[KeeperBench.key] == nil)
    }
}
