import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Refreshes that another way replaces", .timeLimit(.minutes(5)))
struct AcquireAnewTests {
    private static let now = ManualClock().now().wall
    private let key = KeeperBench.key

    /// - Parameter isCutOff: The gateway died while the refresh token was under way.
    private func bench(_ answers: [ScriptedTokenEndpoint.Answer], isCutOff: Bool = false) -> KeeperBench {
        let token = TokenSet(
            access: Secret("access-one"),
            refreshToken: Secret("renewal-one"),
            obtainedAt: Self.now + .seconds(-4000),
            expiresAt: Self.now + .seconds(-400)
        )
        let store = RecordingTokenStore()
        let attempt = RotationAttempt(id: "1", generation: 1, startedAt: Self.now)
        store[key] = StoredToken(generation: 1, token: token, attempt: isCutOff ? attempt : nil)
        return KeeperBench(ScriptedTokenEndpoint(answers), grant: PasswordLikeGrant(), store: store)
    }

    private func asked(_ bench: KeeperBench) -> [String] {
        bench.endpoint.requests.compactMap { request in
            guard case .form(let parameters) = request.body else { return nil }
            return parameters.first { $0.name == "grant_type" }?.value.withValue { $0 }
        }
    }

    private static func error(_ code: String) -> ScriptedTokenEndpoint.Answer {
        .json(#"{"error":"\#(code)"}"#, status: 400)
    }

    private let next = ScriptedTokenEndpoint.Answer.token("access-two", expiresIn: 3600, refresh: "renewal-two")

    @Test func aRefusedRefreshTokenIsFollowedByThePasswordWithinTheAttempt() async throws {
        try await bench([Self.error("token_expired"), next]).running { bench in
            #expect(await bench.credential().generation == 2)
            #expect(asked(bench) == ["refresh_token", "password"])
        }
    }

    @Test func aRefusedRefreshTokenIsNotSentAgain() async throws {
        try await bench([Self.error("invalid_grant"), .json("", status: 503), next]).running { bench in
            #expect(await bench.credential().problem?.kind == .tokenTemporarilyUnavailable)
            #expect(bench.store[key]?.token.refreshToken == nil)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 2)
            #expect(asked(bench) == ["refresh_token", "password", "password"])
        }
    }

    @Test func theAttemptIsJournalledAndTheJournalIsStruck() async throws {
        try await bench([.held]).running { bench in
            async let waiting = bench.credential()
            try await bench.endpoint.untilHeld()
            #expect(bench.store[key]?.attempt?.generation == 1)
            bench.endpoint.release(.json("", status: 503))
            #expect(await waiting.problem?.kind == .tokenTemporarilyUnavailable)
            #expect(bench.store[key]?.attempt == nil)
        }
    }

    @Test func afterAKillInTheMiddleOfARefreshThePasswordIsSentAtOnce() async throws {
        try await bench([next], isCutOff: true).running { bench in
            #expect(await bench.credential().generation == 2)
            #expect(asked(bench) == ["password"])
            #expect(bench.status.state == .valid)
            #expect(bench.store[key]?.attempt == nil)
        }
    }

    @Test func afterALostAnswerThePasswordIsSent() async throws {
        let lost = ScriptedTokenEndpoint.Answer.failure(
            TokenTransportFailure(.responseTimeout, mayHaveBeenProcessed: true)
        )
        try await bench([lost, next]).running { bench in
            #expect(await bench.credential().problem?.kind == .tokenEndpointTimeout)
            #expect(bench.store[key]?.attempt != nil, "a start would find it")
            #expect(bench.status.state != .rotationUncertain)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 2)
            #expect(asked(bench) == ["refresh_token", "password"])
        }
    }

    @Test func aCutOffRefreshAsksForNobody() async throws {
        try await bench([.json("", status: 503), next], isCutOff: true).running { bench in
            try await bench.untilFailing()
            #expect(bench.status.state != .rotationUncertain)
            #expect(!bench.status.needsPerson)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 2)
            #expect(asked(bench) == ["password", "password"])
        }
    }

    @Test func suspectAnswersKeepTheRefreshTokenAndTheThirdBringsThePassword() async throws {
        let blocked = ScriptedTokenEndpoint.Answer.json("<html>", status: 403)
        try await bench([blocked, blocked, blocked, next]).running { bench in
            #expect(await bench.credential().problem?.kind == .tokenTemporarilyUnavailable)
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-one"))
            for (count, pause) in [(2, 5), (4, 25)] {
                try await bench.clock.untilAsleep(moreThan: .seconds(pause - 1), atMost: .seconds(pause))
                bench.clock.advance(by: .seconds(pause))
                try await bench.endpoint.untilAsked(count)
            }
            try await bench.audit.untilRecorded(.renewed)
            #expect(await bench.credential().generation == 2)
            #expect(asked(bench) == ["refresh_token", "refresh_token", "refresh_token", "password"])
        }
    }

    @Test func aPersonIsNotReplacedByAPassword() async throws {
        try await bench([Self.error("mfa_required")]).running { bench in
            #expect(await bench.credential().problem?.kind == .reauthorizationRequired)
            #expect(asked(bench) == ["refresh_token"])
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-one"))
        }
    }
}

@Suite("Retries of what a person has to fix", .timeLimit(.minutes(5)))
struct RetryTests {
    private let wrong = ScriptedTokenEndpoint.Answer.json(#"{"error":"invalid_client"}"#, status: 401)
    private let good = ScriptedTokenEndpoint.Answer.token("access-one", expiresIn: 3600)

    @Test func theConfigurationIsTriedAgainByItself() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([wrong, wrong, good])).running { bench in
            let problem = try #require(await bench.credential().problem)
            #expect(problem.kind == .credentialMisconfigured)
            #expect(problem.command == "authgateway token refresh box-service")
            #expect(problem.detail.contains("needs a restart"))
            #expect(bench.status.state == .failed)
            for (count, pause) in [(2, 300), (3, 900)] {
                try await bench.clock.untilAsleep(moreThan: .seconds(pause - 1), atMost: .seconds(pause))
                bench.clock.advance(by: .seconds(pause))
                try await bench.endpoint.untilAsked(count)
            }
            try await bench.audit.untilRecorded(.acquired)
            #expect(bench.audit.last(.acquired)?.trigger == .retry)
            #expect(await bench.credential().generation == 1)
        }
    }

    @Test func anOperatorIsServedAtOnce() async throws {
        try await KeeperBench(ScriptedTokenEndpoint([wrong, good])).running { bench in
            _ = await bench.credential()
            _ = try await bench.perform(.refresh)
            #expect(bench.generation == 1)
        }
    }

    @Test(arguments: [true, false])
    func aReloadTriesAgainWhatSendsNoSecret(_ sendsSecrets: Bool) async throws {
        let grant = PasswordLikeGrant(sendsSecrets: sendsSecrets)
        try await KeeperBench(ScriptedTokenEndpoint([wrong, good]), grant: grant).running { bench in
            _ = await bench.credential()
            bench.keeper.reloaded()
            guard !sendsSecrets else {
                #expect(bench.endpoint.requests.count == 1)
                #expect(bench.problem?.kind == .credentialMisconfigured)
                return
            }
            try await bench.endpoint.untilAsked(2)
            #expect(await bench.credential().generation == 1)
        }
    }

    @Test func aSuspectAnswerToALoginEndsWithTheLoginAndIsNotedOnce() async throws {
        let token = TokenSet(
            access: Secret(""),
            refreshToken: Secret("renewal-one"),
            obtainedAt: ManualClock().now().wall,
            expiresAt: ManualClock().now().wall
        )
        let store = RecordingTokenStore()
        store[KeeperBench.key] = StoredToken(generation: 1, token: token)
        let endpoint = ScriptedTokenEndpoint { _, _ in .json("<html>", status: 403) }
        let grant = PasswordLikeGrant(canAcquireAnew: false)
        try await KeeperBench(endpoint, grant: grant, store: store).running { bench in
            _ = await bench.credential()
            for (count, pause) in [(2, 120), (3, 360), (4, 3600)] {
                try await bench.clock.untilAsleep(moreThan: .seconds(pause - 1), atMost: .seconds(pause))
                bench.clock.advance(by: .seconds(pause))
                try await bench.endpoint.untilAsked(count)
            }
            try await bench.clock.untilAsleep(moreThan: .seconds(3599), atMost: .seconds(3600))
            #expect(bench.status.state == .loginRequired)
            #expect(bench.audit.count(of: .loginRequired) == 1)
            #expect(bench.store[KeeperBench.key]?.token.refreshToken == Secret("renewal-one"))
        }
    }
}

/// As `oauth2_password`: spends a refresh token where there is one, and otherwise acquires anew.
private struct PasswordLikeGrant: TokenGrant {
    private let sample = SampleGrant()
    var canAcquireAnew = true
    var sendsSecrets = true

    var identity: GrantIdentity { sample.identity }
    let isRenewable = true
    let rotatesRefreshToken = false
    func seed(at now: Moment) -> TokenSet? { nil }
    func injection(of token: TokenSet) -> Injection { sample.injection(of: token) }
    func sendsRefreshToken(in attempt: GrantAttempt) -> Bool { refreshes(attempt) }

    private func refreshes(_ attempt: GrantAttempt) -> Bool {
        attempt.held?.refreshToken != nil && attempt.restartedAfterStep == nil && !attempt.isRefreshTokenUncertain
    }

    private func request(_ grantType: String) -> TokenRequest? {
        (try? AuthorityURL("https://authority.example/token")).map {
            TokenRequest(url: $0, body: .form([.init("grant_type", grantType)]))
        }
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        request(refreshes(attempt) ? "refresh_token" : "password").map { .request($0) } ?? sample.firstStep(of: attempt)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        guard refreshes(attempt), let error = RefreshError(reply) else { return sample.interpret(reply, in: &attempt) }
        if canAcquireAnew, error.acquiresAnew(in: attempt), let request = request("password") {
            attempt.beginAnew(after: error)
            return .next(request)
        }
        let problem = GatewayProblem(.tokenTemporarilyUnavailable, "The answer is odd.")
        switch error {
        case .suspect: return .failure(TokenFailure(.suspect, problem: problem))
        case .personNeeded:
            let problem = GatewayProblem(.reauthorizationRequired, "A person is needed.")
            return .failure(TokenFailure(.loginRequired, problem: problem))
        case .refused, .transient, .configuration, .request: return sample.interpret(reply, in: &attempt)
        }
    }
}
