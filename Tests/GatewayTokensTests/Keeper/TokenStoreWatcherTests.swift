import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

/// What a gateway may say that it has followed.
@Suite("Following another gateway", .timeLimit(.minutes(1)))
struct TokenStoreWatcherTests {
    private static let live = TokenSet(
        access: Secret("access-0"),
        refreshToken: Secret("refresh-0"),
        obtainedAt: ManualClock().now().wall,
        expiresAt: ManualClock().now().wall + .seconds(3600)
    )

    private func serving(
        _ body: @escaping @Sendable (FleetBench, FleetGateway) async throws -> Void
    ) async throws {
        let fleet = FleetBench(stored: Self.live)
        let gateway = fleet.gateway("one")
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await gateway.keeper.run() }
            defer { group.cancelAll() }
            try await gateway.untilAccess("access-0")
            try await body(fleet, gateway)
        }
    }

    @Test func aWithdrawalIsFollowedWhenItsUseHasEnded() async throws {
        try await serving { fleet, gateway in
            let before = try #require(await gateway.watcher.follow())
            try await fleet.store.replace(nil, for: FleetBench.key)
            gateway.confirms.update { $0 = false }
            #expect(await gateway.watcher.follow() == nil, "a worker has not answered")
            #expect(gateway.access == nil)
            #expect(await gateway.watcher.follow() == nil, "and is asked again")
            #expect(gateway.ended.value >= 2)
            gateway.confirms.update { $0 = true }
            #expect(try #require(await gateway.watcher.follow()) > before)
        }
    }

    @Test func whatCannotBeReadIsNotFollowed() async throws {
        try await serving { fleet, gateway in
            _ = await gateway.watcher.follow()
            try await fleet.store.replace(nil, for: FleetBench.key)
            gateway.loadFailure.update { $0 = .damaged("another key") }
            #expect(await gateway.watcher.follow() == nil)
            #expect(await gateway.watcher.follow() == nil, "nor is it later")
            #expect(gateway.access == "access-0")
            gateway.loadFailure.update { $0 = nil }
            #expect(await gateway.watcher.follow() != nil)
            #expect(gateway.access == nil)
        }
    }
}

@Suite("What a store tells of changes", .timeLimit(.minutes(1)))
struct ToldChangesTests {
    private func token(_ access: String, in fleet: FleetBench) -> StoredToken {
        let now = fleet.clock.now().wall
        let token = TokenSet(access: Secret(access), obtainedAt: now, expiresAt: now + .seconds(3600))
        return StoredToken(generation: 1, token: token)
    }

    @Test func aChangeThatTheKeeperKnowsIsNotRead() async throws {
        let fleet = FleetBench(rotatesRefreshToken: false)
        fleet.store[FleetBench.key] = token("first", in: fleet)
        let gateway = fleet.gateway("one")
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await gateway.run() }
            defer { group.cancelAll() }
            try await gateway.untilAccess("first")
            try await Task.sleep(for: .milliseconds(100))
            let revision = try await fleet.store.load(FleetBench.key).revision
            let before = loads(of: fleet)
            fleet.store.tell(TokenChange(FleetBench.key, revision))
            fleet.store.tell(TokenChange(CredentialKey(digest: "another"), revision))
            try await Task.sleep(for: .milliseconds(100))
            #expect(loads(of: fleet) == before)
            fleet.store[FleetBench.key] = token("second", in: fleet)
            try await gateway.untilAccess("second")
            #expect(loads(of: fleet) == before + 1)
            // A store that does not say the revision is asked.
            fleet.store.tell(TokenChange(FleetBench.key))
            for _ in 0..<1000 where loads(of: fleet) == before + 1 { try await Task.sleep(for: .milliseconds(5)) }
            #expect(loads(of: fleet) == before + 2)
        }
    }

    private func loads(of fleet: FleetBench) -> Int { fleet.store.operations.filter { $0 == .load }.count }
}
