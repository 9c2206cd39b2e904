import GatewayCore
import Logging
import ServiceLifecycle
import Synchronization

/// Carries audit events from event loops to the log without making anybody wait.
///
/// For what may be late or, in a flood, be dropped (and counted): first uses of static credentials, replays, refused
/// clients. Token events are not among them; their author waits for the commit.
final class AuditFeed: Service {
    static let queueLimit = 1024
    /// How often the same trouble is said.
    private static let interval: Duration = .seconds(60)

    private let audit: any AuditLog
    private let logger: Logger
    private let dropped: CounterSeries
    private let isFinishing = Atomic(false)
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

    /// No more events are coming; ``run()`` returns once those in the queue are written, or once one cannot be.
    func finish() {
        isFinishing.store(true, ordering: .relaxed)
        queue.continuation.finish()
    }

    func run() async {
        var complainedAt: ContinuousClock.Instant?
        for await event in queue.stream {
            do throws(AuditError) {
                try await audit.record(event)
            } catch {
                dropped.increment(by: 1)
                let now = ContinuousClock.now
                if complainedAt.map({ now - $0 >= Self.interval }) ?? true {
                    complainedAt = now
                    let data: Logger.Metadata = ["event": "\(event.name.rawValue)", "reason": "\(error.reason)"]
                    logger.error("Audit events of requests are not written", metadata: data)
                }
                // Each of the others would wait as long.
                if isFinishing.load(ordering: .relaxed) { return }
            }
        }
    }
}
