import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Synchronization
import Testing

@testable import GatewayApp
@testable import GatewayProxy

/// Failures, denials and requests without a route: what becomes of them in the audit log, the log and the metrics.
@Suite(.timeLimit(.minutes(5)))
struct RequestReporterTests {
    private final class Lines: Sendable {
        private let lines = Mutex<[String]>([])

        var all: [String] { lines.withLock { $0 } }

        func logger(_ label: String) -> Logger {
            LogOutput(format: .text, clock: ManualClock(), write: { line in self.lines.withLock { $0.append(line) } })
                .logger(label, level: .info)
        }
    }

    private let audit = RecordingAuditLog()
    private let clock = ManualClock()
    private let metrics = MetricRegistry()
    private let lines = Lines()
    private let feed: AuditEventQueue
    private let observer: TrafficObserver

    init() {
        feed = AuditEventQueue(audit: audit, metrics: metrics, logger: lines.logger("audit"))
        observer = TrafficObserver(
            audit: audit,
            usage: .minute,
            feed: feed,
            metrics: metrics,
            clock: clock,
            loggers: TrafficObserver.Loggers(
                audit: lines.logger("audit"),
                requests: lines.logger("requests"),
                access: lines.logger("access")
            ),
            logsRequests: false,
            workers: 2
        )
        _ = observer.number(of: "box")
    }

    private func finish(
        _ number: UInt64,
        _ problem: GatewayProblem,
        clientID: String? = nil,
        peer: String = "192.0.2.1",
        host: String = "localhost"
    ) {
        let now = clock.now().monotonic
        let hasRoute = problem.kind != .noRoute
        var record = ExchangeRecord(
            requestID: RequestID(run: 1, worker: 1, number: number),
            clientRequestID: clientID,
            worker: 1,
            route: hasRoute ? 0 : nil,
            client: "laptop",
            method: "GET",
            startedAt: now
        )
        record.status = problem.kind.status
        record.problem = problem.kind
        record.failure = RequestFailure(
            problem,
            credential: hasRoute ? "service" : nil,
            place: RequestPlace(peer: peer, host: host, path: "/x")
        )
        observer.finished(record)
    }

    private func events() async -> [TokenEvent] {
        feed.finish()
        await feed.run()
        return audit.events
    }

    private static let refused = GatewayProblem(
        .upstreamUnreachable,
        "api does not accept connections; is it running?",
        hopError: .connectionRefused
    )

    @Test func theFirstFailureIsARowAndAWarningAtOnce() async {
        finish(1, Self.refused, clientID: "mine")
        for number: UInt64 in 2...5 { finish(number, Self.refused) }
        #expect(lines.all.count == 1)
        for part in [
            "warning", "Request failed", "reason=connection_refused", "route=box", "client=laptop",
            "credential=service",
            "peer=192.0.2.1", "path=/x", "request_id=0000011-1", "client_request_id=mine", "status=502",
            "is it running?",
        ] {
            #expect(lines.all[0].contains(part), "\(part) in \(lines.all[0])")
        }
        observer.stopReporting()
        let events = await events()
        #expect(events.map(\.name) == [.requestFailed, .requestFailed])
        #expect(events[0].demand?.route == "box" && events[0].demand?.clientRequestID == "mine")
        #expect(events[1].detail["count"] == "4")
        #expect(events[1].detail["requests"] == "0000011-2 0000011-3 0000011-4 0000011-5")
        #expect(lines.all.count == 2 && lines.all[1].contains("count=4"))
        let counted = "gateway_requests_failed_total{route=\"box\",reason=\"connection_refused\"} 5\n"
        #expect(metrics.text().contains(counted))
    }

    @Test func aGuesserDoesNotFillTheAuditLog() async {
        for number: UInt64 in 0..<1000 { finish(number, GatewayProblem(.clientAuthRequired, "x")) }
        clock.advance(by: .seconds(60))
        observer.reportDue()
        finish(1000, GatewayProblem(.clientAuthRequired, "x"))
        let events = await events()
        #expect(events.map(\.name) == [.clientDenied, .clientDenied, .clientDenied])
        #expect(events.map { $0.detail["count"] } == [nil, "999", nil])
        #expect(events.allSatisfy { $0.detail["peer"] == "192.0.2.1" })
        #expect(metrics.text().contains("gateway_clients_denied_total{reason=\"client-auth-required\"} 1001\n"))
    }

    @Test func requestsWithoutARouteAreLinesOfTheAccessLog() async {
        for _ in 0..<30 { finish(1, GatewayProblem(.noRoute, "x"), host: "scan.example") }
        finish(1, GatewayProblem(.noRoute, "x"), host: "evil\n\u{1B}[2J")
        observer.stopReporting()
        #expect(lines.all.count == 3)
        #expect(lines.all[0].contains("Request without a route") && lines.all[0].contains("host=scan.example"))
        #expect(lines.all[0].contains("peer=192.0.2.1") && !lines.all[0].contains("count="))
        #expect(lines.all[1].contains("evil") && !lines.all[1].dropLast().contains("\n"))
        #expect(!lines.all[1].contains("\u{1B}"))
        #expect(lines.all[2].contains("count=29"))
        #expect(await events() == [])
        observer.collect()
        #expect(metrics.text().contains("gateway_problems_total{route=\"\",problem=\"no-route\"} 31\n"))
    }

    @Test func aTokenThatIsNotHandedOutIsADenial() async {
        let request = CredentialRequest(route: "tokens/box", client: "laptop", requestID: "k")
        observer.denied(request, reason: .routeForbidden)
        let events = await events()
        #expect(events.map(\.name) == [.clientDenied] && events[0].demand?.route == "tokens/box")
        #expect(events[0].detail["peer"] == "admin listener")
    }

    /// What is in the tables when the gateway stops fits into the queue before the audit log.
    @Test func nothingIsLostAtTheStop() async {
        for number in 0..<2000 {
            for _ in 0..<2 {
                finish(1, GatewayProblem(.clientAuthRequired, "x"), peer: "10.0.\(number / 256).\(number % 256)")
            }
        }
        observer.stopReporting()
        let events = await events()
        #expect(events.map { Int($0.detail["count"] ?? "1") ?? 0 }.reduce(0, +) == 4000)
        #expect(metrics.text().contains("gateway_audit_events_dropped_total 0\n"))
    }

    // MARK: Recent requests

    @Test func theLastRequestsAreFoundAndFollowed() {
        finish(1, Self.refused, clientID: "mine")
        finish(2, Self.refused)
        #expect(observer.recentRequests("0000011-2").map(\.route) == ["box"])
        #expect(observer.recentRequests("mine").map(\.requestID) == ["0000011-1"])
        #expect(observer.recentRequests("other") == [])
        let first = observer.recentRequests(after: nil)
        #expect(first.requests.map(\.requestID) == ["0000011-1", "0000011-2"] && first.missed == 0)
        #expect(first.requests[0].failure?.reason.description == "connection_refused")
        #expect(first.requests[0].at == clock.now().wall)
        let cursor = RecentRequests.Cursor(first.cursor.description)
        #expect(cursor == first.cursor)
        #expect(observer.recentRequests(after: cursor).requests == [])
        for number in 0..<UInt64(RecentRequests.perWorker + 3) { finish(number, Self.refused) }
        let next = observer.recentRequests(after: cursor)
        #expect(next.requests.count == RecentRequests.perWorker && next.missed == 3)
    }

    @Test(arguments: ["", "a", "1.", "-1", "1.2.x"])
    func anotherTextIsNoCursor(_ text: String) { #expect(RecentRequests.Cursor(text) == nil) }
}

@Suite("Events that may be late", .timeLimit(.minutes(1)))
struct AuditEventQueueTests {
    @Test func eventsAboveTheLimitAreDroppedAndCounted() async throws {
        let (audit, metrics) = (RecordingAuditLog(), MetricRegistry())
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let feed = AuditEventQueue(audit: audit, metrics: metrics, logger: logger)
        func isDropped(_ count: Int) -> Bool {
            metrics.text().contains("gateway_audit_events_dropped_total \(count)\n")
        }
        let event = TokenEvent(at: UnixTime(seconds: 0), name: .acquired, trigger: .demand)
        for _ in 0..<AuditEventQueue.queueLimit { feed.offer(event) }
        #expect(isDropped(0))
        feed.offer(event)
        #expect(isDropped(1))
        feed.finish()
        await feed.run()
        #expect(audit.events.count == AuditEventQueue.queueLimit)
        #expect(isDropped(1))
    }
}
