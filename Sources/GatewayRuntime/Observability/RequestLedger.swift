import GatewayCore
import Logging
import Synchronization

/// Brings single requests from the event loops to the audit log, and says when some are lost.
final class RequestLedger: Sendable {
    /// How often the same trouble is said.
    static let interval = Duration.seconds(60)

    /// What was lost and not said yet, and when something was said last.
    private struct Loss {
        var unsaid = 0
        var saidAt: MonotonicTime?
    }

    private let audit: any AuditLog
    private let lost: CounterSeries
    private let logger: Logger
    private let workers: [TrafficRequests]
    private let loss = Mutex(Loss())

    init(audit: any AuditLog, metrics: MetricRegistry, logger: Logger, workers: Int) {
        self.audit = audit
        self.logger = logger
        lost = metrics.counter("gateway_audit_requests_lost_total")
        self.workers = (0..<workers).map { _ in TrafficRequests() }
    }

    func add(_ record: borrowing ExchangeRecord) { workers[record.worker % workers.count].add(record) }

    /// Hands over what has been kept so far.
    ///
    /// - Parameters:
    ///   - wallOffset: What to add to a monotonic reading to get civil time, in nanoseconds.
    ///   - name: Of a route, by its number.
    func collect(at now: MonotonicTime, wallOffset: Int64, name: (Int) -> String?) {
        let taken = workers.map { $0.take() }
        let requests = taken.flatMap(\.requests).sorted { $0.finishedAt < $1.finishedAt }
        let uses = requests.compactMap { request in
            request.route.flatMap(name).map { RequestUse(request, wallOffset: wallOffset, route: $0) }
        }
        var lostNow = taken.map(\.lost).reduce(0, +)
        if !uses.isEmpty { lostNow += audit.keep(uses) }
        lost.increment(by: Int64(lostNow))
        guard let count = sayable(lostNow, at: now) else { return }
        logger.warning("Requests are not in the audit log: more than it can write", metadata: ["lost": "\(count)"])
    }

    /// - Returns: How many to say; nil when there is nothing to say, or something was said a moment ago.
    private func sayable(_ lostNow: Int, at now: MonotonicTime) -> Int? {
        loss.withLock { loss in
            loss.unsaid += lostNow
            guard loss.unsaid > 0, loss.saidAt.map({ now - $0 >= Self.interval }) ?? true else { return nil }
            defer { loss = Loss(saidAt: now) }
            return loss.unsaid
        }
    }
}

/// The requests of one event loop since the last collection, one by one: `audit.usage: request`.
///
/// The lock is only ever contended by the collector, once a second and when metrics are shown.
final class TrafficRequests: Sendable {
    /// More between two collections are counted and not kept.
    static let limit = 16_384

    private struct State {
        var requests: [FinishedRequest] = []
        var lost = 0
    }

    private let state = Mutex(State())

    /// What neither carried a credential nor was sent on was refused: a guesser must not fill the disk.
    func add(_ record: borrowing ExchangeRecord) {
        guard record.route != nil, record.credential != nil || record.wasSent else { return }
        let request = FinishedRequest(record)
        state.withLock { state in
            if state.requests.count < Self.limit { state.requests.append(request) } else { state.lost += 1 }
        }
    }

    func take() -> (requests: [FinishedRequest], lost: Int) {
        state.withLock { state in
            defer { state = State() }
            return (state.requests, state.lost)
        }
    }
}
