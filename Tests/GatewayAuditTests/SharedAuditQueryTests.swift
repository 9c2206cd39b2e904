import Foundation
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayAudit

@Suite("Rows of all gateways", .timeLimit(.minutes(5)))
struct SharedAuditQueryTests {
    let log: AuditFixture
    let shared: SharedAuditFixture

    init() throws {
        log = try AuditFixture()
        shared = try SharedAuditFixture()
    }

    /// Rows that differ in all that a filter looks at.
    private func fill() async throws {
        let file = try log.open()
        try await file.record(log.event(.gatewayStarted, credential: nil, generation: nil))
        for credential in ["box", "box[user:42]", "boxer", "a'b\"c\\d ü🔑"] {
            try await file.record(log.event(.acquired, credential: credential))
        }
        log.clock.advance(by: .seconds(60))
        for (id, client, counted) in [("k-1", "mine", nil), ("k-2", "a\"b", nil), ("k-3", nil, "k-4 k-5 k-66")] {
            var event = log.event(counted == nil ? .renewed : .requestFailed, generation: 2)
            event.demand = CredentialRequest(route: "mail", client: "phone", requestID: id, clientRequestID: client)
            event.detail["requests"] = counted
            try await file.record(event)
        }
        log.clock.advance(by: .seconds(60))
        try await file.record(log.event(.renewalFailed, outcome: .failed))
        await file.close()
    }

    @Test func everyFilterSelectsWhatItSelectsInTheLogItself() async throws {
        try await fill()
        try await shared.ship(log, as: "c1", host: "gw-1")
        let reader = try shared.reader()
        try await reader.prepare()
        let (start, end) = (log.clock.now().wall + .seconds(-120), log.clock.now().wall)
        var filters: [AuditFilter] = [AuditFilter(), AuditFilter(failedOnly: true), AuditFilter(event: .acquired)]
        filters += ["box", "box[user:42]", "boxer", "a'b\"c\\d ü🔑", "' OR 1 --", "bo"].map {
            AuditFilter(credential: $0)
        }
        filters += ["k-1", "mine", "a\"b", "k-4", "k-66", "k-6", "k", "", "host"].map { AuditFilter(request: $0) }
        filters += [AuditFilter(route: "mail"), AuditFilter(client: "cron"), AuditFilter(route: "elsewhere")]
        filters += [
            AuditFilter(since: end), AuditFilter(until: end), AuditFilter(since: start + .seconds(1), until: end),
            AuditFilter(after: 4), AuditFilter(credential: "box", route: "mail", client: "phone", since: start),
        ]
        for limit in [0, 1, 3, 4, 100] {
            filters += [AuditFilter(limit: limit), AuditFilter(credential: "box", limit: limit)]
            filters.append(AuditFilter(request: "mine", limit: limit))
        }
        for filter in filters {
            let expected = try await log.reader.query(filter)
            #expect(try await reader.query(filter).map(\.row) == expected, "\(filter)")
        }
        await reader.close()
    }

    @Test func rowsOfAllChainsComeInTheOrderOfTime() async throws {
        let other = try AuditFixture()
        other.clock.advance(by: .seconds(30))
        for fixture in [log, other] {
            let file = try fixture.open()
            for generation in 1...4 {
                try await file.record(fixture.event(generation: generation))
                fixture.clock.advance(by: .seconds(60))
            }
            await file.close()
        }
        try await shared.ship(log, as: "c2", host: "gw-1")
        try await shared.ship(other, as: "c1", host: "gw-\u{1B}2")
        let reader = try shared.reader()
        let rows = try await reader.query()
        #expect(rows.map(\.chain) == ["c2", "c1", "c2", "c1", "c2", "c1", "c2", "c1"])
        #expect(rows.map(\.row.id) == [1, 1, 2, 2, 3, 3, 4, 4])
        #expect(try await reader.query(AuditFilter(limit: 5)) == rows.suffix(5))
        let line = AuditFormatter().line(rows[0])
        #expect(line.hasPrefix("gw-1              2026-03-01T09:30:00.000Z  acquired            box  "))
        #expect(AuditFormatter().line(rows[1]).hasPrefix("gw-\\u001b2"))
        #expect(rows[0].json.hasPrefix(#"{"gateway":"gw-1","chain":"c2","id":1,"at":"2026-03-01T09:30:00.000Z","#))
        let members = try #require(JSONValue(Array(rows[1].json.utf8)))
        #expect(members["gateway"]?.string == "gw-\u{1B}2" && members["hash"]?.string == rows[1].row.hash)
        await reader.close()
    }

    /// As many rows of one moment as several pages have.
    @Test func rowsOfOneMomentAreNeitherLostNorShownTwice() async throws {
        try await log.write(10)
        try await shared.ship(log, as: "c1", host: "gw-1")
        try await shared.ship(log, as: "c2", host: "gw-2")
        for size in [1, 2, 5, 10, 20, 100] {
            let reader = try shared.reader(pageSize: size)
            let found = try await reader.query().map { "\($0.chain) \($0.row.id)" }
            #expect(found == ["c1", "c2"].flatMap { chain in (1...10).map { "\(chain) \($0)" } }, "\(size)")
            await reader.close()
        }
    }

    @Test func aReaderThatStopsEndsTheQuery() async throws {
        struct Stopped: Error {}
        try await log.write(10)
        try await shared.ship(log, as: "c1", host: "gw-1")
        let reader = try shared.reader()
        var count = 0
        await #expect(throws: Stopped.self) {
            try await reader.forEach(AuditFilter()) { _ in
                count += 1
                if count == 4 { throw Stopped() }
            }
        }
        #expect(count == 4)
        await reader.close()
    }

    @Test func namesAreThoseOfAllChains() async throws {
        try await fill()
        let other = try AuditFixture()
        let file = try other.open()
        file.count(AuditUsageTests.use("uploads", client: "tablet", at: other.clock.now().wall))
        await file.close()
        try await shared.ship(log, as: "c1", host: "gw-1")
        try await shared.ship(other, as: "c2", host: "gw-2")
        let reader = try shared.reader()
        #expect(Set(try await reader.names(in: .route)) == ["files", "mail", "uploads"])
        #expect(Set(try await reader.names(in: .client)) == ["cron", "phone", "tablet"])
        #expect(try await reader.names(in: .credential).contains("boxer"))
        #expect(try await reader.names(in: .upstream) == [])
        await reader.close()
    }

    @Test func whatIsWrongWithTheDatabaseIsSaid() async throws {
        let server = try SharedAuditFixture.server.get()
        let empty = try SharedAuditFixture(makesTables: false)
        await requireFailure("authgateway store migrate", of: try empty.reader())
        let role = "reader_\(shared.database)"
        try shared.tamper("CREATE ROLE \(role) LOGIN")
        await requireFailure("lacks a privilege", of: try shared.reader(user: role))
        try shared.tamper("UPDATE authgateway.store SET value = '\(SharedSchema.version + 1)'")
        await requireFailure("newer authgateway", of: try shared.reader())
        let gone = try PostgreSQLURL("postgresql:///x?host=\(server.folder)/nowhere")
        await requireFailure("cannot be used", of: SharedAuditReader(PostgreSQLOptions(gone)))
    }

    private func requireFailure(_ words: String, of reader: SharedAuditReader) async {
        let error = await #expect(throws: AuditError.self) { try await reader.prepare() }
        #expect(error?.reason.contains(words) == true, "\(error?.reason ?? "")")
        await reader.close()
    }
}

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
        let (start, end) = (log.clock.now().wall + .seconds(-150), log.clock.now().wall + .seconds(-60))
        let filters = [
            AuditFilter(), AuditFilter(since: start), AuditFilter(since: start, until: end), AuditFilter(until: end),
            AuditFilter(credential: "box"), AuditFilter(credential: "b", client: "cron", since: start),
            AuditFilter(client: "nobody"),
        ]
        for filter in filters {
            #expect(try await reader.stats(filter) == log.reader.stats(filter))
            for grouping in AuditUsage.Grouping.allCases {
                let upstreams = ["files": "https://api.example"]
                let expected = try await log.reader.usage(by: grouping, filter, upstreams: upstreams)
                #expect(try await reader.usage(by: grouping, filter, upstreams: upstreams) == expected)
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

    @Test func whoUsedACredentialIsSaidOfAllLogs() async throws {
        let other = try AuditFixture()
        try await fill(log, 5)
        let file = try other.open()
        var use = AuditUsageTests.use(client: "laptop", requests: 3, at: other.clock.now().wall)
        use.refusals = TokenUse.Refusals(status: 401, requests: 3)
        file.count(use)
        await file.close()
        try await shared.ship(log, as: "c1", host: "gw-1")
        let reader = try shared.reader()
        for grouping in AuditWho.Grouping.allCases {
            let question = AuditWho.Question(
                credential: "box",
                by: grouping,
                since: log.clock.now().wall + .seconds(-90)
            )
            #expect(try await reader.who(question) == log.reader.who(question))
        }
        try await shared.ship(other, as: "c2", host: "gw-2")
        let answer = try await reader.who(AuditWho.Question(credential: "box"))
        #expect(answer.groups.map(\.name) == ["cron", "laptop"] && answer.total?.requests == 53)
        #expect(answer.recordedSince == "2026-03-01T09:30:00.000Z")
        // As 0.1.0 made the table.
        try shared.tamper(
            AuditSchema.refusalColumns.map { "ALTER TABLE authgateway.audit_use DROP COLUMN \($0);" }.joined()
        )
        #expect(try await reader.who(AuditWho.Question(credential: "box", by: .status)).groups.map(\.requests) == [53])
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
