import Foundation
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayAudit

@Suite("The copy of the audit log in PostgreSQL", .timeLimit(.minutes(5)))
struct AuditShipperTests {
    let bench: ShippingBench

    init() throws { bench = try ShippingBench() }

    private var fixture: AuditFixture { bench.fixture }

    private func expectWholeCopy(of log: SQLiteAuditLog, at path: String? = nil) async throws {
        let chain = log.chainName
        #expect(try await bench.copied(.events, chain) == bench.local(.events, "token_events", at: path))
        #expect(try await bench.copied(.checkpoints, chain) == bench.local(.checkpoints, "audit_checkpoints", at: path))
        let head = try await bench.shared(
            "SELECT head_id, head_hash, host FROM authgateway.audit_chain WHERE chain = '\(chain)'"
        ).first
        #expect(head?.integer(0) == log.lastRow && head?.text(2) == "host-1")
        #expect(head?.text(1) == log.headToAnchor()?.hash)
    }

    @Test func rowsArriveAsTheyAreInOrderAndInBatches() async throws {
        let log = try fixture.openShipped()
        for number in 1...57 { try await log.record(fixture.event(generation: number)) }
        var odd = fixture.event()
        odd.detail = ["said": "ä\u{1}\u{202E}\"\\\u{1F511}\0"]
        odd.subject = nil
        try await log.record(odd)
        try await bench.ship(log, rows: 10)
        try await expectWholeCopy(of: log)
        #expect(try await bench.count("audit_event", log.chainName) == 58)
        await log.close()
    }

    @Test func commitsAreShippedWithoutDelay() async throws {
        let log = try fixture.openShipped()
        let shipper = try bench.shipper(log)
        for number in 1...5 {
            try await log.record(fixture.event(generation: number))
            #expect(await shipper.confirm(log.lastRow, within: .seconds(20)) == nil)
        }
        #expect(shipper.shipping == AuditShipping(unshipped: 0))
        await shipper.finish()
        try await expectWholeCopy(of: log)
        await log.close()
    }

    @Test func aCopyGoesOnWhereItEnded() async throws {
        let log = try fixture.openShipped()
        for number in 1...5 { try await log.record(fixture.event(generation: number)) }
        try await bench.ship(log)
        for number in 6...12 { try await log.record(fixture.event(generation: number)) }
        #expect(log.unshippedEvents == 7)
        await log.close()
        let again = try fixture.openShipped()
        #expect(again.unshippedEvents == 7, "noted before the database was asked")
        try await bench.ship(again, rows: 3)
        #expect(again.chainName == log.chainName)
        try await expectWholeCopy(of: again)
        await again.close()
    }

    @Test func aDatabaseThatWasPutBackGetsTheMissingRowsAgain() async throws {
        let log = try fixture.openShipped()
        for number in 1...6 { try await log.record(fixture.event(generation: number)) }
        try await bench.ship(log)
        let hash = try #require(
            try await bench.shared("SELECT hash FROM authgateway.audit_event WHERE id = 4").first?.text(0)
        )
        _ = try await bench.shared("DELETE FROM authgateway.audit_event WHERE id > 4")
        _ = try await bench.shared("UPDATE authgateway.audit_chain SET head_id = 4, head_hash = '\(hash)'")
        try await log.record(fixture.event(generation: 7))
        try await bench.ship(log)
        try await expectWholeCopy(of: log)
        await log.close()
    }

    @Test func twoCopiesOfOneLogNeverMixTheirRows() async throws {
        let first = try fixture.openShipped()
        for number in 1...4 { try await first.record(fixture.event(generation: number)) }
        let other = fixture.directory.file("clone.sqlite")
        _ = try AuditSnapshot.make(fixture.path, to: other, keys: fixture.keys)
        let second = try fixture.openShipped(at: other)
        let name = first.chainName
        #expect(second.chainName == name)
        let shippers = [try bench.shipper(first), try bench.shipper(second)]
        for number in 5...8 {
            try await first.record(fixture.event(generation: number))
            try await second.record(fixture.event(generation: 100 + number))
            try await bench.until { first.unshippedEvents == 0 && second.unshippedEvents == 0 }
        }
        for shipper in shippers { await shipper.finish() }
        #expect(first.chainName != second.chainName)
        #expect([first.chainName, second.chainName].contains(name), "one of them keeps the name")
        try await expectWholeCopy(of: first)
        try await expectWholeCopy(of: second, at: other)
        await first.close()
        await second.close()
    }

    @Test func aLogThatWasPutBackShipsUnderAnotherName() async throws {
        let log = try fixture.openShipped()
        for number in 1...3 { try await log.record(fixture.event(generation: number)) }
        let earlier = fixture.directory.file("earlier.sqlite")
        _ = try AuditSnapshot.make(fixture.path, to: earlier, keys: fixture.keys)
        for number in 4...6 { try await log.record(fixture.event(generation: number)) }
        try await bench.ship(log)
        let restored = try fixture.openShipped(at: earlier)
        try await bench.ship(restored)
        #expect(restored.chainName != log.chainName)
        try await expectWholeCopy(of: log)
        try await expectWholeCopy(of: restored, at: earlier)
        await log.close()
        await restored.close()
    }

    // MARK: Retention

    @Test func retentionRemovesNoRowThatTheDatabaseDoesNotHave() async throws {
        let log = try fixture.openShipped(retention: .seconds(3600))
        let minute = fixture.clock.now().wall
        for number in 1...9 { try await log.record(fixture.event(generation: number)) }
        log.count(AuditUsageTests.use(at: minute))
        await log.flushUsage()
        fixture.clock.advance(by: .seconds(7200))
        try await log.record(fixture.event(generation: 10))
        await log.prune()
        #expect(try bench.local(.events, "token_events").count == 10)
        #expect(try bench.local(.uses, "token_use").count == 1)
        try await bench.ship(log)
        try await expectWholeCopy(of: log)
        #expect(try await bench.count("audit_use", log.chainName) == 1)
        await log.prune()
        #expect(try bench.local(.events, "token_events").count == 1)
        #expect(try bench.local(.uses, "token_use").isEmpty)
        // The database follows: the checkpoint takes the place of what it covers.
        try await bench.ship(log)
        try await expectWholeCopy(of: log)
        #expect(try await bench.count("audit_checkpoint", log.chainName) == 1)
        #expect(try await bench.count("audit_use", log.chainName) == 0)
        await log.close()
    }

    /// Nobody has run `authgateway store migrate` yet.
    @Test func aDatabaseOfAnEarlierVersionGetsUsesWithoutRefusals() async throws {
        let drops = AuditSchema.refusalColumns.map { "DROP COLUMN \($0)" }.joined(separator: ", ")
        _ = try await bench.shared("ALTER TABLE authgateway.audit_use \(drops)")
        let log = try fixture.openShipped()
        func count(_ status: Int) async throws {
            var use = AuditUsageTests.use(requests: 2, at: fixture.clock.now().wall)
            use.refusals = TokenUse.Refusals(status: status, requests: 2)
            log.count(use)
            await log.flushUsage()
            try await log.record(fixture.event())
            try await bench.ship(log)
        }
        try await count(401)
        #expect(try await bench.count("audit_use", log.chainName) == 1)
        _ = try await bench.shared("DO $$ BEGIN \(FleetTables.statements) END $$")
        fixture.clock.advance(by: .seconds(60))
        try await count(429)
        let rows = try await bench.shared(
            "SELECT requests, status_401, status_429 FROM authgateway.audit_use ORDER BY minute"
        )
        #expect(rows.map { $0.integer(0) } == [2, 2])
        #expect(rows.map { $0.integer(1) } == [nil, 0] && rows.map { $0.integer(2) } == [nil, 2])
        await log.close()
    }

    @Test func aLogWithoutItsBeginningShipsItsCheckpoints() async throws {
        let log = try fixture.open(retention: .seconds(3600))
        for number in 1...3 {
            try await log.record(fixture.event(generation: number))
            try await log.record(fixture.event(generation: number))
            fixture.clock.advance(by: .seconds(7200))
            await log.prune()
        }
        try await log.record(fixture.event(generation: 4))
        await log.prune()
        await log.close()
        let shipped = try fixture.openShipped()
        let rows = try bench.local(.events, "token_events").count
        #expect(shipped.unshippedEvents == rows)
        // One checkpoint at a time, and all before the first row.
        try await bench.ship(shipped, rows: 1)
        try await expectWholeCopy(of: shipped)
        await shipped.close()
    }

    // MARK: Uses

    @Test func usesAreCopiedAgainWhenTheyChange() async throws {
        let log = try fixture.openShipped()
        let minute = fixture.clock.now().wall
        try await log.record(fixture.event())
        for client in ["a", "b", "c"] { log.count(AuditUsageTests.use(client: client, at: minute)) }
        log.count(AuditUsageTests.use(at: minute + .seconds(60)))
        await log.flushUsage()
        try await bench.ship(log, rows: 2)
        let first = try await bench.copied(.uses, log.chainName)
        #expect(first == (try bench.local(.uses, "token_use")) && first.count == 4)
        // Of an earlier minute as well.
        log.count(AuditUsageTests.use(client: "b", requests: 5, at: minute))
        log.count(AuditUsageTests.use(client: "d", at: minute + .seconds(120)))
        await log.flushUsage()
        try await bench.ship(log, rows: 2)
        let second = try await bench.copied(.uses, log.chainName)
        #expect(second == (try bench.local(.uses, "token_use")) && second.count == 5)
        await log.close()
    }

    // MARK: Trouble

    @Test func aNULThatSomebodyPutIntoARowHoldsNothingUp() async throws {
        let log = try fixture.openShipped()
        for number in 1...3 { try await log.record(fixture.event(generation: number)) }
        await log.close()
        try fixture.tamper("UPDATE token_events SET detail = 'x' || char(0) || 'y' WHERE id = 2")
        let again = try fixture.openShipped()
        try await bench.ship(again)
        let row = try await bench.shared("SELECT detail FROM authgateway.audit_event WHERE id = 2").first
        #expect(row?.text(0) == "x\\u0000y")
        #expect(try await bench.count("audit_event", again.chainName) == 3)
        await again.close()
    }

    @Test func whatWaitsIsCountedAndToldOfAfterAMinute() async throws {
        let log = try fixture.openShipped()
        let shipper = try bench.shipper(log, url: "postgresql:///x?host=\(fixture.directory.file("nowhere"))")
        for number in 1...3 { try await log.record(fixture.event(generation: number)) }
        try await bench.until { shipper.shipping.failure != nil }
        #expect(shipper.shipping.unshipped == 3 && shipper.trouble == nil)
        fixture.clock.advance(by: .seconds(60))
        let trouble = try #require(shipper.trouble)
        let reason = trouble.failure?.reason ?? "none"
        #expect(reason.contains("/nowhere"), "\(reason)")
        let begun = ContinuousClock.now
        await shipper.finish()
        #expect(ContinuousClock.now - begun < .seconds(10))
        await log.close()
    }

    // MARK: audit.store: postgres

    /// Nothing is written to the chains for so long.
    private func halt(for seconds: Int) throws -> Task<Void, any Error> {
        let (server, database) = (try ShippingBench.server.get(), bench.database)
        return Task.detached {
            try server.administrate(
                "BEGIN; LOCK TABLE authgateway.audit_chain IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(\(seconds)); COMMIT",
                database: database
            )
        }
    }

    @Test func anEventCountsAsRecordedOnceTheDatabaseHasIt() async throws {
        var options = SQLiteAuditLog.Options(path: fixture.path, instance: "gw-1")
        options.isShipped = true
        options.recordLimit = .seconds(1)
        options.withdrawalLimit = .milliseconds(500)
        let log = try fixture.open(options)
        let shipper = try bench.shipper(log, isRequired: true)
        let recorder = ConfirmedAuditLog(log, shipper: shipper)
        try await bench.until { (try? await recorder.record(fixture.event(generation: 1))) != nil }
        let rows = log.lastRow
        let halt = try halt(for: 4)
        let event = fixture.event(generation: 2)
        // The first ones may come before the lock.
        var refusal: AuditError?
        try await bench.until {
            refusal = nil
            do throws(AuditError) {
                try await recorder.record(event)
            } catch {
                refusal = error
            }
            return refusal != nil
        }
        #expect(refusal?.reason.contains("audit.store: postgres") == true)
        #expect(await recorder.recordSoon(fixture.event(.locked)) != nil)
        let waiting = log.lastRow
        #expect(waiting > rows, "the local log has them")
        try await halt.value
        // The author brings it again: it is there already.
        try await bench.until { (try? await recorder.record(event)) != nil }
        #expect(log.lastRow == waiting)
        await shipper.finish()
        try await expectWholeCopy(of: log)
        await log.close()
    }
}

@Suite("How far the copy of uses is", .timeLimit(.minutes(1)))
struct ShippingProgressTests {
    private static func key(_ minute: String, route: String = "files") -> UseKey {
        UseKey(minute: minute, route: route, client: "", credential: "box", generation: 1, statusClass: 2)
    }

    @Test func aWholeShipmentEndsBeforeTheNextMinute() {
        var progress = ShippingProgress()
        #expect(progress.takeUseCursor() == nil)
        #expect(progress.usesShipped(to: Self.key("09:30"), isLast: true, next: "09:31") == "09:31")
        #expect(progress.takeUseCursor() == nil)
    }

    @Test func aPartGoesOnBehindItsLastRow() {
        var progress = ShippingProgress()
        // After a restart its minute is shipped again.
        #expect(progress.usesShipped(to: Self.key("09:30"), isLast: false, next: "09:31") == "09:30")
        #expect(progress.takeUseCursor() == Self.key("09:30"))
    }

    @Test func aChangeUnderAShipmentIsShippedAgain() {
        var progress = ShippingProgress()
        _ = progress.takeUseCursor()
        progress.noteUse(changedAt: "09:29")
        progress.noteUse(changedAt: "09:30")
        #expect(progress.usesShipped(to: Self.key("09:30"), isLast: true, next: "09:31") == "09:29")
    }

    @Test func aLaterChangeIsNotOfThisShipment() {
        var progress = ShippingProgress()
        _ = progress.takeUseCursor()
        progress.noteUse(changedAt: "09:31")
        #expect(progress.usesShipped(to: Self.key("09:30"), isLast: false, next: "09:31") == "09:30")
        #expect(progress.takeUseCursor() == Self.key("09:30"))
    }

    @Test func aChangeBetweenTwoPartsBeginsAgain() {
        var progress = ShippingProgress()
        _ = progress.usesShipped(to: Self.key("09:30"), isLast: false, next: "09:31")
        progress.noteUse(changedAt: "09:30")
        #expect(progress.takeUseCursor() == nil)
    }

    @Test func aShipmentHoldsOneRowAtLeast() {
        var rows = ShippedRows(ShippedRows.Limits(rows: 2, bytes: 4))
        #expect(rows.hasPlace(for: "{\"id\":1}"))
        rows.add("{\"id\":1}")
        #expect(!rows.hasPlace(for: "{\"id\":2}"), "too many bytes")
        #expect(rows.json == "[{\"id\":1}]")
        var few = ShippedRows(ShippedRows.Limits(rows: 2, bytes: 100))
        for _ in 1...2 { few.add("{}") }
        #expect(!few.hasPlace(for: "{}") && few.json == "[{},{}]" && few.count == 2)
    }

    @Test func aNULBecomesText() {
        #expect(ShippedTable.withoutNUL("a\0b") == "a\\u0000b")
        #expect(ShippedTable.withoutNUL("\0") == "\\u0000")
        #expect(ShippedTable.withoutNUL("plain") == "plain")
    }
}
