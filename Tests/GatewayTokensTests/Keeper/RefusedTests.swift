import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

/// The authority does not accept the stored refresh token any more: it is sent once, by whichever gateway.
@Suite("Refused refresh tokens", .timeLimit(.minutes(1)))
struct RefusedTests {
    private static let key = FleetBench.key

    /// Both have `access-1`, and the authority has ended the login since.
    ///
    /// - Parameter watched: Whether `other` hears of changes.
    private func running(
        _ fleet: FleetBench = FleetBench(stored: FleetBench.ended),
        watched: Bool = true,
        _ body: @escaping @Sendable (FleetBench, FleetGateway, FleetGateway) async throws -> Void
    ) async throws {
        let (one, other) = (fleet.gateway("one"), fleet.gateway("other"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await one.run() }
            #expect(await one.credential().access == "access-1")
            group.addTask { if watched { try await other.run() } else { try await other.keeper.run() } }
            #expect(await other.credential().access == "access-1")
            fleet.authority.accept(nil)
            try await body(fleet, one, other)
        }
    }

    /// Runs one more gateway, as after a restart.
    private func restarted(
        _ fleet: FleetBench,
        _ body: @escaping @Sendable (FleetGateway) async throws -> Void
    ) async throws {
        let gateway = fleet.gateway("restarted")
        gateway.line.release()
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await gateway.run() }
            try await body(gateway)
        }
    }

    private func untilState(_ state: TokenStatus.State, _ gateway: FleetGateway, _ fleet: FleetBench) async throws {
        for _ in 0..<20_000 {
            if gateway.keeper.status(at: fleet.clock.now()).state == state { return }
            try await Task.sleep(for: .milliseconds(1))
        }
        let found = gateway.keeper.status(at: fleet.clock.now()).state
        throw ConformanceFailure("the state is \(found), and not \(state)")
    }

    // MARK: Other gateways and later starts

    @Test func oneGatewaySendsItAndAllSayTheSame() async throws {
        try await running { fleet, one, other in
            fleet.clock.advance(by: .seconds(3601))
            let problems = await [one.credential().problem, other.credential().problem]
            #expect(problems[0]?.kind == .reauthorizationRequired)
            #expect(problems[0]?.detail == problems[1]?.detail)
            #expect(problems[0]?.cause == problems[1]?.cause)
            for gateway in [one, other] {
                try await untilState(.loginRequired, gateway, fleet)
                try await gateway.audit.untilRecorded(.loginRequired)
            }
            #expect(fleet.authority.refusals == 1)
            #expect(fleet.store[Self.key]?.knownRefusal != nil)
            #expect(fleet.store[Self.key]?.attempt == nil)
            fleet.clock.advance(by: .seconds(86_400))
            #expect(await other.credential().problem?.kind == .reauthorizationRequired)
            try await restarted(fleet) { gateway in
                #expect(await gateway.credential().problem?.detail == problems[0]?.detail)
                try await untilState(.loginRequired, gateway, fleet)
                #expect(gateway.audit.count(of: .renewing) == 0)
            }
            #expect(fleet.authority.refusals == 1)
        }
    }

    @Test func aLiveTokenIsUsedWhileALoginIsNeeded() async throws {
        try await running { fleet, one, other in
            #expect(await one.keeper.perform(.refresh).problem?.kind == .reauthorizationRequired)
            try await untilState(.loginRequired, other, fleet)
            #expect(one.access == "access-1" && other.access == "access-1")
            try await restarted(fleet) { gateway in
                try await untilState(.loginRequired, gateway, fleet)
                #expect(gateway.access == "access-1")
                try await gateway.audit.untilRecorded(.loginRequired)
            }
            #expect(fleet.authority.refusals == 1)
        }
    }

    @Test func whatAnUncertainRotationCameToIsSaidByAll() async throws {
        let fleet = FleetBench(stored: FleetBench.ended, fate: .diesBeforeTheAuthorityIsAsked)
        let gateways = [fleet.gateway("one"), fleet.gateway("other")]
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            for gateway in gateways { group.addTask { try await gateway.run() } }
            while !gateways.contains(where: \.line.isDead) { try await Task.sleep(for: .milliseconds(1)) }
            let (dead, alive) = gateways[0].line.isDead ? (gateways[0], gateways[1]) : (gateways[1], gateways[0])
            fleet.authority.accept(nil)
            alive.line.release()
            for _ in 1...400 where fleet.authority.refusals == 0 {
                try await fleet.clock.untilAsleep(atMost: .seconds(1))
                // Others may be asleep already.
                try await Task.sleep(for: .milliseconds(5))
                fleet.clock.advance(by: .seconds(1))
            }
            try await untilState(.rotationUncertain, alive, fleet)
            let problem = await alive.credential().problem
            #expect(problem?.detail.contains("was lost") == true)
            // The one that knows it dies as well.
            alive.keeper.close()
            try await restarted(fleet) { gateway in
                try await untilState(.rotationUncertain, gateway, fleet)
                #expect(await gateway.credential().problem?.detail == problem?.detail)
                #expect(gateway.keeper.status(at: fleet.clock.now()).needsPerson)
            }
            #expect(fleet.authority.refusals == 1)
            dead.keeper.close()
        }
    }

    /// The gateway has read the journal of another one before that died.
    @Test func aJournalThatIsKnownAlreadyMakesARefusalUncertain() async throws {
        try await running { fleet, one, _ in
            var journalled = try #require(fleet.store[Self.key])
            journalled.attempt = RotationAttempt(
                id: "a",
                generation: journalled.generation,
                startedAt: fleet.clock.now().wall
            )
            fleet.store[Self.key] = journalled
            try await one.hear(fleet)
            fleet.clock.advance(by: .seconds(3601))
            #expect(await one.credential().problem?.detail.contains("was lost") == true)
            #expect(fleet.store[Self.key]?.knownRefusal?.isRotationUncertain == true)
        }
    }

    @Test func aRejectionByAnUpstreamDoesNotOverwriteIt() async throws {
        try await running(watched: false) { fleet, one, other in
            #expect(await one.keeper.perform(.refresh).problem != nil)
            guard case .ready(let credential) = other.keeper.current(at: fleet.clock.now().monotonic) else {
                throw ConformanceFailure("the gateway has no token")
            }
            other.keeper.rejected(generation: credential.generation, by: .sample)
            #expect(await other.credential().problem?.kind == .reauthorizationRequired)
            try await fleet.store.untilSaved { $0.isRejected && $0.knownRefusal != nil }
            #expect(fleet.store[Self.key]?.knownRefusal != nil)
            #expect(fleet.authority.refusals == 1)
        }
    }

    // MARK: A person

    @Test func anImportEndsIt() async throws {
        try await running { fleet, one, other in
            #expect(await one.keeper.perform(.refresh).problem != nil)
            try await untilState(.loginRequired, other, fleet)
            fleet.authority.accept(Secret("brought"))
            let token = ImportedToken(access: nil, refreshToken: Secret("brought"))
            _ = try await other.keeper.perform(.import(token)).get()
            for gateway in [one, other] {
                try await gateway.untilAccess("access-2")
                try await untilState(.valid, gateway, fleet)
            }
            #expect(fleet.store[Self.key]?.refusal == nil)
            #expect(fleet.authority.refusals == 1)
        }
    }

    @Test func anOperatorHasItSentOnceMore() async throws {
        try await running { fleet, one, other in
            #expect(await one.keeper.perform(.refresh).problem != nil)
            try await untilState(.loginRequired, other, fleet)
            #expect(await other.keeper.perform(.refresh).problem?.kind == .reauthorizationRequired)
            #expect(fleet.authority.refusals == 2)
            #expect(fleet.store[Self.key]?.knownRefusal != nil)
            // The authority is well again.
            fleet.authority.accept(Secret("refresh-1"))
            _ = try await other.keeper.perform(.refresh).get()
            for gateway in [one, other] {
                try await gateway.untilAccess("access-2")
                try await untilState(.valid, gateway, fleet)
            }
            #expect(fleet.store[Self.key]?.refusal == nil)
        }
    }

    // MARK: One gateway

    private func bench(_ answers: [ScriptedTokenEndpoint.Answer], refused: String?, rotates: Bool = true) -> KeeperBench
    {
        var stored = StoredToken(generation: 3, token: FleetBench.ended)
        stored.refusal = refused.map {
            let problem = GatewayProblem(.reauthorizationRequired, "The grant is no longer valid.")
            return RefreshTokenRefusal(of: Secret($0), isRotationUncertain: false, problem: problem)
        }
        let store = RecordingTokenStore([KeeperBench.key: stored])
        let grant: any TokenGrant = rotates ? SampleGrant(rotatesRefreshToken: true) : SteadyGrant()
        return KeeperBench(ScriptedTokenEndpoint(answers), grant: grant, store: store)
    }

    private let next = ScriptedTokenEndpoint.Answer.token("access-1", expiresIn: 3600, refresh: "refresh-1")

    @Test func aRefusalOfAnotherRefreshTokenMeansNothing() async throws {
        try await bench([next], refused: "refresh-other").running { bench in
            #expect(await bench.credential().generation == 4)
            #expect(bench.store[KeeperBench.key]?.refusal == nil)
        }
    }

    @Test func anAuthorityThatIsBusyForTheOperatorIsAskedAgainAsEver() async throws {
        let busy = ScriptedTokenEndpoint.Answer.failure(.init(.connectionRefused, mayHaveBeenProcessed: false))
        try await bench([busy, next], refused: "refresh-0").running { bench in
            #expect(await bench.credential().problem?.detail == "The grant is no longer valid.")
            #expect(bench.endpoint.requests.isEmpty)
            #expect(await bench.keeper.perform(.refresh).problem?.kind == .tokenEndpointUnreachable)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 4)
        }
    }

    @Test func aRefreshTokenThatStaysValidIsSentOnceAsWell() async throws {
        let bench = bench([.error("invalid_grant")], refused: nil, rotates: false)
        try await bench.running { bench in
            #expect(await bench.credential().problem?.kind == .reauthorizationRequired)
            #expect(bench.store[KeeperBench.key]?.knownRefusal?.isRotationUncertain == false)
        }
        let later = KeeperBench(ScriptedTokenEndpoint(), grant: SteadyGrant(), store: bench.store)
        try await later.running { bench in
            #expect(await bench.credential().problem?.kind == .reauthorizationRequired)
            #expect(bench.endpoint.requests.isEmpty)
        }
    }
}

/// Its refresh token stays valid.
private struct SteadyGrant: TokenGrant {
    private let sample = SampleGrant(rotatesRefreshToken: true)

    var identity: GrantIdentity { sample.identity }
    var isRenewable: Bool { true }
    var rotatesRefreshToken: Bool { false }

    func seed(at now: Moment) -> TokenSet? { nil }
    func firstStep(of attempt: GrantAttempt) -> GrantStep { sample.firstStep(of: attempt) }
    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        sample.interpret(reply, in: &attempt)
    }
    func injection(of token: TokenSet) -> Injection { sample.injection(of: token) }
}
