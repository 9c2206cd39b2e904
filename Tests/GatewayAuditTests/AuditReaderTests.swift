import Foundation
import GRDB
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Testing

@testable import GatewayAudit

@Suite("Audit reader", .timeLimit(.minutes(5)))
struct AuditReaderTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    @Test func aLogThatIsNotThereIsExplained() async throws {
        let error = await #expect(throws: AuditError.self) { try await fixture.reader.tail(last: 1) }
        #expect(error?.reason.contains(fixture.path) == true)
    }

    @Test func aFolderAndAPipeAreCalledWhatTheyAre() async throws {
        let pipe = fixture.directory.file("pipe")
        let code = unsafe mkfifo(pipe, 0o600)
        try #require(code == 0)
        for (path, kind) in [(fixture.directory.file(""), "a folder"), (pipe, "a pipe")] {
            let error = await #expect(throws: AuditError.self) { try await AuditReader(path: path).stats() }
            #expect(error?.reason.contains("is \(kind), not an audit log") == true)
            #expect { try AuditIndexing.complete(path) { _ in } } throws: { "\($0)".contains(kind) }
        }
    }

    @Test func anotherDatabaseIsNotTakenForALog() async throws {
        try await DatabaseQueue(path: fixture.path).write { try $0.execute(sql: "CREATE TABLE recipes (name)") }
        let error = await #expect(throws: AuditError.self) { try await fixture.reader.stats() }
        #expect(error?.reason.contains("is not an audit log") == true)
    }

    @Test func filtersSelectRows() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event(.gatewayStarted, credential: nil, generation: nil))
        try await log.record(fixture.event(.acquired, credential: "box"))
        try await log.record(fixture.event(.acquired, credential: "box[user:42]"))
        try await log.record(fixture.event(.acquired, credential: "boxer"))
        fixture.clock.advance(by: .seconds(60))
        try await log.record(fixture.event(.renewalFailed, credential: "box", outcome: .failed))
        let minuteLater = fixture.clock.now().wall

        func ids(_ filter: AuditFilter) async throws -> [Int64] { try await fixture.reader.query(filter).map(\.id) }
        #expect(try await ids(AuditFilter()) == [1, 2, 3, 4, 5])
        #expect(try await ids(AuditFilter(credential: "box")) == [2, 3, 5])
        #expect(try await ids(AuditFilter(credential: "box[user:42]")) == [3])
        #expect(try await ids(AuditFilter(event: .acquired)) == [2, 3, 4])
        #expect(try await ids(AuditFilter(failedOnly: true)) == [5])
        #expect(try await ids(AuditFilter(since: minuteLater)) == [5])
        #expect(try await ids(AuditFilter(until: minuteLater)) == [1, 2, 3, 4])
        #expect(try await ids(AuditFilter(route: "files", client: "cron", limit: 2)) == [4, 5])
        #expect(try await ids(AuditFilter(route: "elsewhere")) == [])
        #expect(try await ids(AuditFilter(credential: "box", limit: 1)) == [5])
        #expect(try await ids(AuditFilter(after: 3)) == [4, 5])
        #expect(try await ids(AuditFilter(limit: 0)) == [])
        #expect(try await ids(AuditFilter(credential: "' OR 1 --")) == [])
        #expect(try await fixture.reader.tail(last: 2).map(\.id) == [4, 5])
    }

    @Test func aRequestIsFoundByItsIDByTheClientsAndAmongThoseThatARowCounts() async throws {
        let log = try fixture.open()
        func event(_ id: String, client: String? = nil, counts ids: String? = nil) -> TokenEvent {
            var event = fixture.event(ids == nil ? .acquired : .requestFailed)
            event.demand = CredentialRequest(route: "files", client: nil, requestID: id, clientRequestID: client)
            event.detail["requests"] = ids
            return event
        }
        try await log.record(event("k-1", client: "mine"))
        try await log.record(event("k-2"))
        try await log.record(event("k-3", counts: "k-4 k-5 k-66"))
        try await log.record(event("k-7", client: "mine"))
        await log.close()
        for (id, rows) in [("k-1", [1]), ("mine", [1, 4]), ("k-4", [3]), ("k-66", [3]), ("k-6", []), ("k", [])]
            as [(String, [Int64])]
        {
            #expect(try await fixture.reader.query(AuditFilter(request: id)).map(\.id) == rows)
            #expect(try await fixture.reader.query(AuditFilter()).filter { $0.concerns(request: id) }.map(\.id) == rows)
        }
        let row = try #require(try await fixture.reader.query(AuditFilter(request: "k-1")).first)
        #expect(row.clientRequestID == "mine" && row.json.contains(#""request_id":"k-1","client_request_id":"mine","#))
        let column = try await DatabaseQueue(path: fixture.path).read {
            try String?.fetchAll($0, sql: "SELECT client_request_id FROM token_events ORDER BY id")
        }
        #expect(column == ["mine", nil, nil, "mine"])
    }

    @Test func aRequestIsLookedForWhateverNumbersTheRowsHave() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event())
        await log.close()
        try fixture.tamper("UPDATE token_events SET id = \(Int64.min + 1)")
        let found = try await fixture.reader.request("r-1", newest: 10, limit: 10)
        #expect(found.events.map(\.id) == [Int64.min + 1])
        #expect(found.coverage == .whole)
    }

    /// It is worked out from the detail, so whoever changes it changes what the chain covers.
    @Test func theClientsIDIsInTheChain() async throws {
        let log = try fixture.open()
        var event = fixture.event()
        event.demand = CredentialRequest(route: "files", client: nil, requestID: "k-1", clientRequestID: "mine")
        try await log.record(event)
        await log.close()
        #expect(try await fixture.verify().isIntact)
        try fixture.tamper("UPDATE token_events SET detail = json_set(detail, '$.client_request_id', 'yours')")
        #expect(try await fixture.verify().breach?.fault == .changed)
    }

    @Test func readingStopsWhenItsConsumerDoes() async throws {
        try await fixture.write(5)
        struct Enough: Error {}
        await #expect(throws: Enough.self) {
            try await fixture.reader.forEach(AuditFilter()) { if $0.id == 3 { throw Enough() } }
        }
    }

    @Test func aFollowerSeesRowsFromBeforeTheFileToAfterARestart() async throws {
        var rows = fixture.reader.follow(after: 0, every: .milliseconds(5)).makeAsyncIterator()
        async let written: Void = writeInThreeRuns()
        for expected in 1...9 { #expect(try await rows.next()?.id == Int64(expected)) }
        try await written
    }

    private func writeInThreeRuns() async throws {
        for _ in 1...3 { try await fixture.write(3) }
    }

    @Test func aLogThatComesLaterIsNewFromItsFirstRow() async throws {
        let feed = AuditFeed(path: fixture.path, after: nil)
        #expect(try await feed.newRows().isEmpty)
        try await fixture.write(3)
        #expect(try await feed.newRows().map(\.id) == [1, 2, 3])
        #expect(try await feed.newRows().isEmpty)
    }

    @Test func aFileThatHasNoTableYetIsAskedAgain() async throws {
        try Data().write(to: URL(fileURLWithPath: fixture.path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: fixture.path)
        let feed = AuditFeed(path: fixture.path, after: 0)
        #expect(try await feed.newRows().isEmpty)
        try await fixture.write(3)
        #expect(try await feed.newRows().map(\.id) == [1, 2, 3])
    }

    @Test func aFollowerBeginsAfterWhatItWasTold() async throws {
        try await fixture.write(5)
        #expect(try await Self.first(2, of: fixture.reader.follow(after: 3, every: .milliseconds(5))) == [4, 5])
    }

    @Test func aFollowerWithoutAStartSeesOnlyWhatIsNew() async throws {
        try await fixture.write(5)
        let log = try fixture.open()
        let follow = fixture.reader.follow(after: nil, every: .milliseconds(5))
        let writer = Task {
            while !Task.isCancelled { try await log.record(fixture.event(.renewed)) }
        }
        let seen = try await Self.first(3, of: follow)
        writer.cancel()
        _ = await writer.result
        #expect(seen.allSatisfy { $0 > 5 })
        #expect(seen.dropFirst().elementsEqual(seen.dropLast().map { $0 + 1 }))
        await log.close()
    }

    @Test func aFollowerGoesOverToANewLog() async throws {
        try await fixture.write(4)
        let follow = fixture.reader.follow(after: 0, every: .milliseconds(5))
        var rows = follow.makeAsyncIterator()
        for expected in 1...4 { #expect(try await rows.next()?.id == Int64(expected)) }
        for file in [fixture.path, fixture.head] {
            try FileManager.default.moveItem(atPath: file, toPath: file + ".old")
        }
        fixture.clock.advance(by: .seconds(5))
        try await fixture.write(6)
        for expected in 1...6 { #expect(try await rows.next()?.id == Int64(expected)) }
    }

    @Test func aFollowerEndsWithItsTask() async throws {
        try await fixture.write(1)
        let follow = fixture.reader.follow(after: 1, every: .seconds(60))
        let task = Task { try await Self.first(1, of: follow) }
        task.cancel()
        #expect(try await task.value == [])
    }

    private static func first(_ count: Int, of follow: AuditFollow) async throws -> [Int64] {
        var ids: [Int64] = []
        for try await row in follow {
            ids.append(row.id)
            if ids.count == count { break }
        }
        return ids
    }

    @Test func statisticsSumEventsCallsAndLatencies() async throws {
        let log = try fixture.open()
        for milliseconds in [100, 300, 200] {
            var event = fixture.event(.acquired)
            event.duration = .milliseconds(milliseconds)
            try await log.record(event)
        }
        try await log.record(fixture.event(.renewalFailed, outcome: .failed))
        try await log.record(fixture.event(.gatewayStarted, credential: nil))
        log.count(AuditUsageTests.use(requests: 7, at: fixture.clock.now().wall))
        await log.flushUsage()
        let stats = try await fixture.reader.stats()
        #expect(stats.events == 5)
        #expect(stats.failures == 1)
        #expect(stats.calls == 7)
        let box = try #require(stats.credentials.first { $0.name == "box" })
        #expect(box.events == 4)
        #expect(box.failures == 1)
        #expect(box.calls == 7)
        #expect(box.acquire == AuditStats.Latency(count: 3, p50: 200, max: 300))
        #expect(box.renew == AuditStats.Latency(count: 1, p50: 120, max: 120))
        #expect(box.lastFailureCode == "invalid_grant")
    }

    @Test func linesAreAlignedAndTimesLocalOnRequest() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event(.acquired))
        try await log.record(fixture.event(.renewalFailed, credential: "b", outcome: .failed))
        let rows = try await fixture.reader.tail(last: 2)
        let lines = rows.map { AuditFormatter().line($0) }
        #expect(lines[0].hasPrefix("2026-03-01T09:30:00.000Z  acquired            box                   gen 1"))
        #expect(lines[1].hasPrefix("2026-03-01T09:30:00.000Z  renewal_failed      b                     gen 1"))
        #expect(lines[1].contains("failed"))
        #expect(lines[1].contains("error=invalid_grant"))
        let offset: @Sendable (UnixTime) -> Int = { _ in -5 * 3600 - 1800 }
        #expect(AuditFormatter(offset: offset).line(rows[0]).hasPrefix("2026-03-01T04:00:00.000-05:30  acquired"))
        #expect(AuditFormatter(coloured: true).line(rows[1]).contains("\u{1B}[31m"))
    }

    @Test func jsonLinesCarryEveryColumn() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event())
        let row = try #require(try await fixture.reader.tail(last: 1).first)
        let columns = try await DatabaseQueue(path: fixture.path).read {
            try String.fetchAll($0, sql: "SELECT name FROM pragma_table_xinfo('token_events')")
        }
        guard case .object(let members) = JSONValue(Array(row.json.utf8)) else {
            Issue.record("not an object: \(row.json)")
            return
        }
        #expect(Set(members.keys) == Set(columns))
        #expect(members["detail"]?["host"]?.string == "api.example")
        #expect(members["waiters"] == .number(3))
        #expect(members["error_code"] == .null)
    }

    /// Whoever has the file can put an index into it that lacks a row.
    @Test func anIndexOfSomebodyElseHidesNoRow() async throws {
        try await fixture.write(5)
        try fixture.tamper(
            """
            PRAGMA writable_schema = 1;
            DROP INDEX token_events_by_event;
            CREATE INDEX planted ON token_events (event, id) WHERE id <> 3;
            UPDATE sqlite_master SET sql = 'CREATE INDEX planted ON token_events (event, id)' WHERE name = 'planted';
            """
        )
        let hidden = try await DatabaseQueue(path: fixture.path).read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM token_events WHERE event = 'acquired'")
        }
        #expect(hidden == 4, "the index is used by others")
        let since = AuditFilter(event: .acquired, since: fixture.clock.now().wall)
        #expect(try await fixture.reader.query(since).map(\.id) == [1, 2, 3, 4, 5])
        #expect(try await fixture.reader.query(AuditFilter(event: .acquired)).map(\.id) == [1, 2, 3, 4, 5])
        #expect(try await fixture.verify().isIntact)
    }
}

@Suite("Newest rows of the audit log", .timeLimit(.minutes(5)))
struct AuditNewestTests {
    private let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    @Test func theNewestStandFirst() async throws {
        try await fixture.write(5)
        let (rows, isWhole, endedBefore) = try await fixture.reader.newest(lookingAt: 10)
        #expect(rows.map(\.id) == [5, 4, 3, 2, 1])
        #expect(isWhole && endedBefore == nil)
    }

    @Test func noMoreAreLookedAtThanWasSaid() async throws {
        try await fixture.write(5)
        let (rows, isWhole, endedBefore) = try await fixture.reader.newest(lookingAt: 3, picking: { $0.id != 4 })
        #expect(rows.map(\.id) == [5, 3])
        #expect(!isWhole && endedBefore == 2)
        #expect(try await fixture.reader.newest(lookingAt: 5).isWhole)
    }

    @Test func aRowCanEndTheSearch() async throws {
        try await fixture.write(5)
        let (rows, isWhole, endedBefore) = try await fixture.reader.newest(lookingAt: 10, until: { $0.id <= 2 })
        #expect(rows.map(\.id) == [5, 4, 3])
        #expect(!isWhole && endedBefore == 2)
    }

    @Test func anObserverIsToldOfRowsAsTheyStandInTheLog() async throws {
        let told = Watched<[AuditRow]>([])
        let log = try SQLiteAuditLog(
            options: SQLiteAuditLog.Options(path: fixture.path, instance: "gw-1"),
            keys: fixture.keys,
            clock: fixture.clock,
            logger: Logger(label: "audit") { _ in SwiftLogNoOpLogHandler() },
            observer: { rows in told.update { $0 += rows } }
        )
        var evil = fixture.event(.acquired)
        evil.detail = ["reason": "a\nforged line"]
        try await log.record(evil)
        try await log.record(fixture.event(.renewed))
        let rows = try await told.until { $0.count == 2 }
        #expect(rows == (try await fixture.reader.query(AuditFilter())))
        #expect(!rows[0].detail.contains("\n"))
    }
}

@Suite("The newest rows of the audit log", .timeLimit(.minutes(5)))
struct AuditTailTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func tail(_ rows: Int, keys: AuditKeys? = nil) async throws -> AuditVerification {
        try await fixture.reader.verifyTail(keys: keys ?? fixture.keys, rows: rows)
    }

    @Test(arguments: [1, 3, 5, 100])
    func anIntactEndFits(_ rows: Int) async throws {
        try await fixture.write(5)
        let found = try await tail(rows)
        #expect(found.isIntact && found.rows == min(rows, 5) && found.lastRow == 5)
    }

    @Test func anEmptyLogFits() async throws {
        await (try fixture.open()).close()
        #expect(try await tail(10).isIntact)
    }

    @Test func aChangeAmongThemIsFoundAndOneBeforeThemIsNot() async throws {
        try await fixture.write(5)
        try fixture.tamper("UPDATE token_events SET credential = 'x' WHERE id = 2")
        #expect(try await tail(3).isIntact)
        #expect(try await tail(4).breach?.row == 2)
    }

    @Test func aCutEndIsFoundByTheHead() async throws {
        try await fixture.write(5)
        try fixture.tamper("DELETE FROM token_events WHERE id = 5")
        #expect(try await tail(2).breach?.fault == .cutTail)
    }

    @Test func anotherKeyIsFound() async throws {
        try await fixture.write(2)
        #expect(try await tail(2, keys: AuditFixture.keys(9)).breach?.fault == .foreignKey)
    }
}
