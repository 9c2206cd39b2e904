import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

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

    /// Lets both get to the same point of a renewal. One of them gets there.
    private func holder(
        of fleet: FleetBench,
        _ one: FleetGateway,
        _ other: FleetGateway
    ) async throws -> (holder: FleetGateway, waiting: FleetGateway) {
        for _ in 0..<20_000 {
            if one.line.isStuck { return (one, other) }
            if other.line.isStuck { return (other, one) }
            try await Task.sleep(for: .milliseconds(1))
        }
        throw ConformanceFailure("no gateway renews")
    }

    // MARK: Renewals

    @Test func oneRenewsAndTheOtherAdopts() async throws {
        let fleet = FleetBench(stored: FleetBench.ended, fate: .waits)
        try await running(fleet) { one, other in
            async let first = one.credential()
            async let second = other.credential()
            let (holder, waiting) = try await holder(of: fleet, one, other)
            try await fleet.clock.untilAsleep(atMost: .seconds(1))
            holder.line.release()
            #expect(await first.access == "access-1")
            #expect(await second.access == "access-1")
            #expect(fleet.authority.calls == 1)
            try await waiting.audit.untilRecorded(.adopted)
            #expect(waiting.audit.count(of: .renewing) == 0, "nothing was sent, so nothing is said")
            #expect(waiting.keeper.status(at: fleet.clock.now()).state == .valid)
        }
    }

    @Test func whoHoldsTheLeaseProlongsItWhileTheAuthorityTakesItsTime() async throws {
        let fleet = FleetBench(stored: FleetBench.ended, fate: .waits)
        try await running(fleet) { one, other in
            async let first = one.credential()
            async let second = other.credential()
            let (holder, waiting) = try await holder(of: fleet, one, other)
            for _ in 1...60 {
                try await fleet.clock.untilAsleep(atMost: .seconds(1))
                fleet.clock.advance(by: .seconds(1))
                // The holder prolongs in real time.
                try await Task.sleep(for: .milliseconds(2))
            }
            #expect(!waiting.line.isStuck, "the other gateway has not gone on without the lease")
            holder.line.release()
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
        let fleet = FleetBench(stored: live, fate: .waits)
        try await running(fleet) { one, other in
            try await one.untilAccess("access-0")
            try await other.untilAccess("access-0")
            let (holder, waiting) = try await holder(of: fleet, one, other)
            #expect(one.access == "access-0")
            #expect(other.access == "access-0")
            holder.line.release()
            try await holder.untilAccess("access-1")
            // It looks at the store once a second, if the store does not tell it of the change.
            for _ in 1...200 where waiting.access != "access-1" {
                fleet.clock.advance(by: .seconds(1))
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(waiting.access == "access-1")
            #expect(fleet.authority.calls == 1)
        }
    }

    /// The spent refresh token must not be sent a second time.
    @Test func whatAnotherGatewayStoredBetweenTheReadAndTheLeaseIsAdopted() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        let (one, other) = (fleet.gateway("one"), fleet.gateway("other"))
        let hasRead = Watched(false)
        one.storeLine.interpose(before: .lease) {
            hasRead.update { $0 = true }
            _ = await other.credential()
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await one.run() }
            defer { group.cancelAll() }
            try await hasRead.until { $0 }
            group.addTask { try await other.run() }
            #expect(await one.credential().access == "access-1")
            #expect(fleet.authority.calls == 1)
            #expect(fleet.authority.refusals == 0)
            #expect(one.audit.count(of: .renewing) == 0, "nothing was sent, so nothing is said")
            #expect(one.audit.count(of: .adopted) == 1)
        }
    }

    @Test func whatTheHolderStoredJustBeforeTheNextTryForTheLeaseIsAdopted() async throws {
        let fleet = FleetBench(stored: FleetBench.ended, fate: .waits)
        try await running(fleet) { one, other in
            async let first = one.credential()
            async let second = other.credential()
            let (holder, waiting) = try await holder(of: fleet, one, other)
            waiting.storeLine.interpose(before: .lease) {
                holder.line.release()
                try await holder.untilAccess("access-1")
            }
            // It may have been told just now that it has to wait.
            for _ in 1...200 where holder.line.isStuck {
                fleet.clock.advance(by: .seconds(1))
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(await first.access == "access-1")
            #expect(await second.access == "access-1")
            #expect(fleet.authority.calls == 1)
            #expect(fleet.authority.refusals == 0)
        }
    }

    @Test func whatAnOperatorBroughtBetweenTheLeaseAndTheJournalIsAdopted() async {
        let fleet = FleetBench(stored: FleetBench.ended)
        let now = fleet.clock.now().wall
        let brought = TokenSet(
            access: Secret("brought"),
            refreshToken: Secret("refresh-brought"),
            obtainedAt: now,
            expiresAt: now + .seconds(3600)
        )
        let one = fleet.gateway("one")
        one.storeLine.interpose(before: .journal) {
            try await fleet.store.replace(StoredToken(generation: 7, token: brought), for: FleetBench.key)
        }
        await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await one.run() }
            defer { group.cancelAll() }
            #expect(await one.credential().access == "brought")
            #expect(fleet.authority.calls == 0)
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
        let fleet = FleetBench(stored: FleetBench.ended, fate: fate)
        try await running(fleet) { one, other in
            let (dead, alive) = try await holder(of: fleet, one, other)
            alive.line.release()
            async let lost = dead.credential()
            async let taken = alive.credential()
            let issued = fate == .diesBeforeTheAnswerIsStored ? 2 : 1
            for _ in 1...200 where fleet.authority.issued < issued {
                try await fleet.clock.untilAsleep(atMost: .seconds(1))
                // Others may be asleep already.
                try await Task.sleep(for: .milliseconds(5))
                fleet.clock.advance(by: .seconds(1))
            }
            #expect(await taken.access == (fate == .diesBeforeTheAnswerIsStored ? "access-2" : "access-1"))
            #expect(fleet.clock.now().monotonic >= MonotonicTime(nanoseconds: 0) + RenewalLease.duration)
            #expect(fleet.authority.refusals == 0)
            dead.keeper.close()
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
        let fleet = FleetBench(stored: FleetBench.ended, fate: .waits)
        try await running(fleet) { one, other in
            let (holder, elsewhere) = try await holder(of: fleet, one, other)
            async let waiting = holder.credential()
            _ = try await elsewhere.keeper.perform(.clear).get()
            holder.line.release()
            #expect(await waiting.problem?.kind == .loginRequired)
            #expect(fleet.store[FleetBench.key] == nil, "the new token is dropped")
            try await holder.audit.untilRecorded(.renewed)
            #expect(holder.audit.last(.renewed)?.outcome == .failed)
            #expect(holder.audit.last(.renewed)?.detail["reason"] == "overtaken")
        }
    }

    @Test func aTokenIsRevokedThatAnotherGatewayHasJustGot() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, other in
            _ = await one.credential()
            try await other.untilAccess("access-1")
            // No news has come of it yet.
            _ = try await fleet.store.replace(nil, for: FleetBench.key)
            let report = try await other.keeper.perform(.revoke).get()
            #expect(report.message.contains("there is nothing to revoke"))
            #expect(other.access == nil)
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
            for second in 1...200 where one.access == nil {
                if second == 5 { fleet.store.fail(nil) }
                fleet.clock.advance(by: .seconds(1))
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(one.access == "access-2")
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
            while rounds < 300 {
                rounds += 1
                let dying = gateways[0].line.isDoomed
                let (one, other) = (gateways[0], gateways[1])
                async let first = one.credential()
                async let second = other.credential()
                if dying {
                    let index = try await Self.firstDead(of: gateways)
                    gateways[1 - index].line.release()
                    for _ in 1...1000 where gateways[1 - index].access == nil {
                        fleet.clock.advance(by: .seconds(1))
                        try await Task.sleep(for: .milliseconds(2))
                    }
                    gateways[index].keeper.close()
                    deaths += 1
                    let next = fleet.gateway("\(rounds)")
                    gateways[index] = next
                    group.addTask { try await next.run() }
                }
                _ = await (first, second)
                if (rounds + 1).isMultiple(of: 10) {
                    let fate: AuthorityLine.Fate =
                        Bool.random(using: &random) ? .diesBeforeTheAuthorityIsAsked : .diesBeforeTheAnswerIsStored
                    for gateway in gateways { gateway.line.decree(fate) }
                }
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
