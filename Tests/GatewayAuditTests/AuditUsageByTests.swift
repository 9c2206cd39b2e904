import Foundation
import GRDB
import GatewayCore
import GatewayTesting
import Testing

@testable import GatewayAudit

/// Sums of a log by client, route, credential and upstream, and since a time.
@Suite("Audit sums", .timeLimit(.minutes(5)))
struct AuditUsageByTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func use(_ route: String, _ client: String?, status: Int = 2, requests: Int = 1) -> TokenUse {
        let minute = UnixTime(milliseconds: fixture.clock.now().wall.milliseconds / 60_000 * 60_000)
        return TokenUse(
            key: TokenUse.Key(
                minute: minute,
                route: route,
                client: client,
                credential: "box",
                generation: 1,
                statusClass: status
            ),
            requests: requests,
            bytesReceived: 100 * requests,
            bytesSent: 10 * requests
        )
    }

    private func event(_ name: TokenEvent.Name, _ route: String?, _ client: String? = "cron") -> TokenEvent {
        let failed = [TokenEvent.Name.acquisitionFailed, .renewalFailed, .clientDenied].contains(name)
        var event = fixture.event(name, outcome: failed ? .failed : .ok)
        event.demand = route.map { CredentialRequest(route: $0, client: client, requestID: "r") }
        return event
    }

    private func fill() async throws {
        let log = try fixture.open()
        for name in [TokenEvent.Name.acquired, .injected, .renewalFailed] { try await log.record(event(name, "files")) }
        try await log.record(event(.clientDenied, "mail", "phone"))
        try await log.record(event(.renewed, nil))
        log.count(use("files", "cron", requests: 5))
        log.count(use("files", "cron", status: 5, requests: 2))
        log.count(use("files", nil, status: 0))
        log.count(use("mail", "phone", status: 4))
        await log.flushUsage()
        fixture.clock.advance(by: .seconds(7200))
        try await log.record(event(.acquisitionFailed, "mail", "phone"))
        log.count(use("mail", "phone", requests: 3))
        await log.close()
    }

    private func rows(_ usage: AuditUsage) -> [String] {
        usage.groups.map { group in
            "\(group.name ?? "-") \(group.requests) \(group.errors) \(group.bytesReceived) \(group.bytesSent)"
                + " \(group.tokenCalls) \(group.failedTokenCalls)"
        }
    }

    @Test func requestsErrorsBytesAndTokenCallsAreSummedByEachOfThem() async throws {
        try await fill()
        let byClient = try await fixture.reader.usage(by: .client)
        #expect(rows(byClient) == ["cron 7 2 700 70 2 1", "phone 4 1 400 40 1 1", "- 1 1 100 10 1 0"])
        let byRoute = try await fixture.reader.usage(by: .route)
        #expect(rows(byRoute) == ["files 8 3 800 80 2 1", "mail 4 1 400 40 1 1", "- 0 0 0 0 1 0"])
        let byCredential = try await fixture.reader.usage(by: .credential)
        #expect(rows(byCredential) == ["box 12 4 1200 120 4 2"])
        for usage in [byClient, byRoute, byCredential] {
            #expect(usage.total.requests == 12 && usage.total.errors == 4 && usage.total.tokenCalls == 4)
        }
    }

    @Test func upstreamsAreThoseOfTheRoutes() async throws {
        try await fill()
        let both = ["files": "https://api.example", "mail": "https://api.example"]
        #expect(
            rows(try await fixture.reader.usage(by: .upstream, upstreams: both))[0]
                == "https://api.example 12 4 1200 120 3 2"
        )
        let one = try await fixture.reader.usage(by: .upstream, upstreams: ["files": "https://api.example"])
        #expect(
            one.groups.map(\.name) == ["https://api.example", "route mail, which has no upstream here", nil],
            "a route that was removed is not left out"
        )
    }

    @Test func onlyWhatIsNotOlderCounts() async throws {
        try await fill()
        let since = fixture.clock.now().wall + .seconds(-3600)
        #expect(rows(try await fixture.reader.usage(by: .client, since: since)) == ["phone 3 0 300 30 1 1"])
        let stats = try await fixture.reader.stats(since: since)
        #expect(stats.since == since.rfc3339)
        #expect(stats.events == 1 && stats.failures == 1 && stats.calls == 3)
        #expect(try await fixture.reader.stats().events == 6)
    }

    /// What happened in the minute that it begins in is in one row.
    @Test func theFirstMinuteCountsAsAWhole() async throws {
        let log = try fixture.open()
        log.count(use("files", "cron"))
        await log.close()
        let since = UnixTime(milliseconds: fixture.clock.now().wall.milliseconds / 60_000 * 60_000 + 59_999)
        #expect(try await fixture.reader.usage(by: .client, since: since).total.requests == 1)
    }

    @Test func manyNamesAreKeptApart() async throws {
        let log = try fixture.open()
        for number in 0..<500 { log.count(use("route-\(number)", "c", requests: number + 1)) }
        await log.close()
        let groups = try await fixture.reader.usage(by: .route).groups
        #expect(groups.count == 500)
        for number in [0, 63, 64, 499] {
            #expect(groups.first { $0.name == "route-\(number)" }?.requests == number + 1)
        }
        #expect(groups.map { $0.name ?? "" } == groups.map { $0.name ?? "" }.sorted())
    }

    @Test func numbersThatWereTamperedWithDoNotTrap() async throws {
        let log = try fixture.open()
        log.count(use("files", "cron"))
        log.count(use("mail", "cron"))
        await log.close()
        try fixture.tamper("UPDATE token_use SET requests = \(Int64.max), bytes_sent = \(Int64.min)")
        let usage = try await fixture.reader.usage(by: .client)
        #expect(usage.total.requests == .max)
        #expect(usage.total.bytesSent == .min)
    }

    @Test(arguments: [([5], 5), ([1, 9], 1), ([3, 1, 2], 2), ([4, 4, 4, 1], 4)])
    func theMedianIsTheLowerOneInTheMiddle(_ durations: [Int64], _ median: Int) {
        var sum = AuditTally.Durations()
        for duration in durations { sum.add(duration) }
        #expect(sum.latency?.p50 == median)
        #expect(sum.latency?.count == durations.count)
        #expect(AuditTally.Durations().latency == nil)
    }

    @Test func theNamesOfTheLogAreThoseOfAllItsTables() async throws {
        try await fill()
        #expect(try await fixture.reader.names(in: .route).sorted() == ["files", "mail"])
        #expect(try await fixture.reader.names(in: .client).sorted() == ["cron", "phone"])
        #expect(try await fixture.reader.names(in: .credential) == ["box"])
    }
}
