import GatewayCore
import Logging
import ServiceLifecycle
import Synchronization

/// Turns finished exchanges into usage counts, metrics and, when asked for, an access log; refused clients into events.
///
/// Event loops only add to a shard. What they counted is collected every few seconds, and before metrics are shown.
final class TrafficObserver: ExchangeObserver, Service {
    /// Every route there has been, by the number that ``number(of:)`` gave it.
    private let routes = Mutex<[String]>([])
    private let audit: any AuditLog
    private let usage: AuditPlan.Usage
    private let feed: AuditFeed
    private let metrics: MetricRegistry
    private let clock: any GatewayClock
    private let accessLog: Logger?
    /// nil but with `audit.usage: request`.
    private let ledger: RequestLedger?
    private let series = Mutex<[TrafficSeries.Key: TrafficSeries]>([:])
    /// One for each event loop of the data plane, in its numbering.
    private let shards: [TrafficShard]
    /// What to add to a monotonic reading to get civil time, in nanoseconds.
    private let wallOffset: Atomic<Int64>
    private let denials = Mutex(EventBudget())
    /// The last hour of each route, for the page.
    private let history = Mutex(TrafficHistory())
    private let collectedAt = Mutex<MonotonicTime?>(nil)
    /// Collections run one at a time, so that each one includes the counts of earlier ones.
    private let collecting = Mutex(())

    init(
        audit: any AuditLog,
        usage: AuditPlan.Usage,
        feed: AuditFeed,
        metrics: MetricRegistry,
        clock: any GatewayClock,
        accessLog: Logger?,
        logger: Logger,
        workers: Int
    ) {
        self.audit = audit
        self.usage = usage
        self.feed = feed
        self.metrics = metrics
        self.clock = clock
        self.accessLog = accessLog
        let workers = max(1, workers)
        shards = (0..<workers).map { _ in TrafficShard() }
        ledger =
            usage == .request ? RequestLedger(audit: audit, metrics: metrics, logger: logger, workers: workers) : nil
        wallOffset = Atomic(Self.offset(clock.now()))
    }

    /// What records of this route carry. A route keeps its number when a reload keeps its name.
    func number(of route: String) -> Int {
        routes.withLock { routes in
            if let number = routes.firstIndex(of: route) { return number }
            routes.append(route)
            return routes.count - 1
        }
    }

    private func name(_ number: Int) -> String? {
        routes.withLock { $0.indices.contains(number) ? $0[number] : nil }
    }

    func finished(_ record: borrowing ExchangeRecord) {
        let wall = record.finishedAt.nanoseconds &+ wallOffset.load(ordering: .relaxed)
        shards[record.worker % shards.count].add(record, minute: wall / 60_000_000_000)
        if let ledger { ledger.add(record, finishedAt: wall) }
        if let accessLog { log(record, to: accessLog) }
    }

    func denied(_ demand: CredentialRequest?, requestID: String, reason: ProblemKind) {
        metrics.counter("gateway_clients_denied_total", [("reason", reason.rawValue)]).increment(by: 1)
        let now = clock.now()
        guard let unrecorded = denials.withLock({ $0.spend(at: now.monotonic) }) else { return }
        var detail = ["reason": reason.rawValue]
        if unrecorded > 0 { detail["unrecorded_before"] = String(unrecorded) }
        let demand = demand ?? CredentialRequest(route: "", client: nil, requestID: requestID)
        let event = TokenEvent(
            at: now.wall,
            name: .clientDenied,
            demand: demand,
            outcome: .failed,
            errorCode: reason.rawValue,
            detail: detail
        )
        feed.offer(event)
    }

    /// Seconds. With a thousand routes in use a collection takes milliseconds, which requests have to do without.
    private static let collectionPause = 5

    func run() async throws {
        var seconds = 0
        while !Task.isShuttingDownGracefully, !Task.isCancelled {
            // A cancelled sleep is the stop; the code that stops the gateway collects the rest.
            try? await cancelWhenGracefulShutdown { [clock] in try await clock.sleep(for: .seconds(1)) }
            wallOffset.store(Self.offset(clock.now()), ordering: .relaxed)
            seconds += 1
            if seconds.isMultiple(of: Self.collectionPause) {
                collect()
            } else {
                collectRequests()
            }
        }
    }

    /// The last hour of these routes. What was counted in the last second may be missing.
    func traffic(of names: [String], at now: Moment) -> [TrafficStatus] {
        let isOld = collectedAt.withLock { $0.map { now.monotonic - $0 >= .seconds(1) } ?? true }
        if isOld { collect() }
        let numbers = names.map { number(of: $0) }
        let history = history.withLock { $0 }
        return zip(names, numbers).map { history.status(of: $1, named: $0, at: now.wall) }
    }

    /// Hands over what has been counted so far.
    func collect() {
        collectedAt.withLock { $0 = clock.monotonic() }
        collecting.withLock { _ in
            for shard in shards {
                for (key, tally) in shard.take() { publish(key, tally) }
            }
            ledger?.collect(at: clock.monotonic(), name: name)
        }
    }

    /// What is kept of each request has less room.
    private func collectRequests() {
        collecting.withLock { _ in ledger?.collect(at: clock.monotonic(), name: name) }
    }

    private func publish(_ key: TrafficShard.Key, _ tally: TrafficShard.Tally) {
        let route = key.route.flatMap(name)
        measure(key, tally, route: route ?? "")
        remember(key, tally)
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
            latencies: LatencyCounts(tally.buckets)
        )
        history.withLock { $0.add(counts, route: route, minute: key.minute) }
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

    private func log(_ record: borrowing ExchangeRecord, to logger: Logger) {
        var data: Logger.Metadata = [
            "request_id": "\(record.requestID)", "method": "\(record.method)", "status": "\(record.status)",
            "received": "\(record.bytesReceived)", "sent": "\(record.bytesSent)",
            "ms": "\((record.finishedAt - record.startedAt).wholeMilliseconds)",
        ]
        if let route = record.route.flatMap(name) { data["route"] = "\(route)" }
        if let client = record.client { data["client"] = "\(client)" }
        if let problem = record.problem { data["problem"] = "\(problem.rawValue)" }
        if let credential = record.credential {
            data["credential"] = "\(credential.name)"
            data["generation"] = "\(credential.generation)"
        }
        if record.wasReplayed { data["replayed"] = "true" }
        logger.info("Request", metadata: data)
    }

    private static func offset(_ now: Moment) -> Int64 {
        now.wall.milliseconds &* 1_000_000 &- now.monotonic.nanoseconds
    }
}
