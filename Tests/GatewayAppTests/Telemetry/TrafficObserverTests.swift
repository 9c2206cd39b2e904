import GatewayAudit
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Logging
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite(.timeLimit(.minutes(5)))
struct TrafficObserverTests {
    private let audit = RecordingAuditLog()
    private let clock = ManualClock()
    private let metrics = MetricRegistry()
    private let feed: AuditEventQueue
    private let observer: TrafficObserver

    init() {
        let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        feed = AuditEventQueue(audit: audit, metrics: metrics, logger: quiet)
        observer = TrafficObserver(
            audit: audit,
            usage: .minute,
            feed: feed,
            metrics: metrics,
            clock: clock,
            loggers: TrafficObserver.Loggers(audit: quiet, requests: quiet, access: quiet),
            logsRequests: false,
            workers: 1
        )
        for route in ["box", "open"] { _ = observer.number(of: route) }
    }

    private func record(
        route: Int?,
        status: Int,
        credential: Credential?,
        problem: ProblemKind? = nil,
        wasSent: Bool = true,
        duration: Duration = .milliseconds(30)
    ) -> ExchangeRecord {
        let now = clock.now().monotonic
        var record = ExchangeRecord(
            requestID: RequestID(run: 1, worker: 0, number: 1),
            route: route,
            client: "laptop",
            method: "GET",
            startedAt: now,
            finishedAt: now + duration
        )
        record.status = status
        record.problem = problem
        record.credential = credential
        record.wasSent = wasSent
        record.bytesReceived = 10
        record.bytesSent = 100
        return record
    }

    @Test func usesOfOneMinuteAreOneCount() {
        let credential = Credential(name: "service", generation: 2, injection: Injection())
        for status in [200, 204, 200, 502] {
            observer.finished(record(route: 0, status: status, credential: credential))
        }
        observer.collect()
        observer.collect()
        let good = audit.uses.filter { $0.key.statusClass == 2 }
        #expect(good.map(\.requests).reduce(0, +) == 3)
        #expect(good.map(\.bytesSent).reduce(0, +) == 300)
        #expect(audit.uses.first { $0.key.statusClass == 5 }?.requests == 1)
        let keys = audit.uses.map(\.key)
        #expect(keys.allSatisfy { $0.route == "box" && $0.credential == "service" && $0.generation == 2 })
        #expect(keys.allSatisfy { $0.minute == UnixTime(seconds: 1_772_357_400) && $0.client == "laptop" })
    }

    @Test func everyDurationHasItsPlace() {
        let bounds = MetricRegistry.durationBounds
        for seconds in bounds + [3600] {
            observer.finished(record(route: 0, status: 200, credential: nil, duration: .seconds(seconds)))
        }
        observer.collect()
        let text = metrics.text()
        for (bound, count) in [("0.001", 1), ("0.0025", 2), ("60", bounds.count), ("+Inf", bounds.count + 1)] {
            #expect(text.contains("gateway_request_duration_seconds_bucket{route=\"box\",le=\"\(bound)\"} \(count)\n"))
        }
    }

    /// Kinds of exchanges that take turns, over the end of a minute and over collections.
    @Test func nothingIsLostAndNothingIsCountedTwice() {
        let credential = Credential(name: "service", generation: 2, injection: Injection())
        let started = clock.now().wall
        for round in 0..<120 {
            for route in [0, 1] {
                for status in [200, 401, 200] {
                    observer.finished(record(route: route, status: status, credential: credential))
                }
            }
            if round.isMultiple(of: 7) { observer.collect() }
            clock.advance(by: .seconds(1))
        }
        observer.collect()
        for route in ["box", "open"] {
            let uses = audit.uses.filter { $0.key.route == route }
            #expect(uses.map(\.requests).reduce(0, +) == 360 && uses.map(\.bytesReceived).reduce(0, +) == 3600)
            #expect(uses.filter { $0.key.statusClass == 4 }.map(\.requests).reduce(0, +) == 120)
            let text = metrics.text()
            #expect(text.contains("gateway_requests_total{route=\"\(route)\",status=\"200\"} 240\n"))
            #expect(text.contains("gateway_request_duration_seconds_count{route=\"\(route)\"} 360\n"))
        }
        // Two minutes from a start within one.
        let minutes = Set(audit.uses.map(\.key.minute))
        #expect(minutes.count == (started.milliseconds.isMultiple(of: 60_000) ? 2 : 3))
    }

    @Test func anExchangeWithoutACredentialIsMeasuredAndNotCounted() {
        observer.finished(record(route: 1, status: 200, credential: nil))
        observer.finished(record(route: nil, status: 404, credential: nil, problem: .noRoute))
        observer.collect()
        #expect(audit.uses == [])
        let text = metrics.text()
        #expect(text.contains("gateway_requests_total{route=\"open\",status=\"200\"} 1\n"))
        #expect(text.contains("gateway_requests_total{route=\"\",status=\"404\"} 1\n"))
        #expect(text.contains("gateway_problems_total{route=\"\",problem=\"no-route\"} 1\n"))
        #expect(text.contains("gateway_request_duration_seconds_bucket{route=\"open\",le=\"0.05\"} 1\n"))
        #expect(text.contains("gateway_request_duration_seconds_bucket{route=\"open\",le=\"0.025\"} 0\n"))
    }

    @Test func theHourHasClientsAndLatencies() {
        for _ in 0..<3 {
            var record = record(route: 0, status: 200, credential: nil)
            record.timings.reached(.credential, after: 50_000)
            record.timings.reached(.connection, after: 100_000)
            record.timings.reached(.response, after: 30_100_000)
            observer.finished(record)
        }
        // No upstream has answered.
        observer.finished(record(route: 0, status: 502, credential: nil, problem: .upstreamUnreachable))
        let hour = observer.hour(at: clock.now())
        #expect(hour.clients.map(\.client) == ["laptop"])
        #expect(hour.clients.first?.requests.last == 4 && hour.clients.first?.errors.last == 1)
        let (upstream, gateway) = (hour.latencies.upstreamP50.last ?? nil, hour.latencies.gatewayP99.last ?? nil)
        #expect((25...50).contains(upstream ?? 0) && (0.05...0.2).contains(gateway ?? 0))
        // A request counts once.
        observer.collect()
        clock.advance(by: .seconds(60))
        observer.collect()
        #expect(observer.hour(at: clock.now()).latencies.upstreamP50.compactMap(\.self).count == 1)
    }

    @Test func whoeverWatchesCredentialsIsToldWhetherTheyAreLetIn() {
        let told = Watched<[AnsweredCredential]>([])
        let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let observer = TrafficObserver(
            audit: audit,
            usage: .none,
            feed: feed,
            metrics: metrics,
            clock: clock,
            loggers: TrafficObserver.Loggers(audit: quiet, requests: quiet, access: quiet),
            logsRequests: false,
            workers: 1,
            uses: { uses, _ in told.update { $0 += uses } }
        )
        _ = observer.number(of: "box")
        func key(_ name: String) -> Credential {
            Credential(name: name, generation: 1, injection: .authorization(scheme: "Bearer", Secret("k")))
        }
        let (good, mixed, bad) = (key("good"), key("mixed"), key("bad"))
        for (credential, status) in [(good, 200), (mixed, 401), (mixed, 404), (bad, 403), (bad, 401)] {
            observer.finished(record(route: 0, status: status, credential: credential))
        }
        observer.finished(record(route: 0, status: 502, credential: bad, problem: .upstreamUnreachable))
        observer.collect()
        let found = Dictionary(told.value.map { ($0.credential, $0.isAccepted) }) { $1 }
        #expect(found == ["good": true, "mixed": true, "bad": false])
    }

    /// Another one for the same routes, with `audit.usage: request`.
    private func keepingRequests() -> TrafficObserver {
        let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let observer = TrafficObserver(
            audit: audit,
            usage: .request,
            feed: feed,
            metrics: metrics,
            clock: clock,
            loggers: TrafficObserver.Loggers(audit: quiet, requests: quiet, access: quiet),
            logsRequests: false,
            workers: 1
        )
        for route in ["box", "open"] { _ = observer.number(of: route) }
        return observer
    }

    @Test func everyRequestThatWasSentOnIsKeptAndTheCountsStay() {
        let observer = keepingRequests()
        let credential = Credential(name: "service", generation: 2, injection: Injection())
        observer.finished(record(route: 0, status: 200, credential: credential))
        observer.finished(record(route: 0, status: 502, credential: credential, problem: .upstreamUnreachable))
        observer.finished(record(route: 1, status: 200, credential: nil))
        // Refused before anything was sent on.
        observer.finished(record(route: 1, status: 401, credential: nil, problem: .clientAuthRequired, wasSent: false))
        observer.finished(record(route: 1, status: 502, credential: nil, problem: .upstreamUnreachable, wasSent: false))
        observer.finished(record(route: nil, status: 404, credential: nil, problem: .noRoute, wasSent: false))
        // It may have done what it was asked to.
        observer.finished(record(route: 1, status: 504, credential: nil, problem: .upstreamTimeout))
        observer.collect()
        observer.collect()
        #expect(audit.requests.map(\.route) == ["box", "box", "open", "open"])
        #expect(audit.requests.map(\.status) == [200, 502, 200, 504])
        #expect(audit.requests.map(\.credential) == ["service", "service", nil, nil])
        #expect(audit.requests[0].generation == 2 && audit.requests[0].client == "laptop")
        #expect(audit.requests[0].duration == .milliseconds(30) && audit.requests[0].requestID == "0000010-1")
        #expect(audit.requests[0].at == clock.now().wall + .milliseconds(30))
        #expect(audit.requests[1].problem == .upstreamUnreachable)
        #expect(audit.uses.map(\.requests).reduce(0, +) == 2)
        #expect(metrics.text().contains("gateway_audit_requests_lost_total 0\n"))
    }

    @Test func countsPerMinuteKeepNoRequests() {
        let credential = Credential(name: "service", generation: 2, injection: Injection())
        observer.finished(record(route: 0, status: 200, credential: credential))
        observer.collect()
        #expect(audit.requests == [])
        #expect(!metrics.text().contains("gateway_audit_requests_lost_total"))
    }

    @Test func whatIsTooMuchIsCountedAsLost() {
        let observer = keepingRequests()
        let credential = Credential(name: "service", generation: 2, injection: Injection())
        for _ in 0..<(TrafficRequests.limit + 5) {
            observer.finished(record(route: 0, status: 200, credential: credential))
        }
        audit.limitRequests(to: TrafficRequests.limit - 2)
        observer.collect()
        #expect(audit.requests.count == TrafficRequests.limit - 2)
        #expect(metrics.text().contains("gateway_audit_requests_lost_total 7\n"))
    }

    @Test func anAuditFeedThatIsFullDropsAndCounts() async {
        for _ in 0..<1500 { feed.offer(TokenEvent(at: clock.now().wall, name: .injected)) }
        feed.finish()
        await feed.run()
        #expect(audit.count(of: .injected) == 1024)
        #expect(metrics.text().contains("gateway_audit_events_dropped_total 476\n"))
    }
}

@Suite(.timeLimit(.minutes(5)))
struct RouteTrafficTests {
    private let clock = ManualClock()
    private let observer: TrafficObserver

    init() {
        let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let (audit, metrics) = (RecordingAuditLog(), MetricRegistry())
        observer = TrafficObserver(
            audit: audit,
            usage: .none,
            feed: AuditEventQueue(audit: audit, metrics: metrics, logger: quiet),
            metrics: metrics,
            clock: clock,
            loggers: TrafficObserver.Loggers(audit: quiet, requests: quiet, access: quiet),
            logsRequests: false,
            workers: 2
        )
        for route in ["box", "closed"] { _ = observer.number(of: route) }
    }

    private func finish(_ route: Int?, _ status: Int, _ problem: ProblemKind? = nil, worker: Int = 0, after: Duration) {
        let now = clock.now().monotonic
        var record = ExchangeRecord(
            requestID: RequestID(run: 1, worker: worker, number: 1),
            worker: worker,
            route: route,
            client: nil,
            method: "GET",
            startedAt: now,
            finishedAt: now + after
        )
        record.status = status
        record.problem = problem
        observer.finished(record)
    }

    @Test func allWorkersCountInTheOrderOfTheRoutes() {
        for worker in 0..<2 { finish(0, 200, worker: worker, after: .milliseconds(30)) }
        finish(1, 502, .upstreamUnreachable, after: .milliseconds(3))
        finish(1, 404, worker: 1, after: .milliseconds(3))
        finish(nil, 404, .noRoute, after: .milliseconds(1))
        let traffic = observer.traffic(of: ["closed", "box", "new"], at: clock.now())
        #expect(traffic.map(\.route) == ["closed", "box", "new"])
        #expect(traffic.map { $0.requests.reduce(0, +) } == [2, 2, 0])
        #expect(traffic.map(\.errorShare) == [0.5, 0, nil])
        #expect((25...50).contains(traffic[1].p50Milliseconds ?? 0))
    }

    @Test func whoLooksOftenCausesOneCollectionASecond() {
        finish(0, 200, after: .zero)
        #expect(observer.traffic(of: ["box"], at: clock.now())[0].requests.last == 1)
        finish(0, 200, after: .zero)
        #expect(observer.traffic(of: ["box"], at: clock.now())[0].requests.last == 1)
        clock.advance(by: .seconds(1))
        #expect(observer.traffic(of: ["box"], at: clock.now())[0].requests.reduce(0, +) == 2)
    }

    @Test func aRequestBecomesAnEntry() {
        let place = RequestPlace(peer: "127.0.0.1", path: "/box/{id}")
        let problem = GatewayProblem(.upstreamUnreachable, "Nothing listens there.")
        let use = RequestUse(
            at: clock.now().wall,
            requestID: "r9f2-1",
            route: "box",
            client: "ci",
            method: "GET",
            status: 502,
            problem: .upstreamUnreachable,
            failure: RequestFailure(problem, place: place),
            bytesReceived: 0,
            bytesSent: 0,
            duration: .milliseconds(3)
        )
        let entry = AuditEntry(use)
        #expect(entry.id == nil && entry.isFailed)
        #expect(entry.note == "502 upstream-unreachable · in 3 ms · GET /box/{id}")
        #expect(EventQuery(kind: .group(.requests)).matches(entry))
        #expect(!EventQuery().matches(entry) && !EventQuery(kind: .group(.failures)).matches(entry))
    }
}
