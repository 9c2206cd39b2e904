import GRDB
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayAudit

@Suite("Views and indices", .timeLimit(.minutes(5)))
struct AuditIndexTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func names(_ type: String) throws -> Set<String> {
        try DatabaseQueue(path: fixture.path).read {
            Set(
                try String.fetchAll(
                    $0,
                    sql: "SELECT name FROM sqlite_schema WHERE type = ? AND sql IS NOT NULL",
                    arguments: [type]
                )
            )
        }
    }

    private func query(_ sql: String) throws -> [Row] {
        try DatabaseQueue(path: fixture.path).read { try Row.fetchAll($0, sql: sql) }
    }

    private var indices: Set<String> { Set(AuditIndex.all.map(\.name)) }

    @Test func aNewLogHasThem() async throws {
        try await fixture.write(1)
        #expect(try names("index") == indices.union(["token_events_by_credential"]))
        #expect(try names("view") == ["credential_history", "uses", "failures", "renewals", "requests"])
    }

    @Test func aLogOfAnEarlierVersionGetsThem() async throws {
        try await fixture.write(3)
        try fixture.tamper(AuditFixture.withoutViewsAndIndices)
        #expect(try names("index") == ["token_events_by_credential"])
        #expect(try await fixture.reader.query(AuditFilter(request: "r-1")).count == 3)
        let log = try fixture.open()
        await log.close()
        #expect(try names("index").isSuperset(of: indices) && names("view").count == 5)
        #expect(try await fixture.verify().isIntact)
    }

    /// One with another text may lack rows.
    @Test func anIndexWithAnotherTextIsReplaced() async throws {
        try await fixture.write(3)
        try fixture.tamper(
            "DROP INDEX token_requests_by_at; CREATE INDEX token_requests_by_at ON token_requests (at) WHERE status = 1;"
                + "DROP VIEW uses; CREATE VIEW uses AS SELECT 1"
        )
        let log = try fixture.open()
        await log.close()
        let sql =
            try query("SELECT sql FROM sqlite_schema WHERE name = 'token_requests_by_at'").first?["sql"] as String?
        #expect(sql == AuditIndex.requestsByTime.sql)
        #expect(try query("SELECT status_401 FROM uses").isEmpty)
        #expect(try await fixture.verify().isIntact)
    }

    @Test func aTableInThePlaceOfAViewIsAnErrorThatSaysWhatToDo() async throws {
        try await fixture.write(3)
        try fixture.tamper("DROP VIEW failures; CREATE TABLE failures (mine)")
        #expect { try fixture.open() } throws: { "\($0)".contains("ALTER TABLE failures RENAME TO") }
        let breach = try await fixture.verify().breach
        #expect(breach?.fault == .replaced && breach?.explanation.contains("failures") == true)
        #expect(try query("SELECT mine FROM failures").isEmpty, "a table of somebody else stays")
        try fixture.tamper("ALTER TABLE failures RENAME TO mine")
        await (try fixture.open()).close()
        #expect(try await fixture.verify().isIntact)
    }

    @Test func aViewThatSomebodyHasReplacedIsFoundAndRestored() async throws {
        try await fixture.write(3)
        try fixture.tamper("DROP VIEW uses; CREATE VIEW uses AS SELECT 1 AS requests")
        let breach = try await fixture.verify().breach
        #expect(breach?.fault == .replaced && breach?.explanation.contains("uses") == true)
        await (try fixture.open()).close()
        #expect(try await fixture.verify().isIntact)
    }

    /// Also one without an end, which would be read for ever.
    @Test(arguments: ["token_use", "token_requests", "audit_log"])
    func aViewInThePlaceOfATableIsFoundAndNotRead(_ table: String) async throws {
        try await fixture.write(3)
        try fixture.tamper(
            AuditFixture.withoutViewsAndIndices
                + "ALTER TABLE \(table) RENAME TO old; CREATE VIEW \(table) AS "
                + "WITH RECURSIVE r AS (SELECT 1 AS minute UNION ALL SELECT minute + 1 FROM r) SELECT * FROM r"
        )
        #expect(try await fixture.verify().breach?.fault == .replaced)
        let who = AuditWho.Question(credential: "box")
        await #expect(throws: AuditError.self) { try await fixture.reader.who(who) }
        await #expect(throws: AuditError.self) { try await fixture.reader.tail(last: 1) }
        #expect { try fixture.open() } throws: { "\($0)".contains("\(table) in the audit log is no longer a table") }
    }

    /// Making an index takes the time that events would wait.
    @Test func aLargeLogGetsThemLaterOrNotByItself() async throws {
        try await fixture.write(5)
        try fixture.tamper(AuditFixture.withoutViewsAndIndices)
        try await DatabaseQueue(path: fixture.path).write { database in
            try AuditSchema.create(in: database, indexingUpTo: 4)
        }
        let ofSmallTables = Set(AuditIndex.all.filter { $0.table != "token_events" }.map(\.name))
        #expect(try names("index") == ofSmallTables.union(["token_events_by_credential"]))
        try fixture.tamper(AuditFixture.withoutViewsAndIndices)
        let log = try fixture.open()
        try fixture.tamper(AuditFixture.withoutViewsAndIndices)
        await log.makeIndices(upTo: 4)
        #expect(try names("index") == ofSmallTables.union(["token_events_by_credential"]))
        await log.makeIndices(upTo: 5)
        #expect(try names("index").isSuperset(of: indices))
        try await log.record(fixture.event(generation: 6))
        await log.close()
        #expect(try await fixture.verify().isIntact)
    }

    @Test func theCommandAddsWhatIsMissing() async throws {
        try await fixture.write(5)
        try fixture.tamper(AuditFixture.withoutViewsAndIndices)
        // A small log gets them together with its tables.
        #expect(try AuditIndexing.complete(fixture.path) { _ in } == 0)
        #expect(try names("index").isSuperset(of: indices))
        #expect(throws: AuditError.self) { try AuditIndexing.complete(fixture.directory.file("none.sqlite")) { _ in } }
    }

    /// The index by time leads to the first row since a time, so one that lacks rows must be found.
    @Test func anIndexByTimeThatLacksARowIsFound() async throws {
        let log = try fixture.open()
        for generation in 1...6 {
            try await log.record(fixture.event(generation: generation))
            fixture.clock.jumpWall(by: .seconds(generation == 4 ? -600 : 60))
        }
        await log.close()
        let start = fixture.clock.now().wall
        for since in [
            start + .seconds(-10_000), start, start + .seconds(30), start + .seconds(600), start + .seconds(10_000),
        ] {
            let all = try await fixture.reader.query(AuditFilter()).filter { $0.at >= since.rfc3339 }
            #expect(try await fixture.reader.query(AuditFilter(since: since)) == all, "\(since)")
            #expect(try await fixture.reader.stats(AuditFilter(since: since)).events == all.count)
        }
        #expect(try await fixture.verify().isIntact)
        try fixture.tamper(
            """
            PRAGMA writable_schema = 1;
            DROP INDEX token_events_by_at;
            CREATE INDEX token_events_by_at ON token_events (at) WHERE id <> 3;
            UPDATE sqlite_master SET sql = '\(AuditIndex.eventsByTime.sql)' WHERE name = 'token_events_by_at';
            """
        )
        let breach = try await fixture.verify().breach
        #expect(breach?.fault == .indexChanged && breach?.explanation.contains("token_events_by_at") == true)
        try fixture.tamper("DROP INDEX token_events_by_at")
        #expect(try await fixture.verify().isIntact)
    }

    /// Every index by which events are found is compared with the rows.
    @Test(arguments: AuditIndex.verified)
    func anIndexThatLacksARowIsFound(_ index: AuditIndex) async throws {
        let log = try fixture.open()
        for generation in 1...6 {
            var event = fixture.event(generation: generation)
            event.demand = CredentialRequest(
                route: "files",
                client: nil,
                requestID: "r-\(generation)",
                clientRequestID: generation == 5 ? nil : "c-\(generation)"
            )
            try await log.record(event)
        }
        await log.close()
        #expect(try await fixture.verify().isIntact)
        let conditions = index.columns.contains("WHERE") ? "AND id <> 3" : "WHERE id <> 3"
        try fixture.tamper(
            """
            PRAGMA writable_schema = 1;
            DROP INDEX \(index.name);
            CREATE INDEX \(index.name) ON \(index.table) \(index.columns) \(conditions);
            UPDATE sqlite_master SET sql = '\(index.sql)' WHERE name = '\(index.name)';
            """
        )
        let breach = try await fixture.verify().breach
        #expect(breach?.fault == .indexChanged && breach?.explanation.contains(index.name) == true)
        try fixture.tamper("DROP INDEX \(index.name)")
        #expect(try await fixture.verify().isIntact)
    }

    /// Their answers are those of the whole table.
    @Test func eventsThatAnIndexFindsAreThoseOfTheTable() async throws {
        let log = try fixture.open()
        let start = fixture.clock.now().wall
        for number in 1...40 {
            let names: [TokenEvent.Name] = [.acquired, .renewed, .requestFailed, .clientDenied]
            let credentials = ["box", "box[user:1]", "boxes", "box2", nil]
            var event = fixture.event(names[number % 4], credential: credentials[number % 5])
            event.demand = CredentialRequest(
                route: "files",
                client: nil,
                requestID: "r-\(number)",
                clientRequestID: number % 3 == 0 ? "c-\(number % 2)" : nil
            )
            if number % 4 > 1 { event.detail = ["count": "3", "requests": "r-\(number) m-\(number) m-9\(number)"] }
            try await log.record(event)
            // The clock jumps.
            fixture.clock.jumpWall(by: .seconds(number == 20 ? -600 : 60))
        }
        await log.close()
        var filters = ["r-7", "c-0", "c-1", "m-7", "m-97", "m-9", "\"", "c"].map { AuditFilter(request: $0) }
        for since in [nil, start + .seconds(600), start + .seconds(9000)] {
            for until in [nil, start + .seconds(900)] {
                filters += [
                    AuditFilter(credential: "box", since: since, until: until),
                    AuditFilter(event: .renewed, since: since, until: until),
                    AuditFilter(credential: "box", event: .requestFailed, since: since, until: until),
                    AuditFilter(request: "c-1", since: since, until: until, failedOnly: true),
                    AuditFilter(request: "c-1", limit: 2),
                ]
            }
        }
        var found: [[AuditRow]] = []
        var sums: [AuditStats] = []
        for filter in filters {
            found.append(try await fixture.reader.query(filter))
            sums.append(try await fixture.reader.stats(filter))
        }
        #expect(Set(found.map(\.count)).count > 5, "they tell rows apart")
        try fixture.tamper(AuditFixture.withoutViewsAndIndices + "DROP INDEX token_events_by_credential;")
        for (index, filter) in filters.enumerated() {
            #expect(try await fixture.reader.query(filter) == found[index], "\(filter)")
            #expect(try await fixture.reader.stats(filter) == sums[index], "\(filter)")
        }
    }

    @Test func theViewsReadAsPeopleDo() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event(.acquired))
        try await log.record(fixture.event(.renewalFailed, outcome: .failed))
        var merged = fixture.event(.requestFailed, outcome: .failed)
        merged.detail = ["explanation": "It is closed.", "count": "7"]
        try await log.record(merged)
        var use = AuditUsageTests.use(client: nil, requests: 4, at: fixture.clock.now().wall)
        use.refusals = TokenUse.Refusals(status: 401, requests: 4)
        log.count(use)
        await log.close()
        let renewals = try query("SELECT event, outcome, reason, error, expires FROM renewals ORDER BY id")
        #expect(renewals.map { $0["event"] as String } == ["acquired", "renewal_failed"])
        #expect(renewals[0]["reason"] == "demand" && renewals[1]["error"] == "invalid_grant")
        let failures = try query("SELECT event, explanation, count, status FROM failures ORDER BY id")
        #expect(failures.map { $0["count"] as Int } == [1, 7])
        #expect(failures[1]["explanation"] == "It is closed." && failures[1]["status"] == 200)
        let uses = try #require(try query("SELECT *, datetime(minute, 'localtime') AS local FROM uses").first)
        #expect((uses["client"] as String?) == nil && uses["status"] == "2xx" && uses["status_401"] == 4)
        #expect(uses["time"] as String == uses["local"] as String)
        #expect(try query("SELECT * FROM requests").isEmpty)
    }

    /// What the commands and the page ask of uses and requests; SQLite chooses the plan by the indices alone.
    @Test func questionsFindTheirRowsByAnIndex() async throws {
        try await fixture.write(1)
        let now = fixture.clock.now().wall
        let filters = [
            AuditFilter(credential: "box"), AuditFilter(credential: "box", since: now, until: now),
            AuditFilter(since: now),
        ]
        let uses = filters.map { filter in
            let condition = filter.condition(for: .uses)
            return (
                AuditSelection(columns: ["requests"], table: "token_use", condition: condition).unorderedSQL, condition
            )
        }
        let requests = [AuditFilter(request: "x"), AuditFilter(credential: "box")].map { filter in
            let condition = filter.condition(for: .requests)
            return (AuditSelection(columns: ["at"], table: "token_requests", condition: condition).sql, condition)
        }
        let events = [
            AuditFilter(credential: "box"), AuditFilter(event: .renewed), AuditFilter(request: "x"),
            AuditFilter(credential: "box", event: .renewed, since: now), AuditFilter(since: now, failedOnly: true),
            AuditFilter(credential: "box", since: now, until: now), AuditFilter(request: "x", until: now),
            AuditFilter(event: .renewed, until: now, failedOnly: true),
        ]
        let plans = try await DatabaseQueue(path: fixture.path).read { database in
            let events = try events.map { filter in
                var condition = filter.condition(for: .events)
                try condition.addIndexedEvents(filter, in: database)
                return (AuditSelection(columns: ["at"], table: AuditSchema.rows, condition: condition).sql, condition)
            }
            // What `explain` asks of an id.
            let explained = try AuditReader.events(ofRequest: "x", newest: 10, in: database).0
            return try (uses + requests + events + [(explained.sql, explained.condition)]).map { sql, condition in
                let rows = try Row.fetchAll(database, sql: "EXPLAIN QUERY PLAN \(sql)", arguments: condition.arguments)
                return rows.map { $0["detail"] as String }
            }
        }
        for plan in plans {
            #expect(
                plan.contains { $0.hasPrefix("SEARCH token_") } && !plan.contains { $0.hasPrefix("SCAN") },
                "\(plan)"
            )
        }
        // Nor is a large answer sorted before its first line is shown.
        for plan in plans.suffix(events.count + 1) { #expect(!plan.contains { $0.contains("TEMP B-TREE") }, "\(plan)") }
    }

    /// Only a row that counts several requests is looked for among the newest.
    @Test func theEventsOfARequestAreFoundHoweverOldTheyAre() async throws {
        let log = try fixture.open()
        var merged = fixture.event(.requestFailed, outcome: .failed)
        merged.demand = CredentialRequest(route: "files", client: nil, requestID: "k-1", clientRequestID: "mine")
        merged.detail = ["count": "2", "requests": "k-1 k-2"]
        try await log.record(merged)
        for generation in 1...5 { try await log.record(fixture.event(generation: generation)) }
        await log.close()
        func found(_ id: String, newest: Int) async throws -> (rows: [Int64?], AuditedRequest.Coverage) {
            let found = try await fixture.reader.request(id, newest: newest, limit: 10)
            return (found.events.map(\.id), found.coverage)
        }
        for id in ["k-1", "mine"] { #expect(try await found(id, newest: 2) == ([1], .newestOfSeveral)) }
        #expect(try await found("k-2", newest: 2) == ([], .newestOfSeveral))
        #expect(try await found("k-2", newest: 6) == ([1], .whole))
        try fixture.tamper(AuditFixture.withoutViewsAndIndices)
        for id in ["k-1", "mine", "k-2"] {
            #expect(try await found(id, newest: 2) == ([], .newest))
            #expect(try await found(id, newest: 6) == ([1], .whole))
        }
    }

    @Test func requestsSinceATimeAreThoseOfTheTable() async throws {
        let log = try fixture.open()
        for number in 0..<6 {
            // The clock jumps.
            let seconds: Int64 = number == 3 ? -60 : Int64(number)
            let request = RequestUse(
                at: fixture.clock.now().wall + .seconds(seconds),
                requestID: "k-\(number)",
                route: "files",
                client: nil,
                method: "GET",
                status: 200,
                bytesReceived: 0,
                bytesSent: 0,
                duration: .zero
            )
            #expect(log.keep([request]) == 0)
        }
        await log.close()
        final class Found: Sendable { let ids = Mutex<[String]>([]) }
        let found = Found()
        try await fixture.reader.forEachRequest(AuditFilter(since: fixture.clock.now().wall + .seconds(2))) { row in
            found.ids.withLock { $0.append(row.requestID) }
        }
        #expect(found.ids.withLock { $0 } == ["k-2", "k-4", "k-5"])
        let none = AuditFilter(since: fixture.clock.now().wall + .seconds(9))
        #expect(try await fixture.reader.forEachRequest(none) { _ in } == 0)
        #expect(try await fixture.reader.request("k-0", newest: 1, limit: 10).coverage == .whole, "an index finds it")
        #expect(try await fixture.reader.request("k-0", newest: 1, limit: 10).requests.map(\.requestID) == ["k-0"])
    }
}

@Suite("Lines for a terminal", .timeLimit(.minutes(1)))
struct AuditFormatterWidthTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func row() async throws -> AuditRow {
        let log = try fixture.open()
        var event = fixture.event(.renewalFailed, outcome: .failed)
        event.detail = ["explanation": String(repeating: "word ", count: 60)]
        try await log.record(event)
        await log.close()
        return try #require(try await fixture.reader.tail(last: 1).first)
    }

    @Test(arguments: [40, 60, 80, 100, 200])
    func noLineIsWiderThanTheTerminal(_ width: Int) async throws {
        let row = try await row()
        let whole = AuditFormatter().line(row)
        let text = AuditFormatter(width: width).line(row)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.allSatisfy { $0.count <= width && !$0.hasSuffix(" ") && !$0.isEmpty }, "\(text)")
        #expect(lines.dropFirst().allSatisfy { $0.hasPrefix("    ") } && lines.count > 1)
        // Every fact is there; only the long one is shortened.
        #expect(text.contains("error=invalid_grant") && text.contains("request=r-1") && text.contains("…"))
        #expect(whole.contains("…") == false && !whole.contains("\n"))
        let coloured = AuditFormatter(coloured: true, width: width).line(row)
        let plain = coloured.replacing("\u{1B}[31m", with: "").replacing("\u{1B}[2m", with: "").replacing(
            "\u{1B}[0m",
            with: ""
        )
        #expect(plain == text, "colors take no room")
    }

    @Test(
        arguments: [
            ("2026-03-01T09:30:00.123Z", "09:30:00Z", "11:30:00"),
            ("2026-02-28T23:59:59.000Z", "2026-02-28 23:59Z", "01:59:59"),
            ("2026-03-01T23:30:00.000Z", "23:30:00Z", "2026-03-02 01:30"),
            ("2025-03-01T09:30:00.000Z", "2025-03-01 09:30Z", "2025-03-01 11:30"),
            ("soon\n", nil, nil),
        ] as [(String, String?, String?)]
    )
    func aNarrowColumnHasShortTimes(_ time: String, _ utc: String?, _ local: String?) {
        let now = UnixTime(seconds: 1_772_357_400)
        let other = SafeText.singleLine(time)
        #expect(AuditFormatter().shortTime(time, now: now) == utc ?? other)
        #expect(AuditFormatter(offset: { _ in 7200 }).shortTime(time, now: now) == local ?? other)
    }

    @Test func theExplanationComesBeforeTheOtherDetails() async throws {
        let log = try fixture.open()
        var event = fixture.event(.requestFailed, outcome: .failed)
        event.detail = ["connection_ms": "0", "explanation": "The name cannot be resolved.", "path": "/a"]
        try await log.record(event)
        await log.close()
        let row = try #require(try await fixture.reader.tail(last: 1).first)
        let lines = AuditFormatter(width: 60).line(row).split(separator: "\n").map { $0.drop { $0 == " " } }
        #expect(lines.contains { $0.contains("The name cannot be resolved.") })
        #expect(lines.last?.contains(#"{"connection_ms":"0","path":"/a"}"#) == true)
        #expect(AuditFormatter().line(row).hasSuffix(row.detail), "a line of any length has the JSON as it is")
    }

    @Test func aRowThatFitsIsAsItIsElsewhere() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event(.locked))
        await log.close()
        let row = try #require(try await fixture.reader.tail(last: 1).first)
        #expect(AuditFormatter(width: 1000).line(row) == AuditFormatter().line(row))
        #expect(AuditFormatter(coloured: true).line(row).contains("\u{1B}[33mlocked"))
    }
}
