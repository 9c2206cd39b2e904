import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Rotation", .timeLimit(.minutes(5)))
struct RotationTests {
    private static let now = ManualClock().now().wall
    private let key = KeeperBench.key

    private static func token(_ name: String, age: Duration = .zero) -> TokenSet {
        TokenSet(
            access: Secret("access-\(name)"),
            refreshToken: Secret("renewal-\(name)"),
            obtainedAt: now + (.zero - age),
            expiresAt: now + (.zero - age) + .seconds(3600)
        )
    }

    private static func dead(_ name: String) -> TokenSet { token(name, age: .seconds(4000)) }

    private func bench(
        _ answers: [ScriptedTokenEndpoint.Answer],
        stored: StoredToken? = StoredToken(generation: 1, token: dead("one")),
        seed: TokenSet? = nil
    ) -> KeeperBench {
        let store = RecordingTokenStore()
        store[key] = stored
        return KeeperBench(
            ScriptedTokenEndpoint(answers),
            grant: SampleGrant(rotatesRefreshToken: true, initial: seed),
            store: store
        )
    }

    /// The refresh tokens that were sent, in order.
    private func spent(_ bench: KeeperBench) -> [String] {
        bench.endpoint.requests.compactMap { request in
            guard case .form(let parameters) = request.body else { return nil }
            return parameters.first { $0.name == "refresh_token" }?.value.withValue { $0 }
        }
    }

    private let lost = ScriptedTokenEndpoint.Answer.failure(
        TokenTransportFailure(.responseTimeout, mayHaveBeenProcessed: true)
    )
    private let next = ScriptedTokenEndpoint.Answer.token("access-two", expiresIn: 3600, refresh: "renewal-two")

    @Test func theAttemptIsJournalledBeforeTheRefreshTokenIsSentAndStruckWithTheNewPair() async throws {
        try await bench([.held]).running { bench in
            async let waiting = bench.credential()
            try await bench.endpoint.untilHeld()
            let journalled = try #require(bench.store[key])
            #expect(journalled.attempt?.generation == 1)
            #expect(journalled.token == Self.dead("one"))
            bench.endpoint.release(next)
            #expect(await waiting.generation == 2)
            let committed = try #require(bench.store[key])
            #expect(committed.generation == 2)
            #expect(committed.token.refreshToken == Secret("renewal-two"))
            #expect(committed.previousRefreshToken == Secret("renewal-one"))
            #expect(committed.attempt == nil)
        }
    }

    @Test func anAnswerWithoutARefreshTokenKeepsTheOldOne() async throws {
        try await bench([.token("access-two", expiresIn: 3600)]).running { bench in
            #expect(await bench.credential().generation == 2)
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-one"))
            #expect(bench.store[key]?.previousRefreshToken == nil)
        }
    }

    @Test func withoutAJournalTheRefreshTokenIsNotSent() async throws {
        let bench = bench([next])
        bench.store.fail { if case .save = $0 { .unavailable("disk full") } else { nil } }
        try await bench.running { bench in
            #expect(await bench.credential().problem?.kind == .storeUnavailable)
            #expect(bench.endpoint.requests.isEmpty)
            bench.store.fail(nil)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 2)
        }
    }

    @Test func whatTheStoreDidNotTakeIsStoredWhenTheKeeperEnds() async throws {
        let bench = bench([next])
        bench.store.fail { if case .save(let token) = $0, token.generation == 2 { .unavailable("full") } else { nil } }
        try await bench.running { bench in
            #expect(await bench.credential().generation == 2)
            bench.store.fail(nil)
            bench.keeper.rejected(generation: 2, by: .sample)
            bench.keeper.retire()
            try await bench.store.untilSaved { $0.generation == 2 && $0.attempt == nil && $0.isRejected }
        }
    }

    @Test func aNewPairThatCannotBeStoredIsUsedAndTheJournalStays() async throws {
        let bench = bench([next])
        bench.store.fail { if case .save(let token) = $0, token.generation == 2 { .unavailable("full") } else { nil } }
        try await bench.running { bench in
            #expect(await bench.credential().generation == 2)
            #expect(bench.store[key]?.attempt != nil)
            bench.store.fail(nil)
            try await bench.clock.untilAsleep(atMost: .seconds(5))
            bench.clock.advance(by: .seconds(5))
            try await bench.store.untilSaved { $0.generation == 2 && $0.attempt == nil }
        }
    }

    @Test func aCallThatCannotHaveBeenProcessedLeavesNoJournal() async throws {
        let refusedConnection = ScriptedTokenEndpoint.Answer.failure(
            TokenTransportFailure(.connectionRefused, mayHaveBeenProcessed: false)
        )
        try await bench([refusedConnection]).running { bench in
            _ = await bench.credential()
            #expect(bench.store[key]?.attempt == nil)
            #expect(bench.status.state == .expired)
        }
    }

    @Test func aLostAnswerIsUncertainAndTheCallIsRepeatedOnlyAfterTheStoreWasRead() async throws {
        try await bench([lost, next]).running { bench in
            #expect(await bench.credential().problem?.kind == .tokenEndpointTimeout)
            try await bench.clock.untilStatus(bench, .rotationUncertain)
            #expect(bench.store[key]?.attempt != nil)
            bench.clock.advance(by: .seconds(60))
            let loads = bench.store.operations.count { $0 == .load }
            #expect(await bench.credential().generation == 2)
            #expect(bench.store.operations.count { $0 == .load } == loads + 1)
            #expect(spent(bench) == ["renewal-one", "renewal-one"])
            #expect(bench.store[key]?.attempt == nil)
        }
    }

    @Test func aLostAnswerThatASiblingKnowsIsAdoptedAndNothingIsSent() async throws {
        try await bench([lost]).running { bench in
            _ = await bench.credential()
            try await bench.clock.untilStatus(bench, .rotationUncertain)
            bench.store[key] = StoredToken(generation: 2, token: Self.token("sibling"))
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 2)
            #expect(spent(bench) == ["renewal-one"])
            #expect(bench.audit.count(of: .adopted) == 1)
        }
    }

    @Test func aRefusedRefreshTokenMakesTheStoreBeReadOnceMore() async throws {
        try await bench([.held]).running { bench in
            async let waiting = bench.credential()
            try await bench.endpoint.untilHeld()
            bench.store[key] = StoredToken(generation: 2, token: Self.token("sibling"))
            bench.endpoint.release(.error("invalid_grant"))
            let adopted = await waiting
            #expect(adopted.generation == 2)
            let injection = try adopted.get().injection
            #expect(injection == .authorization(scheme: "Bearer", Secret("access-sibling")))
            #expect(bench.audit.last(.adopted)?.generation == 2)
        }
    }

    @Test func aRefusedRefreshTokenNeedsALoginAndIsNotSentAgain() async throws {
        try await bench([.error("invalid_grant")]).running { bench in
            #expect(await bench.credential().problem?.kind == .reauthorizationRequired)
            bench.clock.advance(by: .seconds(86_400))
            #expect(await bench.credential().problem?.kind == .reauthorizationRequired)
            #expect(spent(bench) == ["renewal-one"])
            #expect(bench.audit.count(of: .loginRequired) == 1)
            #expect(bench.status.state == .loginRequired)
            #expect(bench.status.needsPerson)
            #expect(bench.store[key]?.attempt == nil)
        }
    }

    // MARK: A crash between sending and storing

    private func cutOff(_ token: TokenSet) -> StoredToken {
        StoredToken(
            generation: 5,
            token: token,
            previousRefreshToken: Secret("renewal-zero"),
            attempt: RotationAttempt(id: "a", generation: 5, startedAt: Self.now)
        )
    }

    @Test func afterACrashTheStoredRefreshTokenIsTriedAtOnceWhileALiveTokenIsUsed() async throws {
        try await bench([.held], stored: cutOff(Self.token("one"))).running { bench in
            try await bench.endpoint.untilHeld()
            #expect(bench.generation == 5)
            #expect(bench.audit.last(.loaded)?.detail["renewal"] == "cut_off")
            bench.endpoint.release(next)
            try await bench.audit.untilRecorded(.renewed)
            try await bench.clock.untilStatus(bench, .valid)
            #expect(bench.generation == 6)
            #expect(spent(bench) == ["renewal-one"])
        }
    }

    @Test func afterACrashThePreviousRefreshTokenIsTheSecondChance() async throws {
        try await bench([.error("invalid_grant"), next], stored: cutOff(Self.dead("one"))).running { bench in
            #expect(await bench.credential().generation == 6)
            #expect(spent(bench) == ["renewal-one", "renewal-zero"])
        }
    }

    @Test func afterACrashAndTwoRefusalsThePersonIsToldWhatHappened() async throws {
        let answers = [ScriptedTokenEndpoint.Answer.error("invalid_grant"), .error("invalid_grant")]
        try await bench(answers, stored: cutOff(Self.dead("one"))).running { bench in
            let problem = await bench.credential().problem
            #expect(problem?.kind == .reauthorizationRequired)
            #expect(problem?.detail.contains("was lost") == true)
            #expect(spent(bench) == ["renewal-one", "renewal-zero"])
            #expect(bench.store[key]?.attempt == nil)
        }
    }

    @Test func aStoreThatCannotBeReadKeepsTheConfiguredRefreshTokenUnspent() async throws {
        let bench = bench([next], stored: StoredToken(generation: 9, token: Self.token("nine")), seed: Self.dead("old"))
        bench.store.fail { $0 == .load ? .unavailable("locked") : nil }
        try await bench.running { bench in
            #expect(await bench.credential().problem?.kind == .storeUnavailable)
            #expect(bench.endpoint.requests.isEmpty)
            bench.store.fail(nil)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 9)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aDamagedRecordIsReportedAndNothingIsSpent() async throws {
        let bench = bench([next], seed: Self.dead("old"))
        bench.store.fail { $0 == .load ? .damaged("wrong key") : nil }
        try await bench.running { bench in
            let problem = await bench.credential().problem
            #expect(problem?.kind == .credentialMisconfigured)
            #expect(problem?.command == "authgateway token clear box-service")
            #expect(bench.endpoint.requests.isEmpty)
        }
    }
}

extension ManualClock {
    /// Waits until the keeper has settled in `state`.
    func untilStatus(_ bench: KeeperBench, _ state: TokenStatus.State) async throws {
        for _ in 0..<100_000 {
            if bench.status.state == state { return }
            await Task.yield()
        }
        throw ConformanceFailure("the status stayed \(bench.status.state), and not \(state)")
    }
}
