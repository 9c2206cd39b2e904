import GatewayCore
import Logging
import ServiceLifecycle
import Synchronization

/// Turns finished requests into usage counts, metrics and, when asked for, an access log; those that failed into events.
///
/// Event loops only add to a shard. What they counted is collected every few seconds, and before metrics are shown.
final class TrafficObserver: ExchangeObserver, Service {
    /// Every route there has been, by the number that ``number(of:)`` gave it.
    private let routes = Mutex<[String]>([])
    private let audit: any AuditLog
    private let usage: AuditPlan.Usage
    private let metrics: MetricRegistry
    private let clock: any GatewayClock
    private let accessLogger: Logger
    private let logsRequests: Bool
    private let reporter: RequestReporter
    /// nil but with `audit.usage: request`.
    private let ledger: RequestLedger?
    private let recent: RecentRequests
    /// By the number of the route.
    private let health = Mutex<[Int: UpstreamHealthMeter]>([:])
    /// nil where nothing is exported.
    let telemetry: RequestTelemetry?
    private let series = Mutex<[TrafficSeries.Key: TrafficSeries]>([:])
    /// One for each event loop of the data plane, in its numbering.
    private let shards: [TrafficShard]
    /// What to add to a monotonic reading to get civil time, in nanoseconds.
    private let wallOffset: Atomic<Int64>
    /// The last hour of each route, for the page.
    private let history = Mutex(TrafficHistory())
    private let collectedAt = Mutex<MonotonicTime?>(nil)
    /// Collections run one at a time, so that each one includes the counts of earlier ones.
    private let collecting = Mutex(())

    struct Loggers {
        let audit: Logger
        let requests: Logger
        let access: Logger
    }

    /// - Parameter logsRequests: The access log has a line for every request.
    init(
        audit: any AuditLog,
        usage: AuditPlan.Usage,
        feed: AuditFeed,
        metrics: MetricRegistry,
        clock: any GatewayClock,
        loggers: Loggers,
        logsRequests: Bool,
        telemetry: RequestTelemetry? = nil,
        workers: Int
    ) {
        self.telemetry = telemetry
        self.audit = audit
        self.usage = usage
        self.metrics = metrics
        self.clock = clock
        self.logsRequests = logsRequests
        accessLogger = loggers.access
        reporter = RequestReporter(
            feed: feed,
            metrics: metrics,
            logger: loggers.requests,
            accessLogger: loggers.access
        )
        let workers = max(1, workers)
        shards = (0..<workers).map { _ in TrafficShard() }
        recent = RecentRequests(workers: workers)
        ledger =
            usage == .request
            ? RequestLedger(audit: audit, metrics: metrics, logger: loggers.audit, workers: workers) : nil
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

    /// How the upstreams have answered, by the name of the route. Without those whose upstream was not asked yet.
    func upstreamHealth() -> [String: UpstreamHealth] {
        collect()
        let now = clock.now().wall
        let meters = health.withLock { $0 }
        let found = meters.compactMap { number, meter in name(number).map { ($0, meter.health(at: now)) } }
        return Dictionary(found) { $1 }
    }

    private func name(_ number: Int) -> String? {
        routes.withLock { $0.indices.contains(number) ? $0[number] : nil }
    }

    func finished(_ record: borrowing ExchangeRecord) {
        let offset = wallOffset.load(ordering: .relaxed)
        let wall = record.finishedAt.nanoseconds &+ offset
        shards[record.worker % shards.count].add(record, second: wall / 1_000_000_000)
        recent.add(record)
        if let ledger { ledger.add(record) }
        if let telemetry { telemetry.finished(record) }
        if let failure = record.failure { report(record, failure, offset) }
        if logsRequests { log(record) }
    }

    private func report(_ record: borrowing ExchangeRecord, _ failure: RequestFailure, _ offset: Int64) {
        let request = FinishedRequest(record)
        let route = record.route.flatMap(name) ?? ""
        explain(failure, of: request, offset)
        reporter.add(
            failure,
            problem: request.problem,
            status: request.status,
            route: (request.route, route),
            client: request.client,
            id: request.requestID.description,
            at: request.finishedAt,
            use: RequestUse(request, wallOffset: offset, route: route)
        )
    }

    private func explain(_ failure: RequestFailure, of request: FinishedRequest, _ offset: Int64) {
        guard let number = request.route,
            let outcome = UpstreamOutcome(status: request.status, problem: request.problem),
            outcome != .success
        else { return }
        let time = UnixTime(milliseconds: (request.finishedAt.nanoseconds &+ offset) / 1_000_000)
        health.withLock {
            $0[number, default: UpstreamHealthMeter()].explain(
                failure,
                status: request.status,
                requestID: request.requestID,
                at: time
            )
        }
    }

    /// A client was refused a token that it asked the admin listener for.
    func denied(_ request: CredentialRequest, reason: ProblemKind) {
        let now = clock.now()
        let failure = RequestFailure(
            GatewayProblem(reason, reason.title),
            place: RequestPlace(peer: "admin listener", path: "/\(request.route)")
        )
        reporter.add(
            failure,
            problem: reason,
            status: reason.status,
            route: (nil, request.route),
            client: request.client,
            id: request.requestID,
            at: now.monotonic,
            use: RequestUse(
                at: now.wall,
                requestID: request.requestID,
                route: request.route,
                client: request.client,
                method: "POST",
                status: reason.status,
                problem: reason,
                failure: failure,
                bytesReceived: 0,
                bytesSent: 0,
                duration: .zero
            )
        )
    }

    // MARK: Recent requests

    /// The last requests of this id, the gateway's or the client's: all that match, oldest first.
    func recentRequests(_ id: String) -> [RequestUse] {
        recent.find(id, wallOffset: wallOffset.load(ordering: .relaxed), name: name)
    }

    /// The requests that ended since `cursor` was given; nil for all that are still there.
    func recentRequests(after cursor: RecentRequests.Cursor?) -> RecentRequests.Batch {
        recent.latest(after: cursor, wallOffset: wallOffset.load(ordering: .relaxed), name: name)
    }

    // MARK: Collection

    /// Seconds. With a thousand routes in use a collection takes milliseconds, which requests have to do without.
    private static let collectionPause = 5

    func run() async throws {
        var seconds = 0
        while !Task.isShuttingDownGracefully, !Task.isCancelled {
            // A cancelled sleep is the stop; the code that stops the gateway collects the rest.
            try? await cancelWhenGracefulShutdown { [clock] in try await clock.sleep(for: .seconds(1)) }
            wallOffset.store(Self.offset(clock.now()), ordering: .relaxed)
            reportDue()
            seconds += 1
            if seconds.isMultiple(of: Self.collectionPause) {
                collect()
            } else {
                collectRequests()
            }
        }
        // The data plane has stopped, and the audit log still takes events.
        stopReporting()
    }

    /// The last hour of these routes. What was counted in the last second may be missing.
    func traffic(of names: [String], at now: Moment) -> [TrafficStatus] {
        let isOld = collectedAt.withLock { $0.map { now.monotonic - $0 >= .seconds(1) } ?? true }
        if isOld { collect() }
        let numbers = names.map { number(of: $0) }
        let history = history.withLock { $0 }
        return zip(names, numbers).map { history.status(of: $1, named: $0, at: now.wall) }
    }

    /// Writes what has been merged for a minute.
    func reportDue() { reporter.writeDue(at: clock.monotonic()) }

    /// Writes all that is merged; no request follows.
    func stopReporting() { reporter.writeRest() }

    /// Hands over what has been counted so far.
    func collect() {
        collectedAt.withLock { $0 = clock.monotonic() }
        collecting.withLock { _ in
            for shard in shards {
                for (key, tally) in shard.take() { publish(key, tally) }
            }
            collectLedger()
        }
    }

    /// What is kept of each request has less room.
    private func collectRequests() {
        collecting.withLock { _ in collectLedger() }
    }

    private func collectLedger() {
        ledger?.collect(at: clock.monotonic(), wallOffset: wallOffset.load(ordering: .relaxed), name: name)
    }

    private func publish(_ key: TrafficShard.Key, _ tally: TrafficShard.Tally) {
        let route = key.route.flatMap(name)
        measure(key, tally, route: route ?? "")
        remember(key, tally)
        if let number = key.route, let outcome = UpstreamOutcome(status: key.status, problem: key.problem) {
            let latest = UnixTime(seconds: Int64(tally.latest))
            health.withLock {
                $0[number, default: UpstreamHealthMeter()].add(outcome, count: tally.requests, latest: latest)
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

    private func log(_ record: borrowing ExchangeRecord) {
        var data: Logger.Metadata = [
            "request_id": "\(record.requestID)", "method": "\(record.method)", "status": "\(record.status)",
            "received": "\(record.bytesReceived)", "sent": "\(record.bytesSent)",
            "ms": "\((record.finishedAt - record.startedAt).wholeMilliseconds)",
        ]
        if let id = record.clientRequestID { data["client_request_id"] = "\(id)" }
        if let route = record.route.flatMap(name) { data["route"] = "\(route)" }
        if let client = record.client { data["client"] = "\(client)" }
        if let problem = record.problem { data["problem"] = "\(problem.rawValue)" }
        if let credential = record.credential {
            data["credential"] = "\(credential.name)"
            data["generation"] = "\(credential.generation)"
        }
        if record.wasReplayed { data["replayed"] = "true" }
        if let failure = record.failure { data["reason"] = "\(failure.reason)" }
        accessLogger.info("Request", metadata: data)
    }

    private static func offset(_ now: Moment) -> Int64 {
        now.wall.milliseconds &* 1_000_000 &- now.monotonic.nanoseconds
    }
}
