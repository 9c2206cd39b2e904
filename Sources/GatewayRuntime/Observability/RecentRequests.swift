import GatewayCore
import Synchronization

/// The last requests of each worker, in memory: for `explain ID`, the page and the live stream.
///
/// An event loop waits for a reader at most while that copies the entries of one worker.
final class RecentRequests: Sendable {
    static let perWorker = 512

    /// How far a reader has come.
    struct Cursor: Hashable, Sendable, LosslessStringConvertible {
        /// For each worker, how many requests it had finished.
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
        /// In the order in which they ended.
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
    ///   - name: Of a route, by its number.
    func find(_ id: String, wallOffset: Int64, name: (Int) -> String?) -> [RequestUse] {
        let found = workers.flatMap { worker in worker.ring.withLock { $0.find(id) } }
        return Self.uses(found, wallOffset, name)
    }

    /// The requests that ended since a cursor was given.
    ///
    /// - Parameter cursor: Of the last batch; nil for all that are there.
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

    private static func uses(
        _ entries: [FinishedRequest],
        _ wallOffset: Int64,
        _ name: (Int) -> String?
    ) -> [RequestUse] {
        entries.sorted { $0.finishedAt < $1.finishedAt }
            .map { RequestUse($0, wallOffset: wallOffset, route: $0.route.flatMap(name) ?? "") }
    }
}
