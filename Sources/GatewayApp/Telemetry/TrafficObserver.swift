import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens
import Logging
import ServiceLifecycle
import Synchronization

/// Passes each finished request on: to the counts, the requests in memory, telemetry and the access log, and those that failed to
/// the reporter.
///
/// What event loops have counted is collected every few seconds, and before metrics are shown.
final class TrafficObserver: ExchangeObserver, Service {
    /// Stands in place of a route's name for traffic to servers without a route. No route can have this name.
    static let unrouted = ConnectPlan.unroutedName

    private let routes = RouteNumbers()
    private let counts: TrafficCounts
    private let engines: EngineCounts
    private let clock: any GatewayClock
    /// nil unless every request has a line.
    private let accessLog: AccessLog?
    private let reporter: RequestReporter
    private let feed: AuditEventQueue
    private let requestLog: Logger
    /// nil but with `audit.usage: request`.
    private let ledger: RequestLedger?
    private let recent: RecentRequests
    /// Told of each collection.
    private let uses: @Sendable ([AnsweredCredential], UnixTime) -> Void
    /// For the page.
    private let latencies = Mutex(LatencyHistory())
    /// nil where nothing is exported.
    let telemetry: RequestTelemetry?
    /// What to add to a monotonic reading to get civil time, in nanoseconds.
    private let wallOffset: Atomic<Int64>
    private let collectedAt = Mutex<MonotonicTime?>(nil)
    /// Collections run one at a time, so that each one includes the counts of earlier ones. Holds how far ``latencies`` has come in the
    /// requests of each worker.
    private let collecting = Mutex<[UInt64]>([])

    struct Loggers {
        let audit: Logger
        let requests: Logger
        let access: Logger
    }

    /// - Parameters:
    ///   - logsRequests: The access log has a line for every request.
    ///   - uses: Told how upstreams have answered credentials since the last time, every few seconds.
    init(
        audit: any AuditLog,
        usage: AuditPlan.Usage,
        feed: AuditEventQueue,
        metrics: MetricRegistry,
        clock: any GatewayClock,
        loggers: Loggers,
        logsRequests: Bool,
        telemetry: RequestTelemetry? = nil,
        workers: Int,
        uses: @escaping @Sendable ([AnsweredCredential], UnixTime) -> Void = { _, _ in }
    ) {
        self.uses = uses
        self.telemetry = telemetry
        self.clock = clock
        self.feed = feed
        requestLog = loggers.requests
        accessLog = logsRequests ? AccessLog(logger: loggers.access) : nil
        reporter = RequestReporter(
            feed: feed,
            metrics: metrics,
            logger: loggers.requests,
            accessLogger: loggers.access
        )
        let workers = max(1, workers)
        counts = TrafficCounts(routes: routes, audit: audit, usage: usage, metrics: metrics, workers: workers)
        engines = EngineCounts(metrics: metrics)
        recent = RecentRequests(workers: workers)
        ledger =
            usage == .request
            ? RequestLedger(audit: audit, metrics: metrics, logger: loggers.audit, workers: workers) : nil
        wallOffset = Atomic(Self.offset(clock.now()))
    }

    /// What records of this route carry. A route keeps its number when a reload keeps its name.
    func number(of route: String) -> Int { routes.number(of: route) }

    private func name(_ number: Int) -> String? { routes.name(of: number) }

    /// How the upstreams have answered, by the name of the route. Without those whose upstream was not asked yet.
    func upstreamHealth() -> [String: UpstreamHealth] {
        collect()
        return counts.upstreamHealth(at: clock.now().wall)
    }

    func finished(_ record: borrowing ExchangeRecord) {
        let offset = wallOffset.load(ordering: .relaxed)
        let wall = record.finishedAt.nanoseconds &+ offset
        recent.add(record)
        if let use = record.engine {
            // The engine forwards the request, and not the gateway.
            engines.add(use)
        } else {
            counts.add(record, second: wall / 1_000_000_000)
            if let ledger { ledger.add(record) }
            if let telemetry { telemetry.finished(record) }
        }
        if let failure = record.failure { report(record, failure, offset) }
        if let accessLog { accessLog.write(record, name: name) }
    }

    private func report(_ record: borrowing ExchangeRecord, _ failure: RequestFailure, _ offset: Int64) {
        let request = FinishedRequest(record)
        let route = record.route.flatMap(name) ?? ""
        counts.explain(failure, of: request, wallOffset: offset)
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

    func held(_ request: HeldRequest, _ event: HeldRequest.Event) {
        feed.offer(TokenEvent(event, of: request, at: clock.now().wall))
        guard event == .held else { return }
        requestLog.notice(
            "A request waits for approval (authgateway approve)",
            metadata: [
                "request_id": "\(request.id)", "route": "\(request.subject.route)",
                "client": "\(request.subject.client ?? "")",
            ]
        )
    }

    /// A client was refused a token that it asked the admin listener for, or a sender what is for operators.
    func denied(_ request: CredentialRequest, method: String = "POST", reason: ProblemKind) {
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
                method: method,
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
        collectIfOld(at: now)
        return counts.traffic(of: names, at: now.wall)
    }

    /// The last hour of each client, and what upstreams and the gateway took.
    func hour(at now: Moment) -> TrafficHour {
        collectIfOld(at: now)
        let latencies = latencies.withLock { $0.status(at: now.wall) }
        return TrafficHour(clients: counts.clients(at: now.wall), latencies: latencies, at: now.wall)
    }

    private func collectIfOld(at now: Moment) {
        let isOld = collectedAt.withLock { $0.map { now.monotonic - $0 >= .seconds(1) } ?? true }
        if isOld { collect() }
    }

    /// Writes what has been merged for a minute.
    func reportDue() { reporter.writeDue(at: clock.monotonic()) }

    /// Writes all that is merged; no request follows.
    func stopReporting() { reporter.writeRest() }

    /// Hands over what has been counted so far.
    func collect() {
        collectedAt.withLock { $0 = clock.monotonic() }
        let (answered, sample) = collecting.withLock { positions in
            let answered = counts.collect()
            collectLedger()
            return (answered, recent.sampleLatencies(after: &positions))
        }
        let now = clock.now().wall
        if !sample.isEmpty { latencies.withLock { $0.add(sample, minute: now.milliseconds / 60_000) } }
        if !answered.isEmpty { uses(answered, now) }
    }

    /// What is kept of each request has less room.
    private func collectRequests() {
        collecting.withLock { _ in collectLedger() }
    }

    private func collectLedger() {
        ledger?.collect(at: clock.monotonic(), wallOffset: wallOffset.load(ordering: .relaxed), name: name)
    }

    private static func offset(_ now: Moment) -> Int64 {
        now.wall.milliseconds &* 1_000_000 &- now.monotonic.nanoseconds
    }
}

/// Numbers every route there has been, so that records of requests carry no name.
final class RouteNumbers: Sendable {
    private struct State {
        var names: [String] = []
        var numbers: [String: Int] = [:]
    }

    private let state = Mutex(State())

    /// A route keeps its number when a reload keeps its name.
    func number(of route: String) -> Int {
        state.withLock { state in
            if let number = state.numbers[route] { return number }
            state.numbers[route] = state.names.count
            state.names.append(route)
            return state.names.count - 1
        }
    }

    func name(of number: Int) -> String? {
        state.withLock { $0.names.indices.contains(number) ? $0.names[number] : nil }
    }
}

/// Writes a line for every request.
private struct AccessLog: Sendable {
    let logger: Logger

    /// - Parameter name: The name of a route, by its number.
    func write(_ record: borrowing ExchangeRecord, name: (Int) -> String?) {
        var data: Logger.Metadata = [
            "request_id": "\(record.requestID)", "method": "\(record.method)", "status": "\(record.status)",
            "received": "\(record.bytesReceived)", "sent": "\(record.bytesSent)",
            "ms": "\((record.finishedAt - record.startedAt).wholeMilliseconds)",
        ]
        if let id = record.clientRequestID { data["client_request_id"] = "\(id)" }
        if let route = record.route.flatMap(name) { data["route"] = "\(route)" }
        if let destination = record.destination { data["destination"] = "\(destination)" }
        if let client = record.client { data["client"] = "\(client)" }
        if let problem = record.problem { data["problem"] = "\(problem.rawValue)" }
        if let credential = record.credential {
            data["credential"] = "\(credential.name)"
            data["generation"] = "\(credential.generation)"
        }
        if record.wasReplayed { data["replayed"] = "true" }
        if let failure = record.failure { data["reason"] = "\(failure.reason)" }
        if let engine = record.engine {
            data["engine"] = "\(engine.name)"
            data["outcome"] = "\(engine.outcome.rawValue)"
        }
        logger.info(record.engine == nil ? "Request" : "Engine answered", metadata: data)
    }
}
