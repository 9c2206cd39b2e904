import GatewayAudit
import GatewayCore
import GatewayTesting
import Logging
import Testing

@testable import GatewayRuntime

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
            feed: AuditFeed(audit: audit, metrics: metrics, logger: quiet),
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
