import GatewayCore
import GatewayTesting
import Testing

@testable import GatewayAudit

@Suite("Sums of all gateways", .timeLimit(.minutes(5)))
struct SharedAuditStatsTests {
    let log: AuditFixture
    let shared: SharedAuditFixture

    init() throws {
        log = try AuditFixture()
        shared = try SharedAuditFixture()
    }

    private func fill(_ fixture: AuditFixture, _ count: Int) async throws {
        let file = try fixture.open()
        for generation in 1...count {
            try await file.record(fixture.event(generation: generation))
            try await file.record(fixture.event(.renewalFailed, credential: "b", outcome: .failed))
            file.count(AuditUsageTests.use(generation: generation, requests: 10, at: fixture.clock.now().wall))
            fixture.clock.advance(by: .seconds(60))
        }
        try await file.record(fixture.event(.gatewayStopped, credential: nil, generation: nil))
        await file.close()
    }

    @Test func theSumsOfOneLogAreItsOwn() async throws {
        try await fill(log, 5)
        try await shared.ship(log, as: "c1", host: "gw-1")
        let reader = try shared.reader()
        for since in [nil, log.clock.now().wall + .seconds(-90)] {
            #expect(try await reader.stats(since: since) == log.reader.stats(since: since))
            for grouping in AuditUsage.Grouping.allCases {
                let upstreams = ["files": "https://api.example"]
                let expected = try await log.reader.usage(by: grouping, since: since, upstreams: upstreams)
                #expect(try await reader.usage(by: grouping, since: since, upstreams: upstreams) == expected)
            }
        }
        await reader.close()
    }

    /// Both use the same names at the same time.
    @Test func theSumsOfTwoLogsAreAddedUp() async throws {
        let other = try AuditFixture()
        try await fill(log, 5)
        try await fill(other, 3)
        try await shared.ship(log, as: "c1", host: "gw-1")
        try await shared.ship(other, as: "c2", host: "gw-2")
        let reader = try shared.reader()
        let stats = try await reader.stats()
        #expect(stats.events == 18 && stats.failures == 8 && stats.calls == 80)
        let box = try #require(stats.credentials.first { $0.name == "box" })
        #expect(box.events == 8 && box.calls == 80 && box.acquire == .init(count: 8, p50: 120, max: 120))
        let failing = try #require(stats.credentials.first { $0.name == "b" })
        #expect(failing.failures == 8 && failing.lastFailureAt == "2026-03-01T09:34:00.000Z")
        let usage = try await reader.usage(by: .client)
        #expect(usage.total.requests == 80 && usage.total.tokenCalls == 16 && usage.total.failedTokenCalls == 8)
        await reader.close()
    }

    @Test func numbersThatWereTamperedWithDoNotTrap() async throws {
        try await fill(log, 2)
        try await shared.ship(log, as: "c1", host: "gw-1")
        try shared.tamper("UPDATE authgateway.audit_use SET requests = \(Int64.max), bytes_sent = \(Int64.min)")
        let reader = try shared.reader()
        #expect(try await reader.stats().calls == .max)
        await reader.close()
    }
}
