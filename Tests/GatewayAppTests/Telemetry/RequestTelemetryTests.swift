import GatewayHTTP
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("What requests say to telemetry", .timeLimit(.minutes(5)))
struct RequestTelemetryTests {
    private static func plan(traces: Bool = true, metrics: Duration? = .seconds(60)) -> TelemetryPlan {
        TelemetryPlan(
            origin: Origin(scheme: .http, host: "127.0.0.1", port: 4318),
            metricsInterval: metrics,
            exportsTraces: traces
        )
    }

    private static func at(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

    private func finish(
        _ telemetry: RequestTelemetry,
        worker: Int = 0,
        route: Int = 0,
        method: String = "GET",
        status: Int = 200,
        isSampled: Bool = true,
        problem: ProblemKind? = nil
    ) {
        var numbers = TraceNumbers(seed: 1)
        var trace = RequestTrace(following: nil, TraceSampling(percent: isSampled ? 100 : 0), &numbers)
        trace.send(at: Self.at(2))
        var record = ExchangeRecord(
            requestID: RequestID(run: 1, worker: worker, number: 1),
            worker: worker,
            route: route,
            client: nil,
            method: method,
            startedAt: Self.at(1),
            finishedAt: Self.at(5)
        )
        record.status = status
        record.problem = problem
        record.trace = trace
        telemetry.finished(record)
    }

    @Test func spansOfAllWorkersAreTakenOnce() {
        let telemetry = RequestTelemetry(Self.plan(), workers: 2)
        for worker in [0, 1, 1] { finish(telemetry, worker: worker) }
        finish(telemetry, isSampled: false)
        #expect(telemetry.takeSpans().requests.count == 3)
        #expect(telemetry.takeSpans().requests.isEmpty)
    }

    @Test func whatFindsNoRoomIsCounted() {
        let telemetry = RequestTelemetry(Self.plan(metrics: nil), workers: 1)
        for _ in 0..<(RequestTelemetry.spanLimit + 7) { finish(telemetry) }
        let taken = telemetry.takeSpans()
        #expect(taken.requests.count == RequestTelemetry.spanLimit && taken.dropped == 7)
        #expect(telemetry.takeSpans().dropped == 0)
        #expect(telemetry.durations().isEmpty, "no metrics are exported")
    }

    @Test func whoIsNotLetInLeavesRoomForTheOthers() {
        let telemetry = RequestTelemetry(Self.plan(metrics: nil), workers: 1)
        for _ in 0..<RequestTelemetry.spanLimit { finish(telemetry, status: 401, problem: .clientAuthRequired) }
        for _ in 0..<100 { finish(telemetry) }
        let taken = telemetry.takeSpans()
        #expect(taken.requests.count == RequestTelemetry.strangerLimit + 100)
        #expect(taken.dropped == RequestTelemetry.spanLimit - RequestTelemetry.strangerLimit)
        finish(telemetry, status: 404, problem: .noRoute)
        #expect(telemetry.takeSpans().requests.count == 1)
    }

    @Test func durationsAreCountedAlsoWhereNoSpanIsKept() {
        let telemetry = RequestTelemetry(Self.plan(traces: false), workers: 2)
        for worker in 0...1 { finish(telemetry, worker: worker, isSampled: false) }
        #expect(telemetry.takeSpans().requests.isEmpty)
        let metrics = telemetry.metrics()
        #expect(metrics.map(\.name) == ["http.server.request.duration", "http.client.request.duration"])
        guard case .histogram(let counts, let sum, let bounds)? = metrics.first?.points.first?.value else {
            Issue.record("no histogram")
            return
        }
        #expect(counts.reduce(0, +) == 2 && counts.count == bounds.count + 1 && sum == 8)
        guard case .histogram(_, let upstream, _)? = metrics.last?.points.first?.value else { return }
        #expect(upstream == 6)
    }

    @Test func aFloodOfKindsIsOneKind() {
        let telemetry = RequestTelemetry(Self.plan(), workers: 1)
        for route in 0..<(RequestTelemetry.kindLimit + 50) { finish(telemetry, route: route) }
        for number in 0..<50 { finish(telemetry, method: "M\(number)", status: 1) }
        let kinds = telemetry.durations().keys
        #expect(kinds.count <= RequestTelemetry.kindLimit + 1 && kinds.contains(.overflow))
        #expect(Set(kinds.map(\.method)).isSubset(of: ["GET", "_OTHER", ""]))
    }

    @Test func theRegistryIsExportedWithItsLabels() {
        let registry = MetricRegistry()
        registry.counter("gateway_requests_total", [("route", "a\"b")]).increment(by: 2)
        registry.gauge("gateway_token_usable").set(1.0)
        registry.histogram("gateway_request_duration_seconds", bounds: [1]).record(0.5)
        let metrics = Dictionary(uniqueKeysWithValues: registry.telemetryMetrics().map { ($0.name, $0) })
        let requests = metrics["gateway_requests_total"]
        #expect(requests?.points.first?.attributes == [TelemetryAttribute("route", "a\"b")])
        #expect(
            requests?.points.first?.value == .sum(2) && requests?.help == MetricHelp.texts["gateway_requests_total"]
        )
        #expect(metrics["gateway_token_usable"]?.points.first?.value == .gauge(1))
        let durations = metrics["gateway_request_duration_seconds"]
        #expect(
            durations?.unit == "s"
                && durations?.points.first?.value == .histogram(counts: [1, 0], sum: 0.5, bounds: [1])
        )
    }

    @Test func theNumberOfSpansOfCallsIsLimited() {
        let telemetry = RequestTelemetry(Self.plan(), workers: 1)
        for _ in 0...RequestTelemetry.Calls.limit {
            telemetry.called { trace, span in
                TelemetrySpan(
                    trace: trace,
                    span: span,
                    parent: 0,
                    name: "POST",
                    kind: .client,
                    start: 1,
                    end: 2,
                    attributes: [],
                    isError: false
                )
            }
        }
        let taken = telemetry.takeCalls()
        #expect(taken.spans.count == RequestTelemetry.Calls.limit && taken.dropped == 1)
        let rest = telemetry.takeCalls()
        #expect(rest.spans.isEmpty && rest.dropped == 0)
    }
}
