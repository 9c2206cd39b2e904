import GatewayCore
import Synchronization

/// What one event loop has counted since the last collection.
///
/// The lock is only ever contended by the collector, once a second.
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

        init(_ record: borrowing ExchangeRecord, _ minute: Int64) {
            self.minute = minute
            route = record.route
            client = record.client
            credential = record.credential
            status = record.status
            problem = record.problem
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
        var requests = 0
        var replays = 0
        var bytesReceived = 0
        var bytesSent = 0
        var seconds = 0.0
        var buckets = [Int64](repeating: 0, count: MetricRegistry.durationBounds.count + 1)

        mutating func add(_ record: borrowing ExchangeRecord) {
            let duration = Double(record.finishedAt.nanoseconds &- record.startedAt.nanoseconds) / 1e9
            let bounds = MetricRegistry.durationBounds
            requests += 1
            replays += record.wasReplayed ? 1 : 0
            bytesReceived += record.bytesReceived
            bytesSent += record.bytesSent
            seconds += duration
            buckets[bounds.firstIndex { duration <= $0 } ?? bounds.count] += 1
        }
    }

    /// Exchanges of one route that follow each other are mostly alike, so the last one's tally is kept at hand, out of the
    /// table.
    private final class Latest {
        let key: Key
        var tally: Tally

        init(key: Key, tally: Tally) {
            self.key = key
            self.tally = tally
        }

        /// Field by field: a copy of the key would be counted at the credential, which all event loops share.
        func fits(_ record: borrowing ExchangeRecord, _ minute: Int64) -> Bool {
            key.minute == minute && key.route == record.route && key.status == record.status
                && key.credential === record.credential && key.problem == record.problem && key.client == record.client
        }
    }

    private struct State {
        /// By the number of the route; the first is for exchanges without one.
        var latest: [Latest?] = []
        var others: [Key: Tally] = [:]

        mutating func add(_ record: borrowing ExchangeRecord, minute: Int64) {
            let index = (record.route ?? -1) + 1
            if index >= latest.count {
                latest.append(contentsOf: repeatElement(nil, count: index + 1 - latest.count))
            }
            if let found = latest[index], found.fits(record, minute) { return found.tally.add(record) }
            makeLatest(Key(record, minute), at: index).tally.add(record)
        }

        private mutating func makeLatest(_ key: Key, at index: Int) -> Latest {
            if let old = latest[index] { others[old.key] = old.tally }
            let new = Latest(key: key, tally: others.removeValue(forKey: key) ?? Tally())
            latest[index] = new
            return new
        }

        func all() -> [Key: Tally] {
            var tallies = others
            for latest in latest { if let latest { tallies[latest.key] = latest.tally } }
            return tallies
        }
    }

    private let state = Mutex(State())

    func add(_ record: borrowing ExchangeRecord, minute: Int64) {
        state.withLock { $0.add(record, minute: minute) }
    }

    func take() -> [Key: Tally] {
        let taken = state.withLock { state in
            defer { state = State() }
            return state
        }
        return taken.all()
    }
}
