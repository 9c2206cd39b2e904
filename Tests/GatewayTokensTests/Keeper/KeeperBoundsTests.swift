import GatewayTesting
import Testing

@testable import GatewayEvents
@testable import GatewayHTTP
@testable import GatewayTokens

@Suite("Bounds of what waits for a keeper", .timeLimit(.minutes(1)))
struct KeeperBoundsTests {
    @Test func theQueueOfCommandsIsLimited() {
        let keeper = KeeperBench().keeper
        for _ in 0..<TokenKeeper.commandLimit { #expect(keeper.enqueue(OperatorCommand(.refresh))) }
        #expect(!keeper.enqueue(OperatorCommand(.refresh)))
        // Withdrawals have twice the room.
        for _ in 0..<TokenKeeper.commandLimit { #expect(keeper.enqueue(OperatorCommand(.clear))) }
        #expect(!keeper.enqueue(OperatorCommand(.clear)))
        #expect(keeper.nextCommand() != nil)
        #expect(keeper.enqueue(OperatorCommand(.clear)) && !keeper.enqueue(OperatorCommand(.refresh)))
    }

    @Test func theQueueOfRequestEventsIsLimited() {
        var auditBuffer = AuditBuffer()
        let event = TokenEvent(at: UnixTime(seconds: 0), name: .acquired, trigger: .demand)
        let additions = (0..<AuditBuffer.limit).map { _ in auditBuffer.add(event) }
        // The writer is told of the first one alone.
        #expect(additions.first == .first)
        let areAllTaken = additions.dropFirst().allSatisfy { $0 == .behindOthers }
        #expect(areAllTaken)
        let oneMore = auditBuffer.add(event)
        #expect(oneMore == .lost)
        let count = auditBuffer.take().count
        #expect(count == AuditBuffer.limit)
        let afterwards = auditBuffer.add(event)
        #expect(afterwards == .first)
    }
}
