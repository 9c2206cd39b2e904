package import GatewayEvents
import GatewayHTTP
package import Logging
import ServiceLifecycle
import Synchronization

/// Records what happened to requests that were not served: rows of the audit log, and lines of the log.
///
/// Event loops and the admin listener add to it. ``writeDue(at:)`` is called every second.
final class RequestReporter: Sendable {
    private let reports = Mutex(RequestReports<RequestUse>())
    private let feed: AuditEventQueue
    private let metrics: MetricRegistry
    private let logger: Logger
    private let accessLogger: Logger

    /// - Parameters:
    ///   - logger: Logs failures and denials.
    ///   - accessLogger: Logs requests that matched no route.
    init(feed: AuditEventQueue, metrics: MetricRegistry, logger: Logger, accessLogger: Logger) {
        self.feed = feed
        self.metrics = metrics
        self.logger = logger
        self.accessLogger = accessLogger
    }

    /// - Parameters:
    ///   - route: Its number, which tells kinds of failures apart.
    ///   - use: Made for the first request of its kind only.
    func add(
        _ failure: RequestFailure,
        problem: ProblemKind?,
        status: Int,
        route: (number: Int?, name: String),
        client: String?,
        id: @autoclosure () -> String,
        at now: MonotonicTime,
        use: @autoclosure () -> RequestUse
    ) {
        count(failure, problem: problem, route: route.name)
        let row = reports.withLock {
            $0.add(
                failure,
                problem: problem,
                status: status,
                route: route.number,
                client: client,
                id: id(),
                at: now,
                sample: use()
            )
        }
        if let row { write(row) }
    }

    private func count(_ failure: RequestFailure, problem: ProblemKind?, route: String) {
        if let problem, problem.isDenial {
            metrics.counter("gateway_clients_denied_total", [("reason", problem.rawValue)]).increment(by: 1)
        } else if problem?.isStray != true {
            let labels = [("route", route), ("reason", failure.reason.description)]
            metrics.counter("gateway_requests_failed_total", labels).increment(by: 1)
        }
    }

    func writeDue(at now: MonotonicTime) {
        for row in reports.withLock({ $0.due(at: now) }) { write(row) }
    }

    /// Nothing comes after it.
    func writeRest() {
        for row in reports.withLock({ $0.rest() }) { write(row) }
    }

    private func write(_ row: RequestReports<RequestUse>.Row) {
        if let event = TokenEvent(row) { feed.offer(event) }
        switch row.key {
        case .failed: logger.warning("Request failed", metadata: metadata(row))
        case .denied: logger.warning("Client denied", metadata: metadata(row))
        case .stray(let host, _, _):
            accessLogger.info(
                "Request without a route",
                metadata: metadata(row).merging(["host": "\(host)"]) { $1 }
            )
        }
    }

    private func metadata(_ row: RequestReports<RequestUse>.Row) -> Logger.Metadata {
        let use = row.sample
        var data = row.detail.mapValues { Logger.MetadataValue.string($0) }
        data["request_id"] = "\(use.requestID)"
        data["explain"] = "\(GatewayCommand.line("explain", "\(use.requestID)"))"
        data["client_request_id"] = use.clientRequestID.map { "\($0)" }
        data["status"] = "\(use.status)"
        data["reason"] = (use.failure?.reason).map { "\($0)" }
        if row.isMixed { return data }
        if !use.route.isEmpty { data["route"] = "\(use.route)" }
        data["client"] = use.client.map { "\($0)" }
        data["credential"] = (use.credential ?? use.failure?.credential).map { "\($0)" }
        return data
    }
}

/// Carries audit events from event loops to the log without making anybody wait.
///
/// Only events that may be late or, in a flood, be dropped (and counted): first uses of static credentials, replays, refused
/// clients. Token events are not among them; their author waits for the commit.
package final class AuditEventQueue: Service {
    static let queueLimit = 1024
    /// How often the same problem is logged.
    private static let interval: Duration = .seconds(60)

    private let audit: any AuditLog
    private let logger: Logger
    private let dropped: CounterSeries
    private let isFinishing = Atomic(false)
    private let queue = AsyncStream.makeStream(of: TokenEvent.self, bufferingPolicy: .bufferingOldest(queueLimit))

    package init(audit: any AuditLog, metrics: MetricRegistry, logger: Logger) {
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
