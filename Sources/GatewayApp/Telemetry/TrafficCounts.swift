import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens
import Synchronization

/// Counts requests by kind, and makes of the counts what metrics, usage, the page and the health of upstreams need.
///
/// Event loops only add to a shard. ``collect()`` reads the shards.
final class TrafficCounts: Sendable {
    private let routes: RouteNumbers
    private let audit: any AuditLog
    private let usage: AuditPlan.Usage
    private let metrics: MetricRegistry
    /// One for each event loop of the data plane, in its numbering.
    private let shards: [TrafficShard]
    private let series = Mutex<[TrafficSeries.Key: TrafficSeries]>([:])
    /// How upstreams have answered, by the number of the route.
    private let health = Mutex<[Int: UpstreamHealthMeter]>([:])
    /// The last hour of each route and client, for the page.
    private let history = Mutex(TrafficHistory())

    init(
        routes: RouteNumbers,
        audit: any AuditLog,
        usage: AuditPlan.Usage,
        metrics: MetricRegistry,
        workers: Int
    ) {
        self.routes = routes
        self.audit = audit
        self.usage = usage
        self.metrics = metrics
        shards = (0..<workers).map { _ in TrafficShard() }
    }

    /// - Parameter second: When it ended, since 1970.
    func add(_ record: borrowing ExchangeRecord, second: Int64) {
        shards[record.worker % shards.count].add(record, second: second)
    }

    /// Says why an upstream has failed, of one of the requests that are counted.
    func explain(_ failure: RequestFailure, of request: FinishedRequest, wallOffset: Int64) {
        guard let number = request.route,
            let outcome = UpstreamOutcome(status: request.status, problem: request.problem),
            outcome != .success
        else { return }
        let time = UnixTime(milliseconds: (request.finishedAt.nanoseconds &+ wallOffset) / 1_000_000)
        health.withLock {
            $0[number, default: UpstreamHealthMeter()].explain(
                failure,
                status: request.status,
                requestID: request.requestID,
                at: time
            )
        }
    }

    /// What ``collect()`` has found of the upstreams, by the name of the route. Without those whose upstream was not asked yet.
    func upstreamHealth(at now: UnixTime) -> [String: UpstreamHealth] {
        let meters = health.withLock { $0 }
        let found = meters.compactMap { number, meter in
            routes.name(of: number).map { ($0, meter.health(at: now)) }
        }
        return Dictionary(found) { $1 }
    }

    /// What ``collect()`` has found of the last hour of these routes.
    func traffic(of names: [String], at now: UnixTime) -> [TrafficStatus] {
        let numbers = names.map { routes.number(of: $0) }
        let history = history.withLock { $0 }
        return zip(names, numbers).map { history.status(of: $1, named: $0, at: now) }
    }

    /// What ``collect()`` has found of the last hour of each client.
    func clients(at now: UnixTime) -> [ClientTraffic] { history.withLock { $0 }.clients(at: now) }

    /// Hands over what has been counted so far. One call at a time.
    ///
    /// - Returns: How upstreams have answered the credentials of these requests.
    func collect() -> [AnsweredCredential] {
        var uses: [String: Bool] = [:]
        for shard in shards {
            for (key, tally) in shard.take() {
                publish(key, tally)
                guard let name = key.credential?.name, key.hadCredential, key.problem == nil else { continue }
                uses[name] = uses[name] == true || !key.isRejection
            }
        }
        return uses.map { AnsweredCredential(credential: $0, isAccepted: $1) }
    }

    private func publish(_ key: TrafficShard.Key, _ tally: TrafficShard.Tally) {
        let route = key.route.flatMap { routes.name(of: $0) }
        measure(key, tally, route: route ?? "")
        remember(key, tally)
        let outcome = UpstreamOutcome(status: key.status, problem: key.problem, hadCredential: key.hadCredential)
        let latest = UnixTime(seconds: Int64(tally.latest))
        if let number = key.route, let outcome {
            health.withLock {
                $0[number, default: UpstreamHealthMeter()].add(outcome, count: tally.requests, latest: latest)
            }
        } else if let number = key.route, key.status == 0, key.problem == nil {
            health.withLock {
                $0[number, default: UpstreamHealthMeter()].addUnanswered(count: tally.requests, latest: latest)
            }
        }
        guard usage != .none, let route, let credential = key.credential else { return }
        let use = TokenUse(
            key: TokenUse.Key(
                minute: UnixTime(milliseconds: key.minute * 60_000),
                route: route,
                client: key.client,
                credential: credential.name,
                generation: credential.generation,
                statusClass: key.status / 100
            ),
            requests: tally.requests,
            refusals: TokenUse.Refusals(status: key.status, requests: tally.requests),
            bytesReceived: tally.bytesReceived,
            bytesSent: tally.bytesSent
        )
        audit.count(use)
    }

    private func remember(_ key: TrafficShard.Key, _ tally: TrafficShard.Tally) {
        guard let route = key.route else { return }
        let counts = RouteTraffic.Counts(
            requests: tally.requests,
            errors: RouteTraffic.Counts.isError(status: key.status, problem: key.problem) ? tally.requests : 0,
            rejections: key.isRejection ? tally.requests : 0,
            latencies: LatencyCounts(tally.buckets)
        )
        history.withLock { $0.add(counts, route: route, client: key.client, minute: key.minute) }
    }

    private func measure(_ key: TrafficShard.Key, _ tally: TrafficShard.Tally, route: String) {
        let kind = TrafficSeries.Key(key)
        series.withLock { known in
            if let found = known[kind] { return found.add(tally) }
            let new = TrafficSeries(kind, route: route, in: metrics)
            if known.count < TrafficSeries.limit { known[kind] = new }
            new.add(tally)
        }
    }
}

/// How upstreams have answered a credential in the last seconds.
struct AnsweredCredential: Hashable, Sendable {
    let credential: String
    /// Whether they let any request in.
    let isAccepted: Bool
}

/// The metrics of one kind of exchange, found once.
///
/// Finding them by their labels, for each of a thousand routes every second, cost more than the routes themselves.
private struct TrafficSeries {
    struct Key: Hashable {
        let route: Int?
        /// See ``CountedStatus``.
        let status: Int
        let problem: ProblemKind?
        let isRejection: Bool

        init(_ key: TrafficShard.Key) {
            route = key.route
            status = CountedStatus.number(for: key.status)
            problem = key.problem
            isRejection = key.isRejection
        }
    }

    /// How many kinds are kept at hand.
    static let limit = 4096

    private let requests: CounterSeries
    private let received: CounterSeries
    private let sent: CounterSeries
    private let replays: CounterSeries
    private let duration: HistogramSeries
    private let problems: CounterSeries?
    private let rejections: CounterSeries?

    init(_ key: Key, route: String, in metrics: MetricRegistry) {
        let labels = [("route", route)]
        requests = metrics.counter("gateway_requests_total", labels + [("status", String(key.status))])
        received = metrics.counter("gateway_received_bytes_total", labels)
        sent = metrics.counter("gateway_sent_bytes_total", labels)
        replays = metrics.counter("gateway_replays_total", labels)
        duration = metrics.histogram("gateway_request_duration_seconds", labels, bounds: MetricRegistry.durationBounds)
        rejections = key.isRejection ? metrics.counter("gateway_credential_rejections_total", labels) : nil
        problems = key.problem.map {
            metrics.counter("gateway_problems_total", labels + [("problem", $0.rawValue)])
        }
    }

    func add(_ tally: TrafficShard.Tally) {
        let count = Int64(tally.requests)
        requests.increment(by: count)
        received.increment(by: Int64(tally.bytesReceived))
        sent.increment(by: Int64(tally.bytesSent))
        replays.increment(by: Int64(tally.replays))
        duration.merge(counts: tally.buckets.indices.lazy.map { Int64(tally.buckets[$0]) }, sum: tally.seconds)
        problems?.increment(by: count)
        rejections?.increment(by: count)
    }
}

/// Counts what engines are answered.
final class EngineCounts: Sendable {
    private struct Counters {
        var known: [AuthzOutcome: CounterSeries] = [:]
        /// Nearly always what the next request needs, too.
        var last: (use: AuthzOutcome, counter: CounterSeries)?
    }

    private let metrics: MetricRegistry
    private let counters = Mutex(Counters())

    init(metrics: MetricRegistry) { self.metrics = metrics }

    func add(_ use: AuthzOutcome) { counter(of: use).increment(by: 1) }

    private func counter(of use: AuthzOutcome) -> CounterSeries {
        counters.withLock { counters in
            if let last = counters.last, last.use == use { return last.counter }
            let labels = [("engine", use.name), ("outcome", use.outcome.rawValue)]
            let counter = counters.known[use] ?? metrics.counter("gateway_engine_answers_total", labels)
            counters.known[use] = counter
            counters.last = (use, counter)
            return counter
        }
    }
}

/// What one event loop has counted since the last collection.
///
/// The lock is only ever contended by the collector, every few seconds and when metrics are shown.
private final class TrafficShard: Sendable {
    struct Key: Hashable {
        let minute: Int64
        /// nil when no route was found.
        let route: Int?
        let client: String?
        /// nil when nothing was injected; held so that the identity is not given to another object meanwhile.
        let credential: Credential?
        let status: Int
        let problem: ProblemKind?

        var hadCredential: Bool { credential.map { !$0.isEmpty } ?? false }

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
        /// The tally at hand of each route, by its number; the first is for exchanges without a route.
        var latest: [Latest]
        /// Tallies that another kind of exchange has replaced in ``latest``.
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
