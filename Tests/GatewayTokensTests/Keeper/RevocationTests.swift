import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Revoking a token", .timeLimit(.minutes(5)))
struct RevocationTests {
    private let seed = TokenSet(
        access: Secret("seed"),
        refreshToken: Secret("renewal"),
        obtainedAt: ManualClock().now().wall
    )
    private let done = ScriptedTokenEndpoint.Answer.json("")
    private let down = ScriptedTokenEndpoint.Answer.failure(.init(.connectionRefused, mayHaveBeenProcessed: false))

    @Test func theAuthorityIsToldAndTheNextRequestGetsANewToken() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), done, .token("two", expiresIn: 3600)])
        try await KeeperBench(endpoint, grant: SampleGrant(revokes: true)).running { bench in
            _ = await bench.credential()
            let report = try await bench.perform(.revoke)
            #expect(report.token.state == .empty)
            #expect(report.message.contains("The next request gets a new one."))
            #expect(bench.endpoint.requests.last?.url.text == "https://authority.example/revoke")
            #expect(bench.store[KeeperBench.key] == nil)
            let event = bench.audit.last(.revoked)
            #expect(event?.trigger == .operator && event?.generation == 1 && event?.httpStatus == 200)
            #expect(event?.token == Secret("one"))
            #expect(await bench.credential().generation == 2)
        }
    }

    @Test func nothingStoredIsNothingToDo() async throws {
        try await KeeperBench(grant: SampleGrant(revokes: true)).running { bench in
            let nothing = try await bench.perform(.revoke)
            #expect(nothing.message.contains("nothing to revoke"))
            #expect(bench.endpoint.requests.isEmpty)
            #expect(bench.audit.count(of: .revoked) == 0)
        }
    }

    @Test func aTokenThatNobodyRenewsAsksForAPersonAndDoesNotComeBack() async throws {
        let store = RecordingTokenStore()
        let grant = SampleGrant(isRenewable: false, initial: seed, revokes: true)
        try await KeeperBench(ScriptedTokenEndpoint([done]), grant: grant, store: store).running { bench in
            _ = await bench.credential()
            let revoked = try await bench.perform(.revoke)
            #expect(revoked.token.needsPerson)
            #expect(await bench.credential().problem?.kind == .staticTokenExpired)
            // Twice is once.
            let again = try await bench.perform(.revoke)
            #expect(again.message.contains("nothing to revoke"))
            #expect(bench.endpoint.requests.count == 1)
        }
        #expect(store[KeeperBench.key]?.token.access == Secret(""), "no secret is left")
        try await KeeperBench(grant: grant, store: store).running { bench in
            #expect(await bench.credential().problem?.kind == .staticTokenExpired)
            #expect(bench.status.needsPerson)
            // Clearing forgets that it was revoked, too.
            _ = try await bench.perform(.clear)
            #expect(await bench.credential().generation != nil)
        }
    }

    @Test func aLoginIsNeededAfterwards() async throws {
        let grant = SampleGrant(rotatesRefreshToken: true, initial: seed, revokes: true)
        try await KeeperBench(ScriptedTokenEndpoint([done]), grant: grant).running { bench in
            _ = await bench.credential()
            let revoked = try await bench.perform(.revoke)
            #expect(revoked.token.state == .loginRequired)
            #expect(await bench.credential().problem?.kind == .loginRequired)
            #expect(bench.endpoint.requests.count == 1)
        }
    }

    @Test func anAuthorityThatIsDownLeavesTheTokenInUse() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), down])
        try await KeeperBench(endpoint, grant: SampleGrant(revokes: true)).running { bench in
            _ = await bench.credential()
            let problem = await bench.keeper.perform(.revoke).problem
            #expect(problem?.kind == .tokenEndpointUnreachable)
            #expect(problem?.detail.contains("kept and still used") == true)
            #expect(problem?.hasTakenAway == false)
            #expect(bench.audit.last(.revocationFailed)?.errorCode == "connection_refused")
            #expect(bench.generation == 1)
        }
    }

    @Test func aSessionIsForgottenWhateverTheAuthoritySays() async throws {
        let grant = SampleGrant(rotatesRefreshToken: true, initial: seed, revokes: true, keepsTokenUntilRevoked: false)
        try await KeeperBench(ScriptedTokenEndpoint([down]), grant: grant).running { bench in
            _ = await bench.credential()
            let problem = await bench.keeper.perform(.revoke).problem
            #expect(problem?.detail.contains("forgotten here anyway") == true)
            #expect(problem?.hasTakenAway == true)
            #expect(bench.audit.names.suffix(2) == [.revocationFailed, .cleared])
            #expect(bench.generation == nil)
            #expect(bench.status.state == .loginRequired)
        }
    }

    @Test func requestsWaitForTheEndOfIt() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .held, .token("two", expiresIn: 3600)])
        try await KeeperBench(endpoint, grant: SampleGrant(revokes: true)).running { bench in
            _ = await bench.credential()
            async let outcome = bench.keeper.perform(.revoke)
            try await bench.endpoint.untilHeld()
            async let waiting = bench.credential()
            #expect(bench.generation == nil, "a token that is being revoked is not handed out")
            bench.endpoint.release(.json(""))
            #expect(await waiting.generation == 2)
            _ = try await outcome.get()
        }
    }

    @Test func requestsThatWaitedGetTheTokenThatWasKept() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .held])
        try await KeeperBench(endpoint, grant: SampleGrant(revokes: true)).running { bench in
            _ = await bench.credential()
            async let outcome = bench.keeper.perform(.revoke)
            try await bench.endpoint.untilHeld()
            let answer = await withCheckedContinuation { continuation in
                _ = bench.keeper.wait(for: .sample) { continuation.resume(returning: $0) }
                bench.endpoint.release(.json("", status: 503))
            }
            #expect(answer.generation == 1)
            #expect(await outcome.problem?.kind == .tokenTemporarilyUnavailable)
            #expect(bench.endpoint.requests.count == 2)
        }
    }

    @Test func stepsAreTakenOneAfterTheOther() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), done, done, .json("", status: 403)])
        try await KeeperBench(endpoint, grant: StepwiseGrant(steps: 3)).running { bench in
            _ = await bench.credential()
            #expect(await bench.keeper.perform(.revoke).problem?.kind == .credentialMisconfigured)
            #expect(bench.endpoint.requests.count == 4)
            #expect(bench.audit.last(.revocationFailed)?.httpStatus == 403)
            #expect(bench.generation == 1, "one step of three failed")
        }
    }

    @Test func aRevocationThatNeverEndsIsGivenUp() async throws {
        let answers = Array(repeating: done, count: GrantAttempt.maximumSteps)
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600)] + answers)
        try await KeeperBench(endpoint, grant: StepwiseGrant(steps: .max)).running { bench in
            _ = await bench.credential()
            #expect(await bench.keeper.perform(.revoke).problem != nil)
            #expect(bench.endpoint.requests.count == 1 + GrantAttempt.maximumSteps)
            #expect(bench.generation == 1)
        }
    }

    @Test(arguments: [
        (200, "", true), (204, "", true), (400, #"{"error":"invalid_token"}"#, true),
        (400, #"{"error":"invalid_client"}"#, false), (302, "", false), (401, "", false), (503, "", false),
    ])
    func whatAnAnswerMeans(_ status: Int, _ body: String, isRevoked: Bool) async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .json(body, status: status)])
        try await KeeperBench(endpoint, grant: SampleGrant(revokes: true)).running { bench in
            _ = await bench.credential()
            #expect((await bench.keeper.perform(.revoke).problem == nil) == isRevoked)
            #expect(bench.audit.count(of: .revoked) == (isRevoked ? 1 : 0))
        }
    }

    @Test func withoutAnEndpointItSaysSoAndKeepsTheToken() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([.token("one", expiresIn: 3600)])).running { bench in
            _ = await bench.credential()
            let problem = await bench.keeper.perform(.revoke).problem
            #expect(problem?.detail.contains("has no revocation endpoint") == true)
            #expect(problem?.command == "authgateway token clear box-service")
            #expect(bench.generation == 1)
        }
    }

    // MARK: A refresh token that has not worked yet

    private func benchHoldingTwo(
        _ answers: [ScriptedTokenEndpoint.Answer],
        keepsTokenUntilRevoked: Bool = true
    ) -> KeeperBench {
        let store = RecordingTokenStore()
        let now = ManualClock().now().wall
        var token = TokenSet(
            access: Secret("access"),
            refreshToken: Secret("new"),
            obtainedAt: now,
            expiresAt: now + .seconds(3600)
        )
        token.refreshTokenObtainedAt = now
        var record = StoredToken(generation: 1, token: token, previousRefreshToken: Secret("proven"))
        record.isUnproven = true
        store[KeeperBench.key] = record
        let grant = RefreshRevokingGrant(keepsTokenUntilRevoked: keepsTokenUntilRevoked)
        return KeeperBench(ScriptedTokenEndpoint(answers), grant: grant, store: store)
    }

    private func revoked(_ bench: KeeperBench) -> [String] {
        bench.endpoint.requests.compactMap { request in
            guard case .form(let parameters) = request.body else { return nil }
            return parameters.first { $0.name == "token" }?.value.withValue { $0 }
        }
    }

    @Test func theProvenRefreshTokenIsRevokedBeforeTheNewOne() async throws {
        try await benchHoldingTwo([done, done]).running { bench in
            _ = try await bench.perform(.revoke)
            #expect(revoked(bench) == ["proven", "new"])
            #expect(bench.store[KeeperBench.key] == nil)
            #expect(bench.audit.count(of: .revoked) == 1)
        }
    }

    @Test(arguments: [false, true])
    func bothMustBeRevoked(isFirstRefused: Bool) async throws {
        let refusal = ScriptedTokenEndpoint.Answer.json("", status: 403)
        try await benchHoldingTwo(isFirstRefused ? [refusal] : [done, refusal]).running { bench in
            #expect(await bench.keeper.perform(.revoke).problem?.kind == .credentialMisconfigured)
            #expect(revoked(bench) == (isFirstRefused ? ["proven"] : ["proven", "new"]))
            #expect(bench.store[KeeperBench.key]?.previousRefreshToken == Secret("proven"))
            #expect(bench.audit.count(of: .revoked) == 0 && bench.audit.last(.revocationFailed)?.httpStatus == 403)
        }
    }

    @Test func bothAreTriedBeforeASessionIsForgotten() async throws {
        try await benchHoldingTwo([down, done], keepsTokenUntilRevoked: false).running { bench in
            let problem = await bench.keeper.perform(.revoke).problem
            #expect(problem?.kind == .tokenEndpointUnreachable && problem?.hasTakenAway == true)
            #expect(revoked(bench) == ["proven", "new"])
        }
    }

    @Test func aLockedCredentialCanBeRevokedAndStaysLocked() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), done])
        try await KeeperBench(endpoint, grant: SampleGrant(revokes: true)).running { bench in
            _ = await bench.credential()
            await bench.keeper.lockForOperator()
            let report = try await bench.perform(.revoke)
            #expect(report.token.state == .locked)
            #expect(report.message.contains("stays locked"))
            #expect(bench.store[KeeperBench.key] == nil)
        }
    }
}

/// Revokes the refresh token (RFC 7009 section 2.1).
private struct RefreshRevokingGrant: TokenGrant {
    private let grant: SampleGrant

    init(keepsTokenUntilRevoked: Bool) {
        grant = SampleGrant(
            rotatesRefreshToken: true,
            revokes: true,
            keepsTokenUntilRevoked: keepsTokenUntilRevoked
        )
    }

    var identity: GrantIdentity { grant.identity }
    var isRenewable: Bool { true }
    var rotatesRefreshToken: Bool { true }
    var keepsTokenUntilRevoked: Bool { grant.keepsTokenUntilRevoked }
    func seed(at now: Moment) -> TokenSet? { nil }
    func firstStep(of attempt: GrantAttempt) -> GrantStep { grant.firstStep(of: attempt) }
    func injection(of token: TokenSet) -> Injection { grant.injection(of: token) }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        grant.interpret(reply, in: &attempt)
    }

    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        guard case .request(var request) = grant.revocation(in: attempt), let token = attempt.held?.refreshToken else {
            return .impossible("There is no refresh token.")
        }
        request.body = .form([.init("token", token)])
        return .request(request)
    }
}

/// Revokes in several requests, all of them alike.
private struct StepwiseGrant: TokenGrant {
    private let grant = SampleGrant(revokes: true)
    private let steps: Int

    init(steps: Int) { self.steps = steps }

    var identity: GrantIdentity { grant.identity }
    var isRenewable: Bool { true }
    var rotatesRefreshToken: Bool { false }
    func seed(at now: Moment) -> TokenSet? { nil }
    func firstStep(of attempt: GrantAttempt) -> GrantStep { grant.firstStep(of: attempt) }
    func injection(of token: TokenSet) -> Injection { grant.injection(of: token) }
    func revocation(in attempt: GrantAttempt) -> RevocationStep { grant.revocation(in: attempt) }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        grant.interpret(reply, in: &attempt)
    }

    func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer {
        let answer = RevocationAnswer(reply)
        guard answer == .revoked, attempt.answers < steps, case .request(let next) = revocation(in: attempt) else {
            return answer
        }
        return .next(next)
    }
}
