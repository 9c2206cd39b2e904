import GatewayEvents
import GatewayHTTP
import GatewayProxy
import Logging
import Synchronization

/// The last requests of each worker, in memory: for `explain ID`, the page and the live stream.
///
/// An event loop waits for a reader at most while that copies the entries of one worker.
final class RecentRequests: Sendable {
    static let perWorker = 512

    /// How far a reader has come.
    struct Cursor: Hashable, Sendable, LosslessStringConvertible {
        /// How many requests each worker had finished.
        fileprivate var positions: [UInt64]

        fileprivate init(_ positions: [UInt64]) { self.positions = positions }

        init?(_ description: String) {
            let parts = description.split(separator: ".", omittingEmptySubsequences: false).map { UInt64($0) }
            guard parts.count <= 1024, !parts.contains(nil) else { return nil }
            positions = parts.compactMap(\.self)
        }

        var description: String { positions.map(String.init).joined(separator: ".") }
    }

    struct Batch: Sendable {
        /// The requests, in the order in which they ended.
        let requests: [RequestUse]
        let cursor: Cursor
        /// How many came since the last batch and were replaced already.
        let missed: Int
    }

    private final class Worker: Sendable {
        let ring = Mutex(RequestRing(capacity: perWorker))
    }

    private let workers: [Worker]

    init(workers: Int) { self.workers = (0..<max(1, workers)).map { _ in Worker() } }

    func add(_ record: borrowing ExchangeRecord) {
        workers[record.worker % workers.count].ring.withLock { $0.add(record) }
    }

    /// All requests of this id, the gateway's or the client's, in the order in which they ended.
    ///
    /// - Parameters:
    ///   - wallOffset: What to add to a monotonic reading to get civil time, in nanoseconds.
    ///   - name: Gives the name of a route for its number.
    func find(_ id: String, wallOffset: Int64, name: (Int) -> String?) -> [RequestUse] {
        let found = workers.flatMap { worker in worker.ring.withLock { $0.find(id) } }
        return Self.uses(found, wallOffset, name)
    }

    /// The requests that ended since a cursor was given.
    ///
    /// - Parameter cursor: The cursor of the last batch; nil for all requests in memory.
    func latest(after cursor: Cursor?, wallOffset: Int64, name: (Int) -> String?) -> Batch {
        var found: [FinishedRequest] = []
        var positions: [UInt64] = []
        var missed: UInt64 = 0
        for (index, worker) in workers.enumerated() {
            // Not under the lock.
            found.reserveCapacity(found.count + Self.perWorker)
            let known = cursor.flatMap { $0.positions.indices.contains(index) ? $0.positions[index] : nil }
            worker.ring.withLock { ring in
                // A cursor of an earlier run may be ahead.
                let position = known.map { $0 <= ring.count ? $0 : 0 }
                let replaced = ring.append(after: position ?? 0, to: &found)
                if position != nil { missed += replaced }
                positions.append(ring.count)
            }
        }
        return Batch(
            requests: Self.uses(found, wallOffset, name),
            cursor: Cursor(positions),
            missed: Int(clamping: missed)
        )
    }

    /// The latencies of the requests that ended since the last time and are still in memory.
    ///
    /// - Parameter positions: How far the reader has come.
    func sampleLatencies(after positions: inout [UInt64]) -> LatencyHistory.Sample {
        var sample = LatencyHistory.Sample()
        if positions.count != workers.count { positions = Array(repeating: 0, count: workers.count) }
        for (index, worker) in workers.enumerated() {
            worker.ring.withLock { ring in
                ring.visitTimings(after: positions[index]) { timings in
                    guard let connection = timings.connection, let response = timings.response else { return }
                    sample.add(upstream: response - connection, gateway: connection)
                }
                positions[index] = ring.count
            }
        }
        return sample
    }

    private static func uses(
        _ entries: [FinishedRequest],
        _ wallOffset: Int64,
        _ name: (Int) -> String?
    ) -> [RequestUse] {
        entries.sorted { $0.finishedAt < $1.finishedAt }
            .map { RequestUse($0, wallOffset: wallOffset, route: $0.route.flatMap(name) ?? "") }
    }
}

/// Brings single requests from the event loops to the audit log, and says when some are lost.
final class RequestLedger: Sendable {
    /// How often the same problem is logged.
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
    ///   - name: Gives the name of a route for its number.
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
