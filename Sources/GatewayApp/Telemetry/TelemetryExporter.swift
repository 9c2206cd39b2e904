import GatewayHTTP
import GatewayTokenClient
import GatewayTokens
import Logging
import ServiceLifecycle

/// Exports spans every second and metrics at their interval. No request waits for it.
///
/// A collector that does not answer is asked again with growing pauses. Meanwhile spans wait within their bounds, and what is more
/// is dropped and counted.
final class TelemetryExporter: Service {
    /// Requests in one export, which has then less than 1 MiB.
    private static let batchLimit = 512
    private static let sendLimit: Duration = .seconds(10)
    /// How long the last export at a stop may take: for all spans, and again for the metrics.
    private static let lastLimit: Duration = .seconds(3)
    private static let warningPause: Duration = .seconds(60)

    struct Parts: Sendable {
        let telemetry: RequestTelemetry
        let metrics: MetricRegistry
        /// Brings gauges and counters up to date.
        let refresh: @Sendable () async -> Void
        let requests: OwnRequests
        let clock: any GatewayClock
        let logger: Logger
    }

    private let plan: TelemetryPlan
    private let parts: Parts
    private let encoder: OTLPEncoder
    private let dropped: CounterSeries
    private let failed: CounterSeries

    /// - Parameter instance: Names this installation, the same after every restart.
    init(_ plan: TelemetryPlan, instance: String, version: String, parts: Parts) {
        self.plan = plan
        self.parts = parts
        dropped = parts.metrics.counter("gateway_telemetry_spans_dropped_total")
        failed = parts.metrics.counter("gateway_telemetry_exports_failed_total")
        encoder = OTLPEncoder(
            [
                TelemetryAttribute("service.name", plan.serviceName),
                TelemetryAttribute("service.version", version),
                TelemetryAttribute("service.instance.id", instance),
            ],
            version: version
        )
    }

    /// What one task has under way.
    private struct State {
        var spans = ExportSchedule()
        var metrics = ExportSchedule()
        /// Sent again until it is taken.
        var waiting: [TracedRequest] = []
        var calls: [TelemetrySpan] = []
        var nextMetrics: MonotonicTime
        var warnedAt: MonotonicTime?
        let startedAt: Int64
    }

    func run() async throws {
        let client = OTLPClient(plan: plan, requests: parts.requests)
        let now = parts.clock.now()
        var state = State(
            nextMetrics: now.monotonic + (plan.metricsInterval ?? .zero),
            startedAt: now.wall.milliseconds * 1_000_000
        )
        while !Task.isShuttingDownGracefully, !Task.isCancelled {
            try? await cancelWhenGracefulShutdown { [parts] in try await parts.clock.sleep(for: .seconds(1)) }
            await exportSpans(&state) { await self.send($0, $1, client) }
            if isDue(state) { await exportMetrics(&state) { await self.send($0, $1, client) } }
        }
        let end = parts.clock.monotonic() + Self.lastLimit
        await exportSpans(&state) { [parts] body, signal in
            let rest = end - parts.clock.monotonic()
            return rest > .zero ? await client.send(body, signal, within: rest) : nil
        }
        if plan.metricsInterval != nil {
            await exportMetrics(&state) { await client.send($0, $1, within: Self.lastLimit) }
        }
    }

    /// - Returns: nil when there is no time for it.
    private typealias Send = (String, OTLPClient.Signal) async -> Sent?

    /// A stop does not wait for a slow collector. What is under way then is sent once more at the end.
    private func send(_ body: String, _ signal: OTLPClient.Signal, _ client: OTLPClient) async -> Sent? {
        guard !Task.isShuttingDownGracefully else { return nil }
        let sent = await cancelWhenGracefulShutdown { await client.send(body, signal, within: Self.sendLimit) }
        guard case .later = sent.answer, Task.isShuttingDownGracefully else { return sent }
        return nil
    }

    // MARK: Spans

    private func exportSpans(_ state: inout State, _ send: Send) async {
        guard plan.exportsTraces, state.spans.isDue(at: parts.clock.monotonic()) else { return }
        repeat {
            if state.waiting.isEmpty, state.calls.isEmpty { takeSpans(&state) }
            guard !state.waiting.isEmpty || !state.calls.isEmpty else { return }
            let batch = state.waiting.prefix(Self.batchLimit)
            let offset = offset
            let spans = state.calls + batch.flatMap { $0.spans(parts.telemetry.route($0.route), offset: offset) }
            guard let sent = await send(encoder.spans(spans), .traces) else { return }
            guard !state.spans.note(sent.answer, at: parts.clock.monotonic(), jitter: .random(in: 0...1)) else {
                return warn(sent, &state, "spans")
            }
            let count = batch.count
            let lost = count + state.calls.count
            state.waiting.removeFirst(count)
            state.calls = []
            guard sent.answer != .accepted else { continue }
            dropped.increment(by: Int64(lost))
            warn(sent, &state, "spans")
        } while !Task.isCancelled
    }

    /// What waits is bounded by what the event loops keep: nothing more is taken as long as there is some.
    private func takeSpans(_ state: inout State) {
        let (taken, calls) = (parts.telemetry.takeSpans(), parts.telemetry.takeCalls())
        state.waiting = taken.requests
        state.calls = calls.spans
        dropped.increment(by: Int64(taken.dropped + calls.dropped))
    }

    private var offset: Int64 {
        let now = parts.clock.now()
        return now.wall.milliseconds &* 1_000_000 &- now.monotonic.nanoseconds
    }

    // MARK: Metrics

    private func isDue(_ state: State) -> Bool {
        let now = parts.clock.monotonic()
        return plan.metricsInterval != nil && now >= state.nextMetrics && state.metrics.isDue(at: now)
    }

    private func exportMetrics(_ state: inout State, _ send: Send) async {
        await parts.refresh()
        let all = parts.telemetry.metrics() + parts.metrics.telemetryMetrics()
        let now = parts.clock.now()
        let body = encoder.metrics(all, from: state.startedAt, to: now.wall.milliseconds * 1_000_000)
        guard let sent = await send(body, .metrics) else { return }
        let isKept = state.metrics.note(sent.answer, at: parts.clock.monotonic(), jitter: .random(in: 0...1))
        // The next export has all that this one had.
        if !isKept { state.nextMetrics = now.monotonic + (plan.metricsInterval ?? .zero) }
        if sent.answer != .accepted { warn(sent, &state, "metrics") }
    }

    // MARK: Failures

    /// Once a minute.
    private func warn(_ sent: Sent, _ state: inout State, _ what: String) {
        failed.increment(by: 1)
        let now = parts.clock.monotonic()
        guard state.warnedAt.map({ now - $0 >= Self.warningPause }) ?? true else { return }
        state.warnedAt = now
        let reason =
            switch sent.answer {
            case .refused(let status): "it answered \(status)"
            case .later, .accepted:
                ["it does not answer, or has no room now", sent.proxyDetail].compactMap(\.self)
                    .joined(separator: "; ")
            }
        parts.logger.warning(
            "Telemetry not exported",
            metadata: ["what": "\(what)", "collector": "\(plan.origin)", "reason": "\(reason)"]
        )
    }
}

/// Sends telemetry to a collector.
private struct OTLPClient: Sendable {
    enum Signal: String, Sendable {
        case traces
        case metrics
    }

    let plan: TelemetryPlan
    let requests: OwnRequests

    /// Ends within `limit`, whatever the collector does.
    func send(_ body: String, _ signal: Signal, within limit: Duration) async -> Sent {
        let type = Injection.Field(name: "Content-Type", value: Secret("application/json"))
        let request = OutgoingRequest(
            "POST",
            plan.origin,
            "\(plan.path)/v1/\(signal.rawValue)",
            fields: [type] + plan.headers,
            body: Array(body.utf8)
        )
        switch await requests.send(request, deadline: limit) {
        case .success(let reply):
            return Sent(answer: ExportSchedule.Answer(status: reply.status, retryAfter: reply.field("Retry-After")))
        case .failure(let failure):
            return Sent(answer: .later(after: nil), proxyDetail: failure.proxyDetail)
        }
    }
}

/// What became of an export.
private struct Sent: Sendable {
    /// What the collector says; when it says nothing, it may take the batch later.
    let answer: ExportSchedule.Answer
    /// See ``TokenTransportFailure/proxyDetail``.
    var proxyDetail: String?
}
