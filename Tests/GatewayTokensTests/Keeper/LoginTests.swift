import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Logins", .timeLimit(.minutes(5)))
struct LoginTests {
    private static let now = ManualClock().now().wall
    private let key = KeeperBench.key

    private static func token(_ name: String, lifetime: Duration = .seconds(3600)) -> TokenSet {
        TokenSet(
            access: Secret("access-\(name)"),
            refreshToken: Secret("renewal-\(name)"),
            obtainedAt: now,
            expiresAt: now + lifetime
        )
    }

    private func bench(
        _ answers: [ScriptedTokenEndpoint.Answer] = [],
        seed: TokenSet? = nil,
        scopes: [String]? = nil
    ) -> KeeperBench {
        var grant = SampleGrant(rotatesRefreshToken: true, initial: seed)
        grant.login = SampleLogin(scopes: scopes)
        grant.renewsSeed = seed != nil
        return KeeperBench(ScriptedTokenEndpoint(answers), grant: grant)
    }

    @Test func whereNobodyHasLoggedInTheStatusAndTheProblemNameTheCommand() async throws {
        try await bench().running { bench in
            let problem = await bench.credential().problem
            #expect(problem?.kind == .loginRequired)
            #expect(problem?.command == "authgateway login box-service")
            #expect(bench.status.state == .loginRequired)
            #expect(bench.status.action == "authgateway login box-service")
        }
    }

    @Test func theStatusSaysSoBeforeAnybodyAsks() async throws {
        #expect(bench().status.state == .acquiring)
        try await bench().running { bench in
            try await bench.clock.untilStatus(bench, .loginRequired)
            #expect(bench.status.needsPerson)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    /// Without it, only the first request would find out.
    @Test func theOutlookSaysSoBeforeAnybodyAsks() async throws {
        try await bench().running { bench in
            try await bench.clock.untilStatus(bench, .loginRequired)
            let now = bench.clock.now().monotonic
            guard case .wait = bench.keeper.current(at: now) else { return #expect(Bool(false)) }
            guard case .unavailable(let problem) = bench.keeper.outlook(at: now) else { return #expect(Bool(false)) }
            #expect(problem.kind == .loginRequired && problem.command == "authgateway login box-service")
            _ = try await bench.keeper.logIn(with: Self.token("one")).get()
            guard case .ready = bench.keeper.outlook(at: now) else { return #expect(Bool(false)) }
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func theTokenOfALoginIsStoredAuditedAndUsedWithoutAFurtherCall() async throws {
        try await bench().running { bench in
            _ = await bench.credential()
            let status = try await bench.keeper.logIn(with: Self.token("one")).get()
            #expect(status.state == .valid)
            #expect(bench.generation == 1)
            #expect(bench.store[key]?.token == Self.token("one"))
            #expect(bench.audit.count(of: .loginCompleted) == 1)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func whoWaitsIsServedByTheLogin() async throws {
        try await bench([.held], seed: Self.token("seed", lifetime: .zero)).running { bench in
            async let waiting = bench.credential()
            try await bench.endpoint.untilHeld()
            bench.endpoint.release(.error("invalid_grant"))
            #expect(await waiting.problem?.command == "authgateway login box-service")
            _ = try await bench.keeper.logIn(with: Self.token("two")).get()
            #expect(await bench.credential().generation == 2)
        }
    }

    @Test func aConfiguredRefreshTokenIsTriedAtOnceAndJournalled() async throws {
        let seed = TokenSet(access: Secret(""), refreshToken: Secret("seed"), obtainedAt: Self.now, expiresAt: Self.now)
        try await bench([.held], seed: seed).running { bench in
            try await bench.endpoint.untilHeld()
            #expect(bench.store[key]?.attempt?.generation == 1)
            #expect(bench.audit.last(.loaded)?.token == nil)
            bench.endpoint.release(.token("access-two", expiresIn: 3600, refresh: "renewal-two"))
            try await bench.clock.untilStatus(bench, .valid)
            #expect(bench.generation == 2)
        }
    }

    // MARK: Scopes

    @Test func aMissingScopeAsksForALoginAndRenewsNothing() async throws {
        try await bench(scopes: ["read"]).running { bench in
            _ = try await bench.keeper.logIn(with: Self.token("one")).get()
            for _ in 0..<1000 { bench.keeper.lacks(["read", "write"], generation: 1, by: .sample) }
            #expect(bench.status.state == .valid && bench.status.missingScopes == ["write"])
            #expect(bench.status.action == "authgateway login box-service --scope write" && !bench.status.needsPerson)
            #expect(bench.status.missingScopeText?.contains("the scope write") == true)
            #expect(bench.generation == 1 && bench.endpoint.requests.isEmpty)
            try await bench.audit.untilRecorded(.scopeMissing, times: 1)
            let event = try #require(bench.audit.last(.scopeMissing))
            #expect(event.detail["scopes"] == "write" && event.errorCode == "insufficient_scope")
            #expect(event.outcome == .failed && event.demand?.route == "box" && event.generation == 1)
            _ = try await bench.keeper.logIn(with: Self.token("two")).get()
            #expect(bench.status.missingScopes == nil && bench.status.action == nil)
            // A response to a request from before the login.
            bench.keeper.lacks(["write"], generation: 1, by: .sample)
            #expect(bench.status.missingScopes == nil)
            #expect(bench.audit.count(of: .scopeMissing) == 1)
        }
    }

    @Test func whereNoLoginAsksForScopesNoneIsMissed() async throws {
        try await bench().running { bench in
            _ = try await bench.keeper.logIn(with: Self.token("one")).get()
            bench.keeper.lacks(["write"], generation: 1, by: .sample)
            #expect(bench.status.missingScopes == nil && bench.audit.count(of: .scopeMissing) == 0)
        }
    }

    @Test func whatAnUpstreamNamesCannotAddToTheCommand() async throws {
        try await bench(scopes: []).running { bench in
            _ = try await bench.keeper.logIn(with: Self.token("one")).get()
            bench.keeper.lacks(["a;reboot", "$(id)"], generation: 1, by: .sample)
            let action = bench.status.action
            #expect(action == "authgateway login box-service --scope 'a;reboot' --scope '$(id)'")
        }
    }

    @Test func theScopesOfALoginStayWithItsToken() async throws {
        let store = RecordingTokenStore()
        let grant = SampleGrant(rotatesRefreshToken: true)
        try await KeeperBench(grant: grant, store: store).running { bench in
            #expect(await bench.keeper.addedScopes() == [])
            var token = Self.token("one")
            token.addedScopes = ["write", "admin"]
            _ = try await bench.keeper.logIn(with: token).get()
            #expect(bench.status.addedScopes == ["write", "admin"])
            #expect(await bench.keeper.addedScopes() == ["write", "admin"])
        }
        #expect(store[key]?.token.addedScopes == ["write", "admin"])
        // Another process has not read the record yet.
        #expect(await KeeperBench(grant: grant, store: store).keeper.addedScopes() == ["write", "admin"])
    }

    // MARK: A login whose answer brought nothing of use but a refresh token

    private static let incomplete = TokenSet(
        access: Secret(""),
        refreshToken: Secret("renewal-new"),
        obtainedAt: now,
        expiresAt: now
    )

    @Test func aRefreshTokenAloneIsRefreshedAtOnce() async throws {
        try await bench([.held]).running { bench in
            async let login = bench.keeper.logIn(with: Self.incomplete)
            try await bench.endpoint.untilHeld()
            let stored = try #require(bench.store[key])
            #expect(stored.token.refreshToken == Secret("renewal-new") && stored.attempt != nil && stored.isRejected)
            bench.endpoint.release(.token("access-new", expiresIn: 3600, refresh: "renewal-next"))
            #expect(try await login.get().state == .valid)
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-next"))
        }
    }

    @Test func itIsStoredBesideTheEarlierOneAndSentFirst() async throws {
        try await bench([.held, .token("access-three", expiresIn: 3600)]).running { bench in
            _ = try await bench.keeper.logIn(with: Self.token("one")).get()
            async let login = bench.keeper.logIn(with: Self.incomplete)
            try await bench.endpoint.untilHeld()
            let stored = try #require(bench.store[key])
            #expect(stored.token.refreshToken == Secret("renewal-new"))
            #expect(stored.previousRefreshToken == Secret("renewal-one"))
            #expect(stored.token.access == Secret("access-one"), "used until the next one comes")
            bench.endpoint.release(.json(#"{"error":"invalid_grant"}"#, status: 400))
            try await bench.endpoint.untilAsked(2)
            #expect(await login.problem?.kind == .loginFailed)
            #expect(bench.status.state == .valid)
            #expect(bench.store[key]?.token.refreshToken == Secret("renewal-one"))
        }
    }

    @Test func aRefusalOfTheOnlyOneIsTold() async throws {
        try await bench([.error("invalid_grant")]).running { bench in
            let problem = await bench.keeper.logIn(with: Self.incomplete).problem
            #expect(problem?.kind == .reauthorizationRequired)
            #expect(bench.status.needsPerson)
        }
    }

    // MARK: A login without a refresh token

    @Test func aLoginWithoutARefreshTokenIsCountedDownAndNotRenewed() async throws {
        try await bench().running { bench in
            var token = Self.token("one")
            token.refreshToken = nil
            let status = try await bench.keeper.logIn(with: token).get()
            #expect(status.lacksRefreshToken == true)
            #expect(status.renewsAt == nil)
            #expect(status.renewalRemainingSeconds == 3600)
            let expiration = try #require(bench.keeper.expirations(at: bench.clock.now()).first)
            #expect(expiration.kind == .login && expiration.remainingSeconds == 3600 && !expiration.isSoon)
            #expect(expiration.action == "authgateway login box-service")
            bench.clock.advance(by: .seconds(3000))
            #expect(bench.keeper.expirations(at: bench.clock.now()).first?.isSoon == true)
            #expect(bench.status.state == .valid)
            bench.clock.advance(by: .seconds(601))
            try await bench.clock.untilStatus(bench, .loginRequired)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aLoginWithARefreshTokenLacksNone() async throws {
        try await bench().running { bench in
            let status = try await bench.keeper.logIn(with: Self.token("one")).get()
            #expect(status.lacksRefreshToken == nil && status.renewsAt != nil)
            #expect(bench.keeper.expirations(at: bench.clock.now()).isEmpty)
        }
    }

    @Test func anUncertainRotationThatCannotBeRepeatedStaysVisibleUntilTheLogin() async throws {
        let dead = TokenSet(access: Secret("a"), refreshToken: Secret("r"), obtainedAt: Self.now, expiresAt: Self.now)
        let bench = bench([.error("invalid_grant")])
        bench.store[key] = StoredToken(
            generation: 4,
            token: dead,
            attempt: RotationAttempt(id: "a", generation: 4, startedAt: Self.now)
        )
        try await bench.running { bench in
            #expect(await bench.credential().problem?.command == "authgateway login box-service")
            #expect(bench.status.state == .rotationUncertain)
            #expect(bench.status.action == "authgateway login box-service")
            #expect(bench.status.lastError?.contains("was lost") == true)
            _ = try await bench.keeper.logIn(with: Self.token("new")).get()
            #expect(bench.status.state == .valid)
            #expect(bench.store[key]?.attempt == nil)
        }
    }
}
