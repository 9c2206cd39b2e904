import GatewayCore
import GatewayTesting
import GatewayTokenKeeper
import Testing

/// Gateways that share a store: who renews, who adopts, and what an operator of one does to the others.
@Suite("A fleet", .timeLimit(.minutes(5)))
struct FleetTests {
    private func running(
        _ fleet: FleetBench,
        _ body: @escaping @Sendable (FleetGateway, FleetGateway) async throws -> Void
    ) async throws {
        let (one, other) = (fleet.gateway("one"), fleet.gateway("other"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await one.run() }
            group.addTask { try await other.run() }
            defer { group.cancelAll() }
            try await body(one, other)
        }
    }

    // MARK: Renewals

    @Test func oneRenewsAndTheOtherAdopts() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            one.line.decree(.waits)
            async let first = one.credential()
            try await one.line.untilWaiting()
            async let second = other.credential()
            try await fleet.clock.untilAsleep(atMost: .seconds(1))
            one.line.release()
            #expect(await first.access == "access-1")
            #expect(await second.access == "access-1")
            #expect(fleet.authority.calls == 1)
            try await other.audit.untilRecorded(.adopted)
            #expect(other.audit.count(of: .renewing) == 0, "nothing was sent, so nothing is said")
            #expect(other.keeper.status(at: fleet.clock.now()).state == .valid)
        }
    }

    @Test func whoHoldsTheLeaseProlongsItWhileTheAuthorityTakesItsTime() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            one.line.decree(.waits)
            async let first = one.credential()
            try await one.line.untilWaiting()
            async let second = other.credential()
            for _ in 1...60 {
                try await fleet.clock.untilAsleep(atMost: .seconds(1))
                fleet.clock.advance(by: .seconds(1))
            }
            #expect(fleet.authority.calls == 0, "the other gateway has not gone on without the lease")
            one.line.release()
            #expect(await first.access == "access-1")
            #expect(await second.access == "access-1")
            #expect(fleet.authority.calls == 1)
        }
    }

    @Test func theLiveTokenIsUsedWhileAnotherGatewayRenews() async throws {
        let now = FleetBench(stored: nil).clock.now().wall
        let live = TokenSet(
            access: Secret("access-0"),
            refreshToken: Secret("refresh-0"),
            obtainedAt: now + .seconds(-3500),
            expiresAt: now + .seconds(100)
        )
        let fleet = FleetBench(stored: live)
        try await running(fleet) { one, other in
            one.line.decree(.waits)
            other.line.decree(.waits)
            try await one.untilAccess("access-0")
            try await other.untilAccess("access-0")
            fleet.clock.advance(by: .seconds(40))
            try await fleet.clock.untilAsleep(atMost: .seconds(1))
            #expect(one.access == "access-0")
            #expect(other.access == "access-0")
            one.line.release()
            other.line.release()
            try await one.untilAccess("access-1")
            try await other.untilAccess("access-1")
            #expect(fleet.authority.calls == 1)
        }
    }

    @Test func aTokenOfAnotherGatewayIsAdoptedBeforeItIsNeeded() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            #expect(await one.credential().access == "access-1")
            try await other.untilAccess("access-1")
            fleet.clock.advance(by: .seconds(3601))
            #expect(await one.credential().access == "access-2")
            try await other.untilAccess("access-2")
            #expect(fleet.authority.calls == 2)
        }
    }

    @Test(arguments: [AuthorityLine.Fate.diesBeforeTheAuthorityIsAsked, .diesBeforeTheAnswerIsStored])
    func theLeaseOfADeadGatewayIsTakenOverAfterItsEnd(fate: AuthorityLine.Fate) async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            one.line.decree(fate)
            async let lost = one.credential()
            try await one.line.untilDead()
            async let taken = other.credential()
            for _ in 1...25 {
                try await fleet.clock.untilAsleep(atMost: .seconds(1))
                if fleet.authority.issued == (fate == .diesBeforeTheAnswerIsStored ? 2 : 1) { break }
                fleet.clock.advance(by: .seconds(1))
            }
            #expect(await taken.access == (fate == .diesBeforeTheAnswerIsStored ? "access-2" : "access-1"))
            #expect(fleet.clock.now().monotonic >= MonotonicTime(nanoseconds: 0) + RenewalLease.duration)
            #expect(fleet.authority.refusals == 0)
            one.keeper.close()
            _ = await lost
        }
    }

    @Test func withoutRotationGatewaysShareTheirTokensAllTheSame() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, other in
            async let first = one.credential()
            async let second = other.credential()
            #expect(await first.access == "access-1")
            #expect(await second.access == "access-1")
            #expect(fleet.authority.calls == 1)
        }
    }

    // MARK: Operators

    @Test func whatAnOperatorClearsIsWithdrawnEverywhere() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            _ = await one.credential()
            try await other.untilAccess("access-1")
            let before = other.keeper.timesWithdrawn
            _ = try await one.keeper.perform(.clear).get()
            try await other.untilAccess(nil)
            #expect(other.keeper.timesWithdrawn > before)
            try await other.ended.until { $0 == 1 }
            try await other.audit.untilRecorded(.cleared)
            #expect(other.audit.last(.cleared)?.detail["from"] == "store")
            #expect(await other.credential().problem?.kind == .loginRequired)
        }
    }

    @Test func whatAnOperatorImportsIsUsedEverywhere() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, other in
            _ = await one.credential()
            try await other.untilAccess("access-1")
            _ = try await one.keeper.perform(.import(ImportedToken(access: Secret("brought"), lifetime: .seconds(600))))
                .get()
            try await other.untilAccess("brought")
            #expect(one.access == "brought")
        }
    }

    @Test func anOperatorElsewhereBeatsARenewalUnderWay() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            one.line.decree(.waits)
            async let waiting = one.credential()
            try await one.line.untilWaiting()
            _ = try await other.keeper.perform(.clear).get()
            one.line.release()
            #expect(await waiting.problem?.kind == .loginRequired)
            #expect(fleet.store[FleetBench.key] == nil, "the new token is dropped")
            try await one.audit.untilRecorded(.renewed)
            #expect(one.audit.last(.renewed)?.outcome == .failed)
            #expect(one.audit.last(.renewed)?.detail["reason"] == "overtaken")
        }
    }

    // MARK: A store that does not work

    @Test func withoutTheStoreARefreshTokenIsNotSent() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, _ in
            _ = await one.credential()
            fleet.store.fail { _ in .unavailable("gone") }
            #expect(one.access == "access-1", "a live token is used to its end")
            fleet.clock.advance(by: .seconds(3601))
            #expect(await one.credential().problem?.kind == .storeUnavailable)
            #expect(fleet.authority.calls == 1)
            try await fleet.clock.untilAsleep(atMost: .seconds(1))
            fleet.clock.advance(by: .seconds(1))
            fleet.store.fail(nil)
            try await fleet.clock.untilAsleep(atMost: .seconds(1))
            fleet.clock.advance(by: .seconds(1))
            try await one.untilAccess("access-2")
            #expect(fleet.authority.refusals == 0)
        }
    }

    @Test func withoutTheStoreAGrantThatDoesNotRotateGoesOn() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, other in
            _ = await one.credential()
            try await other.untilAccess("access-1")
            fleet.store.fail { _ in .unavailable("gone") }
            fleet.clock.advance(by: .seconds(3601))
            let tokens = await [one.credential().access, other.credential().access]
            #expect(Set(tokens.compactMap(\.self)) == ["access-2", "access-3"])
            #expect(one.audit.last(.storeFailed) != nil)
            fleet.store.fail(nil)
            fleet.clock.advance(by: .seconds(6))
            try await fleet.store.untilSaved { $0.token.access != Secret("access-1") }
            for _ in 1...200 where one.access != other.access {
                fleet.clock.advance(by: .seconds(1))
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(one.access == other.access)
            #expect(fleet.authority.calls == 3)
        }
    }

    // MARK: Many expirations

    @Test func athousandExpirationsCostAThousandCalls() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            for round in 1...1000 {
                async let first = one.credential()
                async let second = other.credential()
                let tokens = await (first.access, second.access)
                #expect(tokens == ("access-\(round)", "access-\(round)"))
                fleet.clock.advance(by: .seconds(3601))
            }
            #expect(fleet.authority.refusals == 0)
            #expect(fleet.authority.calls >= 1000)
            #expect(fleet.authority.calls <= 1001)
        }
    }

    /// The holder of the lease dies in every tenth round; another gateway takes its place.
    @Test func gatewaysThatDieInARenewalCostNoRefreshToken() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        var random = SplitMix(seed: 29)
        var gateways = [fleet.gateway("0"), fleet.gateway("1")]
        var (rounds, deaths) = (0, 0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for gateway in gateways { group.addTask { try await gateway.run() } }
            defer { group.cancelAll() }
            while rounds < 1000 {
                rounds += 1
                let dying = rounds.isMultiple(of: 10)
                let fate: AuthorityLine.Fate =
                    Bool.random(using: &random) ? .diesBeforeTheAuthorityIsAsked : .diesBeforeTheAnswerIsStored
                if dying { for gateway in gateways { gateway.line.decree(fate) } }
                let (one, other) = (gateways[0], gateways[1])
                async let first = one.credential()
                async let second = other.credential()
                if dying {
                    let index = try await Self.firstDead(of: gateways)
                    gateways[1 - index].line.release()
                    for _ in 1...30 where gateways[1 - index].access == nil {
                        try await Task.sleep(for: .milliseconds(2))
                        fleet.clock.advance(by: .seconds(1))
                    }
                    gateways[index].keeper.close()
                    deaths += 1
                    let next = fleet.gateway("\(rounds)")
                    gateways[index] = next
                    group.addTask { try await next.run() }
                }
                _ = await (first, second)
                fleet.clock.advance(by: .seconds(3601))
            }
        }
        #expect(fleet.authority.refusals == 0)
        #expect(fleet.authority.calls <= rounds + deaths + 1)
    }

    private static func firstDead(of gateways: [FleetGateway]) async throws -> Int {
        for _ in 0..<20_000 {
            if let index = gateways.firstIndex(where: \.line.isDead) { return index }
            try await Task.sleep(for: .milliseconds(1))
        }
        throw ConformanceFailure("no gateway has died")
    }
}
