import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

/// What operators bring and take away while another gateway renews, and while the store cannot be reached.
@Suite("Operators of a fleet", .timeLimit(.minutes(1)))
struct FleetOperatorTests {
    private static let brought = TokenOperation.import(
        ImportedToken(access: Secret("brought"), lifetime: .seconds(600))
    )
    private static let refused = TokenOperation.import(
        ImportedToken(access: Secret("b"), refreshToken: Secret("garbage"))
    )

    /// Both have `access-1`. `one` hears of changes only with ``FleetGateway/hear(_:)``.
    private func running(
        _ fleet: FleetBench,
        _ body: @escaping @Sendable (FleetGateway, FleetGateway) async throws -> Void
    ) async throws {
        let (one, other) = (fleet.gateway("one"), fleet.gateway("other"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await other.run() }
            #expect(await other.credential().access == "access-1")
            group.addTask { try await one.keeper.run() }
            #expect(await one.credential().access == "access-1")
            try await body(one, other)
        }
    }

    private func refresh(_ gateway: FleetGateway, until access: String) async throws {
        _ = try await gateway.keeper.perform(.refresh).get()
        try await gateway.untilAccess(access)
    }

    private func reject(_ gateway: FleetGateway, at fleet: FleetBench) throws {
        guard case .ready(let credential) = gateway.keeper.current(at: fleet.clock.now().monotonic) else {
            throw ConformanceFailure("the gateway has no token")
        }
        gateway.keeper.rejected(generation: credential.generation, by: .sample)
    }

    // MARK: Rejections

    private static let rejections = RejectionLedger.Rules().renewalsPerClient * 2

    /// The upstream rejects a token on a path where it has worked.
    private func requireThatCounts(_ generation: Int, _ gateway: FleetGateway, at fleet: FleetBench) throws {
        let record = try #require(gateway.keeper.rejections)
        let path = Array("/x".utf8)
        let template = PathTemplate(path.span, method: 0..<0, path: 0..<path.count)
        let key = RejectionLedger.Key(route: 0, template: template)
        record.confirm(key, generation: generation)
        let now = fleet.clock.now().monotonic
        #expect(record.decision(for: key, generation: generation, client: "a", at: now) == .counts)
    }

    private func generation(_ gateway: FleetGateway, at fleet: FleetBench) -> Int {
        gateway.keeper.status(at: fleet.clock.now()).generation
    }

    private func rejectAndCount(_ gateway: FleetGateway, at fleet: FleetBench) throws {
        try requireThatCounts(generation(gateway, at: fleet), gateway, at: fleet)
        try reject(gateway, at: fleet)
    }

    /// Authorities end the older token with each renewal. The others hear of that from their upstreams, some of the time.
    @Test func whatAnotherGatewayRenewsCostsNoClientItsBudget() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, other in
            for number in 1...Self.rejections {
                try await refresh(other, until: "access-\(number + 1)")
                try rejectAndCount(one, at: fleet)
                try await one.untilAccess("access-\(number + 1)")
            }
            #expect(one.audit.count(of: .renewing) == 0)
        }
    }

    @Test func aRenewalUnderWayCostsNoClientItsBudget() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, _ in
            for number in 1...Self.rejections {
                one.line.decree(.waits)
                async let refreshed = one.keeper.perform(.refresh)
                while !one.line.isStuck { try await Task.sleep(for: .milliseconds(1)) }
                try rejectAndCount(one, at: fleet)
                one.line.release()
                _ = try await refreshed.get()
                try await one.untilAccess("access-\(number + 1)")
            }
        }
    }

    @Test func whatIsRejectedAfterAnImportCostsNoClientItsBudget() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, _ in
            for _ in 1...Self.rejections {
                let earlier = generation(one, at: fleet)
                _ = try await one.keeper.perform(Self.brought).get()
                #expect(generation(one, at: fleet) > earlier)
                try requireThatCounts(earlier, one, at: fleet)
            }
        }
    }

    /// Otherwise the rejection of every later token would count, on each path.
    @Test func aTokenThatOvertakesARenewalGetsALaterGeneration() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        let write: @Sendable (Int) -> Void = { number in
            let token = TokenSet(access: Secret("theirs-\(number)"), obtainedAt: fleet.clock.now().wall)
            fleet.store[FleetBench.key] = StoredToken(generation: 1, token: token)
        }
        try await running(fleet) { one, _ in
            // What is adopted gets a later number here than it has in the store.
            for number in 1...3 {
                write(number)
                try await one.hear(fleet)
                try await one.untilAccess("theirs-\(number)")
            }
            let earlier = generation(one, at: fleet)
            #expect(earlier > 3)
            one.line.decree(.waits)
            async let refreshed = one.keeper.perform(.refresh)
            while !one.line.isStuck { try await Task.sleep(for: .milliseconds(1)) }
            write(4)
            one.line.release()
            _ = try await refreshed.get()
            try await one.untilAccess("theirs-4")
            #expect(generation(one, at: fleet) > earlier)
        }
    }

    // MARK: Imports

    @Test func anImportIsNotWrittenAnyMoreAfterAnAdoption() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, other in
            one.storeLine.cut()
            _ = try await one.keeper.perform(Self.brought).get()
            #expect(one.access == "brought")
            try await refresh(other, until: "access-2")
            one.storeLine.mend()
            try await one.hear(fleet)
            try await one.untilAccess("access-2")
            try await refresh(other, until: "access-3")
            try reject(one, at: fleet)
            try await one.untilAccess("access-3")
            #expect(fleet.store[FleetBench.key]?.token.access == Secret("access-3"))
            #expect(fleet.store[FleetBench.key]?.isRejected == false)
        }
    }

    @Test func anImportThatTheStoreHasNotTakenIsWrittenBeforeARenewal() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, other in
            one.storeLine.cut()
            _ = try await one.keeper.perform(Self.brought).get()
            try await refresh(other, until: "access-2")
            one.storeLine.mend()
            try await refresh(one, until: "access-3")
            #expect(fleet.store.saved.contains { $0.token.access == Secret("brought") })
        }
    }

    @Test func aRefusedImportLeavesTheTokenOfAnotherGateway() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            try await refresh(other, until: "access-2")
            #expect(await one.keeper.perform(Self.refused).problem != nil)
            #expect(fleet.store[FleetBench.key]?.token.refreshToken == Secret("refresh-2"))
            #expect(one.access == "access-2")
            // The first one may adopt what is stored again.
            for _ in 1...2 { _ = try await other.keeper.perform(.refresh).get() }
            #expect(fleet.authority.issued >= 3)
            #expect(fleet.authority.refusals == 1, "what was imported")
        }
    }

    @Test func anImportThatFailedWithoutTheStoreOverwritesNothing() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            one.storeLine.cut()
            try await refresh(other, until: "access-2")
            #expect(await one.keeper.perform(Self.refused).problem != nil)
            #expect(one.access == "access-1")
            one.storeLine.mend()
            try reject(one, at: fleet)
            try await one.untilAccess("access-2")
            #expect(fleet.store[FleetBench.key]?.token.refreshToken == Secret("refresh-2"))
            #expect(fleet.authority.refusals == 0)
        }
    }

    @Test func aRefusedImportDoesNotBringBackWhatWasClearedMeanwhile() async throws {
        let fleet = FleetBench(stored: FleetBench.ended)
        try await running(fleet) { one, other in
            one.line.decree(.waits)
            async let refused = one.keeper.perform(Self.refused)
            while !one.line.isStuck { try await Task.sleep(for: .milliseconds(1)) }
            _ = try await other.keeper.perform(.clear).get()
            one.line.release()
            #expect(await refused.problem != nil)
            try await one.untilAccess(nil)
            #expect(fleet.store[FleetBench.key] == nil)
        }
    }

    @Test func aGatewayThatBeginsWithAnImportHearsOfOthers() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        let (one, other) = (fleet.gateway("one"), fleet.gateway("other"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { _ = try await one.keeper.perform(Self.brought).get() }
            // The command comes before the first look into the store.
            try await Task.sleep(for: .milliseconds(50))
            group.addTask { try await one.keeper.run() }
            try await one.untilAccess("brought")
            group.addTask { try await other.run() }
            #expect(await other.credential().access == "brought")
            try await refresh(other, until: "access-1")
            try await one.hear(fleet)
            try await one.untilAccess("access-1")
        }
    }

    // MARK: The audit log

    @Test func aTokenWhoseEventIsLateDoesNotReplaceANewerOne() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        try await running(fleet) { one, other in
            one.audit.fail { $0.name == .renewed }
            #expect(await one.keeper.perform(.refresh).problem?.kind == .auditUnavailable)
            one.audit.fail(nil)
            try await other.untilAccess("access-2")
            try await refresh(other, until: "access-3")
            try await one.hear(fleet)
            try await one.untilAccess("access-3")
            #expect(one.audit.last(.renewed)?.outcome == .failed)
            #expect(one.audit.last(.renewed)?.detail["reason"] == "overtaken")
            try await refresh(one, until: "access-4")
        }
    }
}
