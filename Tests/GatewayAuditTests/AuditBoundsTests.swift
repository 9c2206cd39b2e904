import GatewayCore
import Testing

@testable import GatewayAudit

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
