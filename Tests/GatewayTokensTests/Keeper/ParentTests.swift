import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Testing

@testable import GatewayTokens

/// Exchanges the parent's token; every refusal of it says `invalid_grant`.
private struct SampleExchange: TokenGrant {
    let identity = GrantIdentity.sample()
    let isRenewable = true
    let rotatesRefreshToken = false

    func seed(at now: Moment) -> TokenSet? { nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        guard let token = attempt.parentToken, let url = try? AuthorityURL("https://authority.example/exchange") else {
            return .impossible(TokenFailure(.terminal, problem: GatewayProblem(.internalError, "no parent token")))
        }
        return .request(TokenRequest(url: url, body: .form([.init("subject_token", token)])))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let answer = SampleGrant().interpret(reply, in: &attempt)
        guard case .failure(let failure) = answer, failure.problem.cause?.code == "invalid_grant" else { return answer }
        return .parentRefused(failure)
    }

    func injection(of token: TokenSet) -> Injection { SampleGrant().injection(of: token) }
}

/// A credential that is made from the token of another one, both with keepers of their own.
private struct ParentAndChild: Sendable {
    static let key = CredentialKey(digest: "ff")

    let parent: KeeperBench
    let endpoint: ScriptedTokenEndpoint
    let child: TokenKeeper
    let audit = RecordingAuditLog()

    init(
        parent parentEndpoint: ScriptedTokenEndpoint,
        grant: SampleGrant = SampleGrant(),
        child childEndpoint: ScriptedTokenEndpoint,
        store: RecordingTokenStore = RecordingTokenStore()
    ) {
        parent = KeeperBench(parentEndpoint, grant: grant)
        endpoint = childEndpoint
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        child = TokenKeeper(
            KeeperContext(
                name: "preview",
                strategyKind: "sample_exchange",
                grant: SampleExchange(),
                policy: RenewalPolicy(),
                key: Self.key,
                store: store,
                endpoint: childEndpoint,
                audit: audit,
                onAuditFailure: .block,
                clock: parent.clock,
                logger: logger,
                parent: parent.keeper
            ),
            jitter: { 0 }
        )
        parent.keeper.adopt(child)
    }

    func running(_ body: @escaping @Sendable (ParentAndChild) async throws -> Void) async throws {
        try await parent.running { _ in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await child.run() }
                defer { group.cancelAll() }
                try await body(self)
                group.cancelAll()
                try await group.waitForAll()
            }
        }
    }

    func credential() async -> Result<Credential, GatewayProblem> {
        await withCheckedContinuation { continuation in
            _ = child.wait(for: .sample) { continuation.resume(returning: $0) }
        }
    }

    /// The parent tokens that were exchanged.
    var exchanged: [String] {
        endpoint.requests.compactMap { request in
            guard case .form(let form) = request.body else { return nil }
            return form.first?.value.withValue { $0 }
        }
    }
}

@Suite("A token made from another", .timeLimit(.minutes(5)))
struct ParentTests {
    private func tokens(_ name: String, expiresIn: Int = 3600) -> ScriptedTokenEndpoint {
        ScriptedTokenEndpoint { _, count in .token("\(name)-\(count)", expiresIn: expiresIn) }
    }

    @Test func theParentIsAskedFirst() async throws {
        try await ParentAndChild(parent: tokens("parent"), child: tokens("child")).running { bench in
            #expect(await bench.credential().generation == 1)
            #expect(bench.exchanged == ["parent-1"])
            #expect(bench.parent.audit.last(.acquired)?.demand == .sample)
            let event = try #require(bench.audit.last(.acquired))
            #expect(event.detail == ["parent": "box-service", "parent_generation": "1"])
            #expect(event.token == Secret("child-1"))
        }
    }

    @Test func aNewTokenOfTheParentDoesNotRenewTheChild() async throws {
        try await ParentAndChild(parent: tokens("parent", expiresIn: 600), child: tokens("child", expiresIn: 7200))
            .running { bench in
                #expect(await bench.credential().generation == 1)
                for old in 1...3 {
                    try await bench.parent.clock.untilAsleep(atMost: .seconds(540))
                    bench.parent.clock.advance(by: .seconds(560))
                    _ = try await bench.parent.untilGeneration(after: old)
                }
                #expect(await bench.credential().generation == 1)
                #expect(bench.exchanged == ["parent-1"])
            }
    }

    @Test func theChildIsRenewedWithTheTokenThatTheParentHasByThen() async throws {
        try await ParentAndChild(parent: tokens("parent", expiresIn: 600), child: tokens("child", expiresIn: 1200))
            .running { bench in
                #expect(await bench.credential().generation == 1)
                try await bench.parent.clock.untilAsleep(atMost: .seconds(540))
                try await bench.parent.clock.untilAsleep(moreThan: .seconds(1000), atMost: .seconds(1080))
                bench.parent.clock.advance(by: .seconds(560))
                _ = try await bench.parent.untilGeneration(after: 1)
                bench.parent.clock.advance(by: .seconds(530))
                try await bench.audit.untilRecorded(.renewed)
                #expect(bench.exchanged.first == "parent-1")
                #expect(["parent-2", "parent-3"].contains(bench.exchanged.last))
                #expect(bench.exchanged.count == 2)
            }
    }

    @Test func aRefusedParentIsReportedOnceAndReplaced() async throws {
        let child = ScriptedTokenEndpoint([.error("invalid_grant"), .token("child-1", expiresIn: 3600)])
        try await ParentAndChild(parent: tokens("parent"), child: child).running { bench in
            #expect(await bench.credential().generation == 1)
            #expect(bench.exchanged == ["parent-1", "parent-2"])
            try await bench.parent.audit.untilRecorded(.rejected)
            let rejected = try #require(bench.parent.audit.last(.rejected))
            #expect(rejected.generation == 1)
            #expect(rejected.demand == .sample)
        }
    }

    @Test func aParentThatIsRefusedTwiceIsNotRenewedForEver() async throws {
        let child = ScriptedTokenEndpoint { _, _ in .error("invalid_grant") }
        try await ParentAndChild(parent: tokens("parent"), child: child).running { bench in
            for _ in 1...3 {
                #expect(await bench.credential().problem?.cause?.code == "invalid_grant")
                bench.parent.clock.advance(by: .seconds(60))
            }
            #expect(bench.exchanged == ["parent-1", "parent-2"])
            #expect(bench.parent.endpoint.requests.count == 2)
            try await bench.parent.audit.untilRecorded(.rejected)
            #expect(bench.parent.audit.events.count { $0.name == .rejected } == 1)
        }
    }

    @Test func scopesThatAreRefusedLeaveTheParentAlone() async throws {
        let child = ScriptedTokenEndpoint { _, _ in .error("invalid_scope", status: 401) }
        try await ParentAndChild(parent: tokens("parent"), child: child).running { bench in
            #expect(await bench.credential().problem?.kind == .credentialMisconfigured)
            #expect(await bench.credential().problem?.kind == .credentialMisconfigured)
            #expect(bench.exchanged == ["parent-1"])
            #expect(bench.parent.endpoint.requests.count == 1)
        }
    }

    @Test func whatTheParentLacksIsSaidAndPassesWithIt() async throws {
        let parent = ScriptedTokenEndpoint([.error("invalid_client", status: 401), .token("parent-1", expiresIn: 3600)])
        try await ParentAndChild(parent: parent, child: tokens("child")).running { bench in
            let problem = try #require(await bench.credential().problem)
            #expect(problem.kind == .credentialMisconfigured)
            #expect(problem.detail.hasPrefix("preview is made from the token of box-service. "))
            #expect(bench.audit.last(.acquisitionFailed)?.errorCode == "credential-misconfigured")
            #expect(bench.exchanged == [])
            _ = await bench.parent.keeper.perform(.refresh)
            bench.parent.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 1)
        }
    }

    @Test func aSilentParentIsWaitedForWithinTheDeadline() async throws {
        let parent = ScriptedTokenEndpoint([.held])
        try await ParentAndChild(parent: parent, child: tokens("child")).running { bench in
            async let credential = bench.credential()
            try await parent.untilHeld()
            try await bench.parent.clock.untilAsleep(atMost: TokenKeeper.callDeadline)
            bench.parent.clock.advance(by: TokenKeeper.callDeadline)
            let problem = try #require(await credential.problem)
            #expect(problem.kind == .tokenEndpointTimeout)
            #expect(bench.exchanged == [])
            parent.release(.token("parent-1", expiresIn: 3600))
            try await bench.parent.audit.untilRecorded(.acquired)
            bench.parent.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 1)
        }
    }

    @Test func aChildThatIsClearedIsExchangedAgain() async throws {
        try await ParentAndChild(parent: tokens("parent"), child: tokens("child")).running { bench in
            #expect(await bench.credential().generation == 1)
            let report = try await bench.child.perform(.clear).get()
            #expect(report.token.state == .empty)
            #expect(report.message.hasSuffix("The next request gets a new one."))
            #expect(await bench.credential().generation == 2)
        }
    }

    @Test(arguments: [false, true])
    func aChildThatWasRejectedBeforeARestartIsExchangedAgain(isRevoked: Bool) async throws {
        let now = ManualClock().now().wall
        let token = TokenSet(access: Secret("old"), obtainedAt: now, expiresAt: now + .seconds(3600))
        let stored =
            isRevoked
            ? StoredToken.revoked(generation: 1, at: now) : StoredToken(generation: 1, token: token, isRejected: true)
        let store = RecordingTokenStore([ParentAndChild.key: stored])
        try await ParentAndChild(parent: tokens("parent"), child: tokens("child"), store: store).running { bench in
            #expect(await bench.credential().generation == 2)
            #expect(bench.exchanged == ["parent-1"])
        }
    }

    @Test func whatWasMadeFromARevokedTokenIsForgottenWithIt() async throws {
        let parent = ScriptedTokenEndpoint([
            .token("parent-1", expiresIn: 3600), .json(""), .token("parent-2", expiresIn: 3600),
        ])
        let store = RecordingTokenStore()
        let grant = SampleGrant(revokes: true)
        try await ParentAndChild(parent: parent, grant: grant, child: tokens("child"), store: store).running { bench in
            _ = try await bench.child.vend(for: .sample, within: .seconds(20)).get()
            _ = try await bench.parent.perform(.revoke)
            #expect(store[ParentAndChild.key] == nil)
            #expect(bench.audit.last(.cleared)?.generation == 1)
            let token = try await bench.child.vend(for: .sample, within: .seconds(20)).get()
            #expect(token.access == Secret("child-2"))
            #expect(bench.exchanged == ["parent-1", "parent-2"])
            _ = try await bench.parent.perform(.clear)
            #expect(store[ParentAndChild.key] == nil)
        }
    }

    /// The new token may be somebody else's.
    @Test(arguments: [false, true])
    func whatWasMadeFromATokenIsForgottenWhenAPersonBringsAnother(byLogin: Bool) async throws {
        let store = RecordingTokenStore()
        try await ParentAndChild(parent: tokens("parent"), child: tokens("child"), store: store).running { bench in
            _ = try await bench.child.vend(for: .sample, within: .seconds(20)).get()
            if byLogin {
                let now = bench.parent.clock.now().wall
                _ = try await bench.parent.keeper.logIn(with: TokenSet(access: Secret("new"), obtainedAt: now)).get()
            } else {
                _ = try await bench.parent.perform(.import(ImportedToken(access: Secret("new"))))
            }
            #expect(store[ParentAndChild.key] == nil)
            #expect(bench.audit.last(.cleared)?.generation == 1)
            let token = try await bench.child.vend(for: .sample, within: .seconds(20)).get()
            #expect(token.access == Secret("child-2"))
            #expect(bench.exchanged == ["parent-1", "new"])
        }
    }

    @Test func anImportThatIsPutBackLeavesWhatWasMadeBefore() async throws {
        let refusal = ScriptedTokenEndpoint { _, _ in .error("invalid_grant") }
        let seed = TokenSet(
            access: Secret("seed"),
            refreshToken: Secret("renewal"),
            obtainedAt: ManualClock().now().wall
        )
        let grant = SampleGrant(rotatesRefreshToken: true, initial: seed)
        try await ParentAndChild(parent: refusal, grant: grant, child: tokens("child")).running { bench in
            _ = try await bench.child.vend(for: .sample, within: .seconds(20)).get()
            let pair = ImportedToken(access: Secret("a"), refreshToken: Secret("r"))
            let problem = await bench.parent.keeper.perform(.import(pair)).problem
            #expect(problem?.detail.hasPrefix("Nothing was imported") == true)
            #expect(bench.audit.count(of: .cleared) == 0)
            #expect(try await bench.child.vend(for: .sample, within: .seconds(20)).get().access == Secret("child-1"))
        }
    }

    @Test func whatWasMadeFromARevokedTokenIsForgottenWithItWhenNobodyRunsTheKeepers() async throws {
        let now = ManualClock().now().wall
        let token = TokenSet(access: Secret("old"), obtainedAt: now, expiresAt: now + .seconds(3600))
        let store = RecordingTokenStore([ParentAndChild.key: StoredToken(generation: 1, token: token)])
        let bench = ParentAndChild(parent: tokens("parent"), child: tokens("child"), store: store)
        _ = try await bench.parent.keeper.performAlone(.clear).get()
        #expect(store[ParentAndChild.key] == nil)
    }

    @Test func aLoginForgetsWhatWasMadeFromTheEarlierTokenWhenNobodyRunsTheOtherKeepers() async throws {
        let now = ManualClock().now().wall
        let token = TokenSet(access: Secret("old"), obtainedAt: now, expiresAt: now + .seconds(3600))
        let store = RecordingTokenStore([ParentAndChild.key: StoredToken(generation: 1, token: token)])
        let bench = ParentAndChild(parent: tokens("parent"), child: tokens("child"), store: store)
        bench.parent.keeper.runOffline()
        try await bench.parent.running { parent in
            _ = try await parent.keeper.logIn(with: TokenSet(access: Secret("new"), obtainedAt: now)).get()
        }
        #expect(store[ParentAndChild.key] == nil)
    }

    @Test func whatWasMadeFromATokenIsForgottenWhenItsAuthorityWantsALogin() async throws {
        let seed = TokenSet(
            access: Secret("seed"),
            refreshToken: Secret("renewal"),
            obtainedAt: ManualClock().now().wall
        )
        let grant = SampleGrant(rotatesRefreshToken: true, initial: seed)
        let refusal = ScriptedTokenEndpoint { _, _ in .error("invalid_grant") }
        try await ParentAndChild(parent: refusal, grant: grant, child: tokens("child")).running { bench in
            _ = try await bench.child.vend(for: .sample, within: .seconds(20)).get()
            #expect(bench.exchanged == ["seed"])
            bench.parent.keeper.rejected(generation: 1, by: .sample)
            try await bench.audit.untilRecorded(.cleared)
            #expect(bench.parent.status.state == .loginRequired)
            let problem = await bench.child.vend(for: .sample, within: .seconds(20)).problem
            #expect(problem?.kind == .reauthorizationRequired)
            #expect(bench.exchanged == ["seed"])
        }
    }

    @Test func aLockedParentLendsNothing() async throws {
        try await ParentAndChild(parent: tokens("parent"), child: tokens("child")).running { bench in
            await bench.parent.keeper.lockForOperator()
            #expect(await bench.credential().problem?.kind == .locked)
            await bench.parent.keeper.unlockForOperator()
            bench.parent.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 1)
        }
    }
}
