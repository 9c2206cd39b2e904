import Foundation
import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayAudit

@Suite("Audit of single requests", .timeLimit(.minutes(5)))
struct AuditRequestTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func request(
        _ id: String = "r-1",
        client: String? = nil,
        status: Int = 200,
        problem: ProblemKind? = nil
    ) -> RequestUse {
        RequestUse(
            at: fixture.clock.now().wall,
            requestID: id,
            clientRequestID: client,
            route: "files",
            client: "cron",
            method: "GET",
            status: status,
            problem: problem,
            credential: "box",
            generation: 3,
            bytesReceived: 10,
            bytesSent: 100,
            duration: .milliseconds(12)
        )
    }

    private func read(_ filter: AuditFilter = AuditFilter()) async throws -> [AuditRequestRow] {
        let rows = Rows()
        try await fixture.reader.forEachRequest(filter) { row in rows.all.withLock { $0.append(row) } }
        return rows.all.withLock { $0 }
    }

    private final class Rows: Sendable {
        let all = Mutex<[AuditRequestRow]>([])
    }

    @Test func whoAsksNowFindsAllBatches() async throws {
        let log = try fixture.open()
        let many = PendingRequests.batchLimit * 2 + 1
        #expect(log.keep((0..<many).map { request("r-\($0)") }) == 0)
        #expect(await log.writePending(within: .seconds(30)))
        #expect(try await read().count == many)
        await log.close()
    }

    /// Without an index, all rows are looked at.
    @Test func lookingForARequestEndsInTime() async throws {
        let log = try fixture.open()
        let many = PendingRequests.batchLimit * 2 + 1
        #expect(log.keep((0..<many).map { request("r-\($0)") }) == 0)
        await log.close()
        try fixture.tamper(AuditFixture.withoutViewsAndIndices)
        let last = "r-\(many - 1)"
        await #expect(throws: AuditError.tookTooLong) {
            try await fixture.reader.request(last, newest: many, limit: 10, within: .zero)
        }
        let found = try await fixture.reader.request(last, newest: many, limit: 10, within: .seconds(60))
        #expect(found.requests.map(\.requestID) == [last])
    }

    @Test func numbersThatSomebodyHasChangedDoNotTrap() async throws {
        let log = try fixture.open()
        #expect(log.keep([request("r-1"), request("r-2")]) == 0)
        await log.close()
        for (first, second) in [(-11, -12), (.min, .min + 1), (.max, .max - 1), (.min, .max - 1)] as [(Int64, Int64)] {
            let numbers = "CASE request_id WHEN 'r-1' THEN \(first) ELSE \(second) END"
            try fixture.tamper("UPDATE token_requests SET id = \(numbers)")
            #expect(try await fixture.reader.request("r-1", newest: 100, limit: 10).requests.count <= 1)
        }
    }

    @Test func requestsAreWrittenOneByOneAndReadWithFilters() async throws {
        let log = try fixture.open()
        #expect(log.keep([request("r-1"), request("r-2", status: 502, problem: .upstreamUnreachable)]) == 0)
        #expect(log.keep([request("evil\n\u{1B}[2J")]) == 0)
        await log.close()
        let rows = try await read()
        #expect(rows.map(\.requestID) == ["r-1", "r-2", "evil\\u000a\\u001b[2J"])
        #expect(rows[0].json.hasPrefix(#"{"id":1,"at":"2026-03-01T09:30:00.000Z","request_id":"r-1","route":"files""#))
        #expect(rows[0].generation == 3 && rows[0].durationMilliseconds == 12 && !rows[0].failed)
        #expect(try await read(AuditFilter(failedOnly: true)).map(\.requestID) == ["r-2"])
        #expect(try await read(AuditFilter(credential: "other")).isEmpty)
        #expect(try await read(AuditFilter(since: fixture.clock.now().wall + .seconds(1))).isEmpty)
    }

    @Test func aRequestIsFoundByBothOfItsIDs() async throws {
        let log = try fixture.open()
        #expect(log.keep([request("k-1", client: "mine"), request("k-2"), request("k-3", client: "mine")]) == 0)
        // A client may choose an id that is another request's own.
        #expect(log.keep([request("k-4", client: "k-2")]) == 0)
        await log.close()
        #expect(try await read(AuditFilter(request: "k-1")).map(\.requestID) == ["k-1"])
        #expect(try await read(AuditFilter(request: "mine")).map(\.requestID) == ["k-1", "k-3"])
        #expect(try await read(AuditFilter(request: "k-2")).map(\.requestID) == ["k-2", "k-4"])
        #expect(try await read(AuditFilter(request: "k")).isEmpty)
    }

    @Test func timesAndReasonAreWritten() async throws {
        let log = try fixture.open()
        var use = request("k-1", status: 502, problem: .upstreamUnreachable)
        use.failure = RequestFailure(
            GatewayProblem(.upstreamUnreachable, "x", hopError: .connectionTerminated),
            place: RequestPlace(peer: "unix")
        )
        use.timings.reached(.credential, after: 3_000_000)
        use.timings.reached(.connection, after: 17_900_000)
        #expect(log.keep([use]) == 0)
        await log.close()
        let row = try #require(try await read().first)
        #expect(row.reason == "connection_lost")
        #expect(row.credentialMilliseconds == 3 && row.connectionMilliseconds == 17 && row.responseMilliseconds == nil)
        #expect(
            row.json.hasSuffix(#""reason":"connection_lost","credential_ms":3,"connection_ms":17,"response_ms":null}"#)
        )
    }

    @Test func aLogOfAnEarlierVersionIsReadAndGetsTheColumns() async throws {
        let log = try fixture.open()
        #expect(log.keep([request("old")]) == 0)
        try await log.record(fixture.event())
        await log.close()
        let added = ["client_request_id", "reason", "credential_ms", "connection_ms", "response_ms"]
        try fixture.tamper(
            AuditFixture.withoutViewsAndIndices
                + added.map { "ALTER TABLE token_requests DROP COLUMN \($0);" }.joined()
                + "ALTER TABLE token_events DROP COLUMN client_request_id"
        )
        #expect(try await read(AuditFilter(request: "old")).map(\.requestID) == ["old"])
        #expect(try await read().first?.reason == nil)
        #expect(try await fixture.reader.query(AuditFilter(request: "r-1")).map(\.id) == [1])
        let reopened = try fixture.open()
        #expect(reopened.keep([request("new", client: "mine")]) == 0)
        await reopened.close()
        #expect(try await read(AuditFilter(request: "mine")).map(\.requestID) == ["new"])
        #expect(try await read().count == 2)
        #expect(try await fixture.verify().isIntact)
    }

    @Test func theChainIsNotTouched() async throws {
        let log = try fixture.open()
        try await log.record(fixture.event())
        for number in 0..<5000 { _ = log.keep([request("r-\(number)")]) }
        try await log.record(fixture.event(generation: 2))
        await log.close()
        let verification = try await fixture.verify()
        #expect(verification.isIntact && verification.rows == 2)
        #expect(try await read().count == 5000)
    }

    @Test func whatCannotBeWrittenWaitsAndIsLostBeyondTheLimit() async throws {
        let log = try fixture.open(busyTimeout: .milliseconds(50))
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: fixture.path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let many = (0..<PendingRequests.limit).map { request("r-\($0)") }
        #expect(log.keep(many) == 0)
        await log.flushRequests()
        #expect(log.keep([request("late"), request("later")]) == 2)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        await log.flushRequests()
        #expect(log.keep([request("after")]) == 0)
        await log.close()
        let rows = try await read()
        #expect(rows.count == PendingRequests.limit + 1)
        #expect(rows.last?.requestID == "after")
    }

    @Test func retentionRemovesTheOldestRequests() async throws {
        let log = try fixture.open(retention: .seconds(3600))
        let old = (0..<12_000).map { request("old-\($0)") }
        #expect(log.keep(old) == 0)
        fixture.clock.advance(by: .seconds(3000))
        #expect(log.keep([request("new")]) == 0)
        await log.flushRequests()
        fixture.clock.advance(by: .seconds(1200))
        await log.prune()
        #expect(try await read().map(\.requestID) == ["new"])
        fixture.clock.advance(by: .seconds(7200))
        await log.prune()
        await log.close()
        #expect(try await read().isEmpty)
    }

    @Test func aLogOfAnEarlierVersionHasNone() async throws {
        try await fixture.write(1)
        try fixture.tamper("DROP TABLE token_requests")
        #expect(try await read().isEmpty)
        #expect(try await fixture.verify().isIntact)
    }
}

extension SQLiteAuditLog {
    fileprivate func flushRequests() async {
        try? await writer.perform(within: .seconds(60)) { self.writeAllRequests() }
    }
}

@Suite("Bounds of what waits for the audit log", .timeLimit(.minutes(1)))
struct AuditBoundsTests {
    private let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func entry() -> EventQueue.Entry {
        EventQueue.Entry(event: fixture.event(), isWithdrawal: false, end: EventQueue.End())
    }

    @Test func theQueueOfEventsIsLimited() {
        var queue = EventQueue()
        for _ in 1..<EventQueue.limit { queue.add(entry()) }
        #expect(!queue.isFull)
        queue.add(entry())
        #expect(queue.isFull)
    }

    @Test func aCommitWritesALimitedNumberOfEvents() {
        var queue = EventQueue()
        for _ in 0...EventQueue.batchLimit { queue.add(entry()) }
        let batches = (0..<3).map { _ in queue.nextBatch()?.new.count }
        #expect(batches == [EventQueue.batchLimit, 1, nil])
    }

    @Test func theQueueOfRequestsIsLimited() {
        let use = RequestUse(
            at: UnixTime(seconds: 0),
            requestID: "1",
            route: "",
            client: nil,
            method: "GET",
            status: 200,
            bytesReceived: 0,
            bytesSent: 0,
            duration: .zero
        )
        var pending = PendingRequests()
        let refused = [PendingRequests.limit - 1, 1, 1, 2].map { pending.add([RequestUse](repeating: use, count: $0)) }
        #expect(refused == [0, 0, 1, 2])
        #expect(pending.batch.count == PendingRequests.batchLimit)
        pending.written(PendingRequests.limit - PendingRequests.batchLimit)
        let accepted = pending.add([use])
        #expect(accepted == 0)
        pending.written(1)
        #expect(pending.batch.count == PendingRequests.batchLimit)
        pending.written(1)
        #expect(pending.batch.count == PendingRequests.batchLimit - 1)
    }

    @Test func theNumberOfCallersThatWaitForTheDatabaseIsLimited() async {
        let confirmations = ShippingConfirmations()
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<ShippingConfirmations.limit {
                group.addTask { await confirmations.wait(for: 1, within: .seconds(60)) }
            }
            while confirmations.waiting < ShippingConfirmations.limit { await Task.yield() }
            #expect(await !confirmations.wait(for: 1, within: .seconds(60)), "there is no place for one more")
            confirmations.confirm(to: 1)
            for await isConfirmed in group { #expect(isConfirmed) }
        }
        #expect(await confirmations.wait(for: 1, within: .seconds(60)))
    }
}
