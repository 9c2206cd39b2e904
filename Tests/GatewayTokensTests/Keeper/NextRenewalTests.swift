import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayTokens

@Suite("The next refresh token of an attempt that fails", .timeLimit(.minutes(5)))
struct NextRenewalTests {
    private static let now = ManualClock().now().wall
    private let key = KeeperBench.key

    private static let dead = TokenSet(
        access: Secret("access-one"),
        refreshToken: Secret("renewal-one"),
        obtainedAt: now + .seconds(-4000),
        expiresAt: now + .seconds(-400)
    )

    private func bench(
        _ answers: [ScriptedTokenEndpoint.Answer],
        steps: Int = 2,
        spendingIn: Set<Int> = [0]
    ) -> KeeperBench {
        let store = RecordingTokenStore()
        store[key] = StoredToken(generation: 1, token: Self.dead)
        let grant = StepwiseRenewal(steps: steps, spendingIn: spendingIn)
        return KeeperBench(ScriptedTokenEndpoint(answers), grant: grant, store: store)
    }

    /// The refresh tokens that were sent, in order.
    private func spent(_ bench: KeeperBench) -> [String] {
        bench.endpoint.requests.compactMap { request in
            guard case .form(let parameters) = request.body else { return nil }
            return parameters.first { $0.name == "refresh_token" }?.value.withValue { $0 }
        }
    }

    private let two = ScriptedTokenEndpoint.Answer.json(#"{"refresh_token":"renewal-two"}"#)
    private let busy = ScriptedTokenEndpoint.Answer.json("", status: 503)
    private let lost = ScriptedTokenEndpoint.Answer.failure(
        TokenTransportFailure(.responseTimeout, mayHaveBeenProcessed: true)
    )

    @Test func itIsStoredAndSentNextWhenALaterStepFails() async throws {
        let three = ScriptedTokenEndpoint.Answer.json(#"{"refresh_token":"renewal-three"}"#)
        try await bench([two, busy, three, .token("access-three", expiresIn: 3600)]).running { bench in
            #expect(await bench.credential().problem?.kind == .tokenTemporarilyUnavailable)
            let kept = try #require(bench.store[key])
            #expect(kept.token.refreshToken == Secret("renewal-two"))
            #expect(kept.previousRefreshToken == Secret("renewal-one"))
            #expect(kept.attempt == nil, "nothing is uncertain about it")
            #expect(bench.status.state == .expired)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 2)
            #expect(spent(bench) == ["renewal-one", "renewal-two"])
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-three"))
        }
    }

    @Test func itIsStoredAndSentNextWhenTheAccessTokenBesideItIsOfNoUse() async throws {
        try await bench([two, .token("access-three", expiresIn: 3600)], steps: 1).running { bench in
            #expect(await bench.credential().problem?.kind == .tokenTemporarilyUnavailable)
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-two"))
            #expect(bench.store[key]?.previousRefreshToken == Secret("renewal-one"))
            #expect(bench.store[key]?.attempt != nil, "a later start knows that it may be none")
            try await bench.clock.untilStatus(bench, .rotationUncertain)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 2)
            #expect(spent(bench) == ["renewal-one", "renewal-two"])
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-two"))
            #expect(bench.store[key]?.previousRefreshToken == nil, "it has worked")
            #expect(bench.store[key]?.attempt == nil)
            try await bench.clock.untilStatus(bench, .valid)
        }
    }

    @Test func theOneBeforeIsSentWhenItIsRefused() async throws {
        let answers = [two, .error("invalid_grant"), .token("access-three", expiresIn: 3600)]
        try await bench(answers, steps: 1).running { bench in
            _ = await bench.credential()
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 2)
            #expect(spent(bench) == ["renewal-one", "renewal-two", "renewal-one"])
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-one"))
            #expect(bench.store[key]?.previousRefreshToken == nil)
        }
    }

    @Test func theLastOneThatHasWorkedOutlivesARowOfThem() async throws {
        let texts = ["is invalid (id 1)", "is invalid (id 2)"]
        let odd = texts.map { ScriptedTokenEndpoint.Answer.json(#"{"refresh_token":"\#($0)"}"#) }
        let answers = odd + [.error("invalid_grant"), .token("access-three", expiresIn: 3600)]
        try await bench(answers, steps: 1).running { bench in
            for text in texts {
                _ = await bench.credential()
                let kept = try #require(bench.store[key])
                #expect(kept.token.refreshToken == Secret(text) && kept.isUnproven)
                #expect(kept.previousRefreshToken == Secret("renewal-one"))
                bench.clock.advance(by: .seconds(60))
            }
            #expect(await bench.credential().generation == 2)
            #expect(spent(bench) == ["renewal-one"] + texts + ["renewal-one"])
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-one"))
            #expect(bench.store[key]?.isUnproven == false)
        }
    }

    /// What an earlier rotation has spent is not what the one that was sent gives way to.
    @Test func theOneThatCameWithATokenIsKeptAfterALostAnswer() async throws {
        let store = RecordingTokenStore()
        store[key] = StoredToken(
            generation: 1,
            token: Self.dead,
            previousRefreshToken: Secret("renewal-zero"),
            attempt: RotationAttempt(id: "a", generation: 1, startedAt: Self.now)
        )
        let grant = StepwiseRenewal(steps: 1, spendingIn: [0])
        try await KeeperBench(ScriptedTokenEndpoint([two]), grant: grant, store: store).running { bench in
            #expect(await bench.credential().problem?.kind == .tokenTemporarilyUnavailable)
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-two"))
            #expect(bench.store[key]?.previousRefreshToken == Secret("renewal-one"))
        }
    }

    @Test(arguments: [
        ScriptedTokenEndpoint.Answer.json("", status: 401), .json("", status: 403), .error("invalid_request"),
        .json(#"{"error":"unauthorized_client"}"#, status: 403),
    ])
    func theOneBeforeIsSentAfterAnyRefusal(_ refusal: ScriptedTokenEndpoint.Answer) async throws {
        try await bench([two, refusal, .token("access-three", expiresIn: 3600)], steps: 1).running { bench in
            _ = await bench.credential()
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 2)
            #expect(spent(bench) == ["renewal-one", "renewal-two", "renewal-one"])
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-one"))
        }
    }

    @Test func aTokenBesideOneThatCannotBeUsedIsUsedAndALoginIsAhead() async throws {
        let store = RecordingTokenStore()
        store[key] = StoredToken(generation: 1, token: Self.dead)
        let endpoint = ScriptedTokenEndpoint([.token("access-two", expiresIn: 3600)])
        try await KeeperBench(endpoint, grant: UnusableNext(), store: store).running { bench in
            #expect(await bench.credential().generation == 2)
            try await bench.clock.untilStatus(bench, .rotationUncertain)
            let kept = try #require(bench.store[key])
            #expect(kept.token.access == Secret("access-two") && kept.token.refreshToken == Secret("renewal-one"))
            #expect(kept.attempt != nil, "a later start knows it, too")
            #expect(await bench.credential().generation == 2)
        }
    }

    /// Also what an earlier version of the program does with the record: the journal is its own.
    @Test func aLaterStartSendsItFirstAndTheOneBeforeSecond() async throws {
        let first = bench([two], steps: 1)
        try await first.running { bench in
            _ = await bench.credential()
            try await bench.clock.untilStatus(bench, .rotationUncertain)
        }
        let second = KeeperBench(
            ScriptedTokenEndpoint([.error("invalid_grant"), .token("access-three", expiresIn: 3600)]),
            grant: StepwiseRenewal(steps: 1, spendingIn: [0]),
            store: first.store
        )
        try await second.running { bench in
            #expect(await bench.credential().generation == 2)
            #expect(spent(bench) == ["renewal-two", "renewal-one"])
        }
    }

    @Test func thePersonIsToldWhenBothAreRefused() async throws {
        let answers = [two, .error("invalid_grant"), .error("invalid_grant")]
        try await bench(answers, steps: 1).running { bench in
            _ = await bench.credential()
            bench.clock.advance(by: .seconds(60))
            let problem = await bench.credential().problem
            #expect(problem?.kind == .reauthorizationRequired)
            #expect(problem?.detail.contains("could not be used") == true)
            #expect(spent(bench) == ["renewal-one", "renewal-two", "renewal-one"])
        }
    }

    @Test func itIsInDoubtWhenALaterStepThatSendsItIsLost() async throws {
        try await bench([two, lost], spendingIn: [0, 1]).running { bench in
            _ = await bench.credential()
            try await bench.clock.untilStatus(bench, .rotationUncertain)
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-two"))
            #expect(bench.store[key]?.attempt != nil)
        }
    }

    @Test func theOneAtHandIsInDoubtOnceAStepWasAnswered() async throws {
        try await bench([.json("{}"), busy]).running { bench in
            _ = await bench.credential()
            try await bench.clock.untilStatus(bench, .rotationUncertain)
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-one"))
            #expect(bench.store[key]?.attempt != nil)
        }
    }

    @Test(arguments: [false, true])
    func itIsNotInDoubtForStepsThatDoNotSendIt(_ isLost: Bool) async throws {
        let answers = [two, .json("{}"), isLost ? lost : busy, .error("invalid_grant")]
        try await bench(answers, steps: 3).running { bench in
            _ = await bench.credential()
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-two"))
            #expect(bench.store[key]?.attempt == nil)
            #expect(bench.status.state == .expired)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().problem?.kind == .reauthorizationRequired)
            #expect(spent(bench) == ["renewal-one", "renewal-two"], "the spent one is not tried again")
        }
    }

    @Test func theOneAtHandIsNotInDoubtForAStepBeforeTheOneThatSendsIt() async throws {
        try await bench([.json("{}"), busy], spendingIn: [1]).running { bench in
            _ = await bench.credential()
            #expect(bench.store[key]?.attempt == nil)
            #expect(bench.status.state == .expired)
        }
    }

    @Test func itStaysInDoubtWhenTheAuthorityIsBusyTheNextTime() async throws {
        try await bench([lost, busy], steps: 1).running { bench in
            _ = await bench.credential()
            try await bench.clock.untilStatus(bench, .rotationUncertain)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().problem != nil)
            #expect(bench.endpoint.requests.count == 2)
            #expect(bench.store[key]?.attempt != nil)
            #expect(bench.status.state == .rotationUncertain)
        }
    }

    @Test func theOneAtHandIsNotInDoubtWhenTheFirstStepIsRefusedForNow() async throws {
        try await bench([busy]).running { bench in
            _ = await bench.credential()
            #expect(bench.store[key]?.attempt == nil)
            #expect(bench.status.state == .expired)
        }
    }

    @Test func whatTheStoreHoldsDoesNotReplaceTheOneThatItDidNotTake() async throws {
        let bench = bench([two, .error("invalid_grant")])
        bench.store.fail {
            if case .save(let token) = $0, token.token.refreshToken == Secret("renewal-two") {
                .unavailable("full")
            } else {
                nil
            }
        }
        try await bench.running { bench in
            #expect(await bench.credential().problem?.kind == .reauthorizationRequired)
            #expect(spent(bench) == ["renewal-one"])
            #expect(bench.audit.count(of: .adopted) == 0)
        }
    }

    @Test func aPairThatIsOverByItsStatedEndIsKeptAndUsed() async throws {
        let store = RecordingTokenStore()
        store[key] = StoredToken(generation: 1, token: Self.dead)
        let endpoint = ScriptedTokenEndpoint([.token("access-two", refresh: "renewal-two")])
        try await KeeperBench(endpoint, grant: FastClock(), store: store).running { bench in
            #expect(await bench.credential().generation == 2)
            let kept = try #require(bench.store[key])
            #expect(kept.token.refreshToken == Secret("renewal-two"))
            #expect(kept.token.expiresAt == nil, "used until it is rejected")
            #expect(kept.attempt == nil)
        }
    }

    @Test func theConfiguredLifetimeCountsForAPairThatIsOverByItsStatedEnd() async throws {
        let store = RecordingTokenStore()
        store[key] = StoredToken(generation: 1, token: Self.dead)
        let endpoint = ScriptedTokenEndpoint([.token("access-two", refresh: "renewal-two")])
        let grant = FastClock(lifetime: .seconds(600))
        try await KeeperBench(endpoint, grant: grant, store: store).running { bench in
            #expect(await bench.credential().generation == 2)
            #expect(bench.store[key]?.token.lifetime == .seconds(600))
        }
    }

    @Test(arguments: [false, true])
    func aTokenOfTheConfigurationHasNotWorked(_ isSeed: Bool) async throws {
        let store = RecordingTokenStore()
        store[key] = StoredToken(generation: 1, token: Self.dead)
        let found = FoundHasWorked()
        let sample = SampleGrant(rotatesRefreshToken: true, initial: isSeed ? Self.dead : nil)
        let grant = Observed(grant: sample, found: found)
        let answers = ["access-two", "access-three"].map { ScriptedTokenEndpoint.Answer.token($0, expiresIn: 60) }
        let endpoint = ScriptedTokenEndpoint(answers)
        try await KeeperBench(endpoint, grant: grant, store: store).running { bench in
            #expect(await bench.credential().generation == 2)
            bench.clock.advance(by: .seconds(600))
            #expect(await bench.credential().generation == 3)
            #expect(found.values.withLock { $0 } == [!isSeed, true])
        }
    }
}

/// A refresh whose first step spends the refresh token, and whose last brings the access token.
private struct StepwiseRenewal: TokenGrant {
    private let grant = SampleGrant(rotatesRefreshToken: true)
    private let steps: Int
    private let spendingIn: Set<Int>

    init(steps: Int, spendingIn: Set<Int>) {
        self.steps = steps
        self.spendingIn = spendingIn
    }

    func sendsRefreshToken(in attempt: GrantAttempt) -> Bool { spendingIn.contains(attempt.answers) }

    var identity: GrantIdentity { grant.identity }
    var isRenewable: Bool { true }
    var rotatesRefreshToken: Bool { true }
    func seed(at now: Moment) -> TokenSet? { nil }
    func firstStep(of attempt: GrantAttempt) -> GrantStep { grant.firstStep(of: attempt) }
    func injection(of token: TokenSet) -> Injection { grant.injection(of: token) }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        if let refreshToken = JSONValue(reply.body)?["refresh_token"]?.string {
            attempt.nextRefreshToken = Secret(refreshToken)
        }
        if reply.status == 200, attempt.answers < steps, let url = try? AuthorityURL("https://authority.example/access")
        {
            return .next(TokenRequest(url: url))
        }
        let answer = grant.interpret(reply, in: &attempt)
        guard case .token(var token) = answer else { return answer }
        token.refreshToken = attempt.nextRefreshToken ?? token.refreshToken
        return .token(token)
    }
}

/// An authority that states an end which is over by the clock here.
private struct FastClock: TokenGrant {
    private let grant = SampleGrant(rotatesRefreshToken: true)
    var lifetime: Duration?

    var identity: GrantIdentity { grant.identity }
    var isRenewable: Bool { true }
    var rotatesRefreshToken: Bool { true }
    func seed(at now: Moment) -> TokenSet? { nil }
    func firstStep(of attempt: GrantAttempt) -> GrantStep { grant.firstStep(of: attempt) }
    func injection(of token: TokenSet) -> Injection { grant.injection(of: token) }

    func completing(_ token: TokenSet) -> TokenSet {
        var token = token
        token.expiresAt = token.expiresAt ?? lifetime.map { token.obtainedAt + $0 }
        return token
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let answer = grant.interpret(reply, in: &attempt)
        guard case .token(var token) = answer else { return answer }
        token.expiresAt = attempt.now.wall + .seconds(-7200)
        return .token(token)
    }
}

/// An authority whose next refresh token no request could carry.
private struct UnusableNext: TokenGrant {
    private let grant = SampleGrant(rotatesRefreshToken: true)

    var identity: GrantIdentity { grant.identity }
    var isRenewable: Bool { true }
    var rotatesRefreshToken: Bool { true }
    func seed(at now: Moment) -> TokenSet? { nil }
    func firstStep(of attempt: GrantAttempt) -> GrantStep { grant.firstStep(of: attempt) }
    func injection(of token: TokenSet) -> Injection { grant.injection(of: token) }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        attempt.isRefreshTokenSpent = true
        return grant.interpret(reply, in: &attempt)
    }
}

private final class FoundHasWorked: Sendable {
    let values = Mutex<[Bool]>([])
}

/// Remembers what each attempt was told of the token at hand.
private struct Observed: TokenGrant {
    let grant: SampleGrant
    let found: FoundHasWorked

    var identity: GrantIdentity { grant.identity }
    var isRenewable: Bool { true }
    var rotatesRefreshToken: Bool { true }
    func seed(at now: Moment) -> TokenSet? { grant.seed(at: now) }
    func firstStep(of attempt: GrantAttempt) -> GrantStep { grant.firstStep(of: attempt) }
    func injection(of token: TokenSet) -> Injection { grant.injection(of: token) }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        found.values.withLock { $0.append(attempt.hasWorked) }
        return grant.interpret(reply, in: &attempt)
    }
}
