import GatewayCore
import Logging
import ServiceLifecycle
import Synchronization

/// Carries audit events from event loops to the log without making anybody wait.
///
/// For what may be late or, in a flood, be dropped (and counted): first uses of static credentials, replays, refused
/// clients. Token events are not among them; their author waits for the commit.
final class AuditFeed: Service {
    private static let queueLimit = 1024

    private let audit: any AuditLog
    private let logger: Logger
    private let dropped: CounterSeries
    private let queue = AsyncStream.makeStream(of: TokenEvent.self, bufferingPolicy: .bufferingOldest(queueLimit))

    init(audit: any AuditLog, metrics: MetricRegistry, logger: Logger) {
        self.audit = audit
        self.logger = logger
        dropped = metrics.counter("gateway_audit_events_dropped_total")
    }

    func offer(_ event: TokenEvent) {
        if case .enqueued = queue.continuation.yield(event) { return }
        dropped.increment(by: 1)
    }

    /// No more events are coming; ``run()`` returns once those in the queue are written.
    func finish() { queue.continuation.finish() }

    func run() async {
        for await event in queue.stream {
            do {
                try await audit.record(event)
            } catch {
                logger.error("Audit event not written", metadata: ["event": "\(event.name.rawValue)"])
            }
        }
    }
}
