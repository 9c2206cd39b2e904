import GatewayCore
import GatewayTesting
import Logging
import Testing

@testable import GatewayRuntime

@Suite("Events that may be late", .timeLimit(.minutes(1)))
struct AuditFeedTests {
    @Test func eventsAboveTheLimitAreDroppedAndCounted() async throws {
        let (audit, metrics) = (RecordingAuditLog(), MetricRegistry())
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let feed = AuditFeed(audit: audit, metrics: metrics, logger: logger)
        func isDropped(_ count: Int) -> Bool {
            metrics.text().contains("gateway_audit_events_dropped_total \(count)\n")
        }
        let event = TokenEvent(at: UnixTime(seconds: 0), name: .acquired, trigger: .demand)
        for _ in 0..<AuditFeed.queueLimit { feed.offer(event) }
        #expect(isDropped(0))
        feed.offer(event)
        #expect(isDropped(1))
        feed.finish()
        await feed.run()
        #expect(audit.events.count == AuditFeed.queueLimit)
        #expect(isDropped(1))
    }
}
