import Foundation
import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayAudit

@Suite("Audit usage and retention", .timeLimit(.minutes(5)))
struct AuditUsageTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    static func use(
        _ route: String = "files",
        client: String? = "cron",
        generation: Int = 1,
        requests: Int = 1,
        at minute: UnixTime
    ) -> TokenUse {
        TokenUse(
            key: TokenUse.Key(
                minute: minute,
                route: route,
                client: client,
                credential: "box",
                generation: generation,
                statusClass: 2
            ),
            requests: requests,
            bytesReceived: 10 * requests,
            bytesSent: 100 * requests
        )
    }

    private func rows(_ sql: String) throws -> [Row] {
        try DatabaseQueue(path: fixture.path).read { try Row.fetchAll($0, sql: sql) }
    }

    @Test func usesOfOneMinuteAreOneRow() async throws {
        let log = try fixture.open()
        let minute = fixture.clock.now().wall
        for _ in 1...3 { log.count(Self.use(at: minute)) }
        await log.flushUsage()
        log.count(Self.use(requests: 4, at: minute))
        log.count(Self.use(client: nil, at: minute))
        log.count(Self.use(at: minute + .seconds(60)))
        await log.close()
        let rows = try rows("SELECT * FROM token_use ORDER BY minute, client")
        #expect(rows.count == 3)
        #expect(rows[1]["client"] == "cron")
        #expect(rows[1]["requests"] == 7)
        #expect(rows[1]["bytes_received"] == 70)
        #expect(rows[1]["bytes_sent"] == 700)
        #expect(rows[1]["minute"] == "2026-03-01T09:30:00.000Z")
    }

    @Test func whoAsksNowFindsWhatWasCounted() async throws {
        let log = try fixture.open()
        #expect(await log.writePending(within: .seconds(5)), "there is nothing to write")
        log.count(Self.use(requests: 3, at: fixture.clock.now().wall))
        #expect(try rows("SELECT * FROM token_use").isEmpty)
        #expect(await log.writePending(within: .seconds(5)))
        #expect(try rows("SELECT requests FROM token_use").map { $0["requests"] as Int } == [3])
        #expect(await log.writePending(within: .seconds(5)))
        #expect(try rows("SELECT requests FROM token_use").map { $0["requests"] as Int } == [3], "once")
        await log.close()
    }

    @Test func whatCannotBeWrittenNowIsWrittenLater() async throws {
        let log = try fixture.open(busyTimeout: .milliseconds(50))
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: fixture.path, configuration: configuration)
        log.count(Self.use(at: fixture.clock.now().wall))
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let isComplete = await log.writePending(within: .seconds(5))
        #expect(!isComplete)
        try await other.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
        #expect(await log.writePending(within: .seconds(5)))
        #expect(try rows("SELECT * FROM token_use").count == 1)
        await log.close()
    }

    @Test func theServiceWritesUsageAsTimePasses() async throws {
        let log = try fixture.open()
        let service = Task { await log.run() }
        log.count(Self.use(at: fixture.clock.now().wall))
        try await fixture.clock.untilAsleep()
        fixture.clock.advance(by: .seconds(10))
        try await fixture.clock.untilAsleep(moreThan: .seconds(9))
        #expect(try rows("SELECT * FROM token_use").count == 1)
        log.count(Self.use("other", at: fixture.clock.now().wall))
        service.cancel()
        await service.value
        #expect(try rows("SELECT * FROM token_use").count == 2)
    }

    @Test func tooManyDifferentUsesAreDroppedAndCounted() async throws {
        let log = try fixture.open()
        let minute = fixture.clock.now().wall
        for generation in 1...(UsageCounts.limit + 5) { log.count(Self.use(generation: generation, at: minute)) }
        #expect(log.droppedUses == 5)
        log.count(Self.use(generation: 1, at: minute))
        #expect(log.droppedUses == 5)
    }

    @Test func usageThatCannotBeWrittenIsKept() async throws {
        let log = try fixture.open(busyTimeout: .milliseconds(50))
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: fixture.path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        log.count(Self.use(requests: 3, at: fixture.clock.now().wall))
        await log.flushUsage()
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        await log.flushUsage()
        #expect(try rows("SELECT requests FROM token_use").first?["requests"] == 3)
    }

    @Test func theHistoryShowsTheLastGoodTokenTheLastFailureAndTheCalls() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event(.acquired, generation: 1))
        try await log.record(fixture.event(.renewalFailed, generation: 1, outcome: .failed))
        try await log.record(fixture.event(.renewed, generation: 2))
        // Of a request, not of the credential that it went with.
        try await log.record(fixture.event(.requestFailed, generation: 2, outcome: .failed))
        log.count(Self.use(generation: 1, requests: 5, at: fixture.clock.now().wall))
        log.count(Self.use(generation: 2, requests: 6, at: fixture.clock.now().wall))
        await log.flushUsage()
        let history = try rows("SELECT * FROM credential_history")
        #expect(history.count == 1)
        let box = try #require(history.first)
        #expect(box["credential"] == "box")
        #expect(box["last_good_event"] == "renewed")
        #expect(box["last_good_generation"] == 2)
        #expect(box["last_failure_event"] == "renewal_failed")
        #expect(box["last_failure_error_code"] == "invalid_grant")
        #expect(box["calls_per_generation"] == #"{"1":5,"2":6}"#)
        let stats = try await fixture.reader.stats()
        #expect(stats.credentials[0].failures == 1 && stats.credentials[0].lastFailureCode == "invalid_grant")
    }

    @Test func retentionRemovesTheOldestRowsAndTheRestStillVerifies() async throws {
        let log = try fixture.open(retention: .seconds(3600))
        for number in 1...10 {
            try await log.record(fixture.event(generation: number))
            fixture.clock.advance(by: .seconds(600))
        }
        log.count(Self.use(at: fixture.clock.now().wall + .seconds(-7200)))
        await log.flushUsage()
        await log.prune()
        #expect(try await fixture.reader.query(AuditFilter()).map(\.id) == Array(5...10))
        #expect(try rows("SELECT * FROM token_use").isEmpty)
        try await log.record(fixture.event(generation: 11))
        fixture.clock.advance(by: .seconds(86_400))
        await log.prune()
        #expect(try await fixture.reader.query(AuditFilter()).map(\.id) == [11], "the newest row stays")
        try await log.record(fixture.event(generation: 12))
        await log.close()
        let verification = try await fixture.verify()
        #expect(verification.breach == nil)
        #expect(verification.prunedTo == 10)
        #expect(verification.rows == 2)

        let again = try fixture.open()
        try await again.record(fixture.event(generation: 13))
        await again.close()
        #expect(try await fixture.verify().lastRow == 13)
    }

    @Test func usageIsRemovedWhereNoEventIsOldEnough() async throws {
        let log = try fixture.open(retention: .seconds(3600))
        log.count(Self.use(at: fixture.clock.now().wall + .seconds(-7200)))
        await log.flushUsage()
        await log.prune()
        #expect(try rows("SELECT * FROM token_use").isEmpty)
        await log.close()
    }

    @Test func aRowThatWasEditedIsNotRemovedByRetention() async throws {
        let log = try fixture.open(retention: .seconds(60))
        for number in 1...5 { try await log.record(fixture.event(generation: number)) }
        try fixture.tamper("UPDATE token_events SET outcome = 'x' WHERE id = 2")
        fixture.clock.advance(by: .seconds(600))
        await log.prune()
        await log.close()
        #expect(try await fixture.reader.query(AuditFilter()).map(\.id) == Array(1...5))
        #expect(try await fixture.verify().breach?.row == 2)
    }

    @Test func manyRowsAreRemovedInPieces() async throws {
        let log = try fixture.open(retention: .seconds(60))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...4500 {
                group.addTask { try await log.record(fixture.event(generation: number)) }
                if number.isMultiple(of: 1000) { try await group.waitForAll() }
            }
            try await group.waitForAll()
        }
        fixture.clock.advance(by: .seconds(600))
        await log.prune()
        await log.close()
        let verification = try await fixture.verify()
        #expect(verification.breach == nil)
        #expect(verification.prunedTo == 4499)
        #expect(try rows("SELECT * FROM audit_checkpoints").count == 3)
    }

    @Test(arguments: [
        "DELETE FROM token_events WHERE id = 5", "UPDATE audit_checkpoints SET pruned_to_id = 5",
        "DELETE FROM audit_checkpoints", "UPDATE audit_checkpoints SET at = 'x'",
        "UPDATE audit_checkpoints SET pruned_to_id = 5, pruned_to_hash = (SELECT hash FROM token_events WHERE id = 5);"
            + "DELETE FROM token_events WHERE id = 5",
        "INSERT INTO audit_checkpoints SELECT 2, at, 6, (SELECT hash FROM token_events WHERE id = 6), hash, hash "
            + "FROM audit_checkpoints; DELETE FROM token_events WHERE id <= 6",
    ])
    func aDeletionCannotBePassedOffAsRetention(_ sql: String) async throws {
        let log = try fixture.open(retention: .seconds(3600))
        for number in 1...10 {
            try await log.record(fixture.event(generation: number))
            fixture.clock.advance(by: .seconds(600))
        }
        await log.prune()
        await log.close()
        #expect(try await fixture.verify().isIntact)
        try fixture.tamper(sql)
        #expect(try await fixture.verify().isIntact == false)
    }
}

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
        #expect(
            rows(try await fixture.reader.usage(by: .client, AuditFilter(since: since))) == ["phone 3 0 300 30 1 1"]
        )
        let stats = try await fixture.reader.stats(AuditFilter(since: since))
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
        #expect(try await fixture.reader.usage(by: .client, AuditFilter(since: since)).total.requests == 1)
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

@Suite("What is selected from the tables of the audit log", .timeLimit(.minutes(1)))
struct AuditSelectionTests {
    private static let filter = AuditFilter(
        credential: "box",
        route: "files",
        client: "ci",
        event: .renewed,
        request: "r-1",
        failedOnly: true,
        after: 7
    )

    @Test func everyRowIsMeantByDefault() {
        for table in [AuditFilter.Table.events, .requests, .sharedEvents] {
            let condition = AuditFilter().condition(for: table)
            #expect(condition.sql == "true" && condition.parameters.isEmpty)
        }
    }

    @Test func aParameterHasItsNumberInBothDatabases() {
        let local = Self.filter.condition(for: .events)
        let shared = Self.filter.condition(for: .sharedEvents)
        #expect(local.sql.hasPrefix("(credential = $1 OR (credential >= $2 AND credential < $3)) AND route = $4 AND "))
        #expect(shared.sql.hasPrefix("(credential = $1 OR starts_with(credential, $2)) AND route = $3 AND "))
        #expect(local.sql.hasSuffix(" AND outcome = 'failed' AND id > $8"))
        #expect(shared.sql.hasSuffix(" AND outcome = 'failed' AND id > $8"))
        #expect(local.parameters.count == 8 && shared.parameters.count == 8)
    }

    /// SQLite numbers parameters as they first occur in the text.
    @Test func sqliteBindsThemInTheirOrder() throws {
        let database = try DatabaseQueue()
        var condition = AuditCondition()
        let (first, second) = (condition.bind(.text("a")), condition.bind(.integer(2)))
        condition.add("x = \(first) AND y = \(second) AND x = \(first)")
        var selection = AuditSelection(columns: ["y"], table: "numbers", condition: condition)
        selection.isNewestFirst = true
        selection.limit = 1
        #expect(
            selection.sql == "SELECT y FROM numbers WHERE x = $1 AND y = $2 AND x = $1 ORDER BY id DESC LIMIT 1"
        )
        let found = try database.write { [selection] database in
            try database.execute(sql: "CREATE TABLE numbers (id INTEGER PRIMARY KEY, x TEXT, y INTEGER)")
            try database.execute(sql: "INSERT INTO numbers VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 2)")
            return try selection.rows(in: database).map { Array($0.databaseValues) }
        }
        #expect(found == [[2.databaseValue]])
    }

    @Test func aPageBeginsWithItsKey() {
        var selection = AuditSelection(columns: ["x"], table: "numbers", key: ["at", "id"])
        selection.condition.add("x =", .text("a"))
        let page = selection.page(after: nil, size: 10)
        #expect(page.text == "SELECT at, id, x FROM numbers WHERE x = $1 ORDER BY at, id LIMIT 10")
        #expect(page.isRepeatable && page.parameters.count == 1)
    }
}
