import GatewayCore
import GatewayTesting
import GatewayTokenKeeper
import Testing

@Suite("What a store tells of changes", .timeLimit(.minutes(1)))
struct TokenStoreWatcherTests {
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
