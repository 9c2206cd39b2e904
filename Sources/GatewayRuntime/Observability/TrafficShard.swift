import GatewayCore
import Synchronization

/// What one event loop has counted since the last collection.
///
/// The lock is only ever contended by the collector, every few seconds and when metrics are shown.
final class TrafficShard: Sendable {
    struct Key: Hashable {
        let minute: Int64
        /// nil when no route was found.
        let route: Int?
        let client: String?
        /// nil when nothing was injected; held so that the identity is not given to another object meanwhile.
        let credential: Credential?
        let status: Int
        let problem: ProblemKind?

        var hadCredential: Bool { credential.map { !$0.injection.isEmpty } ?? false }

        var isRejection: Bool {
            RouteTraffic.Counts.isRejection(status: status, problem: problem, hadCredential: hadCredential)
        }

        static func == (lhs: Self, rhs: Self) -> Bool {
            lhs.minute == rhs.minute && lhs.route == rhs.route && lhs.status == rhs.status
                && lhs.credential === rhs.credential && lhs.problem == rhs.problem && lhs.client == rhs.client
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(minute)
            hasher.combine(route)
            hasher.combine(status)
            hasher.combine(client)
            hasher.combine(credential.map(ObjectIdentifier.init))
        }
    }

    struct Tally {
        var bytesReceived = 0
        var bytesSent = 0
        var seconds = 0.0
        var replays: UInt32 = 0
        /// When the last one ended, in seconds since 1970.
        var latest: UInt32 = 0
        /// How many took up to each of ``MetricRegistry/durationBounds``, and longer. No array: that would be one more
        /// place in memory for each route in use.
        var buckets = SIMD16<UInt32>()

        var requests: Int { buckets.indices.reduce(0) { $0 + Int(buckets[$1]) } }

        mutating func add(_ record: borrowing ExchangeRecord, second: Int64) {
            let duration = Double(record.finishedAt.nanoseconds &- record.startedAt.nanoseconds) / 1e9
            let bounds = MetricRegistry.durationBounds
            replays &+= record.wasReplayed ? 1 : 0
            latest = UInt32(truncatingIfNeeded: second)
            bytesReceived &+= record.bytesReceived
            bytesSent &+= record.bytesSent
            seconds += duration
            buckets[bounds.firstIndex { duration <= $0 } ?? bounds.count] &+= 1
        }

        mutating func add(_ other: Tally) {
            bytesReceived &+= other.bytesReceived
            bytesSent &+= other.bytesSent
            seconds += other.seconds
            replays &+= other.replays
            latest = max(latest, other.latest)
            buckets &+= other.buckets
        }
    }

    /// Exchanges of one route that follow each other are mostly alike: the tally of the last one is kept at hand, beside
    /// what tells whether the next one is like it.
    private struct Latest {
        var client: String?
        var credential: Credential?
        /// -1 before the first exchange. Short, so that all of it is 128 bytes.
        var status: Int32 = -1
        var problem: ProblemKind?
        var tally = Tally()

        /// Where it lies: a copy would cost two references and 128 bytes for every request.
        ///
        /// - Returns: Whether the exchange is like those that were counted here.
        mutating func add(_ record: borrowing ExchangeRecord, second: Int64) -> Bool {
            guard Int(status) == record.status, credential === record.credential, problem == record.problem,
                client == record.client
            else { return false }
            tally.add(record, second: second)
            return true
        }
    }

    private struct State {
        /// The minute that ``latest`` counts.
        var minute: Int64
        /// By the number of the route; the first is for exchanges without one.
        var latest: [Latest]
        /// Those that others have taken the place of.
        var others: [Key: Tally] = [:]
        /// What ``latest`` was when its minute ended.
        var past: [(minute: Int64, latest: [Latest])] = []

        mutating func add(_ record: borrowing ExchangeRecord, second: Int64) {
            let minute = second / 60
            if minute != self.minute { begin(minute) }
            let index = (record.route ?? -1) + 1
            if index >= latest.count {
                latest.append(contentsOf: repeatElement(Latest(), count: index + 1 - latest.count))
            }
            guard !latest[index].add(record, second: second) else { return }
            replace(index, with: record)
            latest[index].tally.add(record, second: second)
        }

        private mutating func begin(_ minute: Int64) {
            past.append((self.minute, latest))
            latest = Array(repeating: Latest(), count: latest.count)
            self.minute = minute
        }

        private mutating func replace(_ index: Int, with record: borrowing ExchangeRecord) {
            if let (key, tally) = Self.counted(latest[index], index, minute) {
                others[key, default: Tally()].add(tally)
            }
            latest[index] = Latest(
                client: record.client,
                credential: record.credential,
                status: Int32(truncatingIfNeeded: record.status),
                problem: record.problem
            )
        }

        private static func counted(_ latest: Latest, _ index: Int, _ minute: Int64) -> (Key, Tally)? {
            guard latest.status >= 0 else { return nil }
            let key = Key(
                minute: minute,
                route: index == 0 ? nil : index - 1,
                client: latest.client,
                credential: latest.credential,
                status: Int(latest.status),
                problem: latest.problem
            )
            return (key, latest.tally)
        }

        func all() -> [(Key, Tally)] {
            let kept = (past + [(minute, latest)]).flatMap { minute, latest in
                latest.enumerated().compactMap { Self.counted($1, $0, minute) }
            }
            return others.map { ($0.key, $0.value) } + kept
        }
    }

    private let state = Mutex(State(minute: 0, latest: []))

    /// - Parameter second: When it ended, since 1970.
    func add(_ record: borrowing ExchangeRecord, second: Int64) {
        state.withLock { $0.add(record, second: second) }
    }

    /// What was counted since the last time; the same key can be there twice.
    func take() -> [(Key, Tally)] {
        let routes = state.withLock { $0.latest.count }
        // Made before the lock is taken: an event loop may be waiting for it.
        var state = State(minute: 0, latest: Array(repeating: Latest(), count: routes))
        self.state.withLock {
            state.minute = $0.minute
            swap(&$0, &state)
        }
        return state.all()
    }
}
