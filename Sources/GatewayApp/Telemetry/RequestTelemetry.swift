import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens
import Synchronization

/// What requests say to telemetry: spans that wait to be exported, and how long requests took since the start.
///
/// An event loop adds to its own part. Its lock is contended only by the exporter, once a second.
final class RequestTelemetry: Sendable {
    /// More requests between two exports are counted and not kept.
    static let spanLimit = 8192
    /// How many of them may be of refused requests, or of those without a route: every client can send those.
    static let strangerLimit = 1024
    /// The number of kinds of requests on one event loop; all others are one kind.
    static let kindLimit = 1000

    /// What the duration of a request is counted by.
    struct Kind: Hashable {
        let isUpstream: Bool
        let route: Int?
        let method: String
        let status: Int
        let problem: ProblemKind?
        let isTLS: Bool

        static let overflow = Kind(isUpstream: false, route: nil, method: "", status: -1, problem: nil, isTLS: false)
    }

    struct Durations {
        var counts = Array(repeating: Int64(0), count: HTTPConventions.durationBounds.count + 1)
        var sum = 0.0

        mutating func add(_ duration: Duration) {
            let seconds = Double(duration.wholeNanoseconds) / 1e9
            let bounds = HTTPConventions.durationBounds
            counts[bounds.firstIndex { seconds <= $0 } ?? bounds.count] += 1
            sum += seconds
        }

        mutating func add(_ other: Durations) {
            for index in counts.indices { counts[index] += other.counts[index] }
            sum += other.sum
        }
    }

    private struct State {
        var spans: [TracedRequest] = []
        var strangers = 0
        var dropped = 0
        var durations: [Kind: Durations] = [:]

        mutating func add(_ request: TracedRequest, isStranger: Bool) {
            guard spans.count < spanLimit, !isStranger || strangers < strangerLimit else {
                dropped += 1
                return
            }
            spans.append(request)
            if isStranger { strangers += 1 }
            assert(spans.count <= spanLimit, "Too many requests wait for the exporter.")
            assert(strangers <= min(spans.count, strangerLimit), "Strangers take the places of others.")
        }

        mutating func add(_ duration: Duration, _ kind: Kind) {
            let isKnown = durations.count < kindLimit || durations[kind] != nil
            durations[isKnown ? kind : .overflow, default: Durations()].add(duration)
        }
    }

    /// To authorities: few, and of no event loop.
    struct Calls {
        static let limit = 1024

        var numbers = TraceNumbers(seed: .random(in: .min ... .max))
        var spans: [TelemetrySpan] = []
        var dropped = 0
    }

    private final class Part: Sendable {
        let state = Mutex(State())
    }

    let sampling: TraceSampling
    private let keepsSpans: Bool
    private let keepsDurations: Bool
    private let parts: [Part]
    private let routes = Mutex<[Int: TracedRequest.Route]>([:])
    private let calls = Mutex(Calls())

    init(_ plan: TelemetryPlan, workers: Int) {
        sampling = TraceSampling(percent: plan.sampling)
        keepsSpans = plan.exportsTraces
        keepsDurations = plan.metricsInterval != nil
        parts = (0..<max(1, workers)).map { _ in Part() }
    }

    /// What a route is called; a reload may give its number another path or upstream.
    func name(_ number: Int, _ plan: RoutePlan) {
        let route = TracedRequest.Route(name: plan.name, path: plan.matchPath, upstream: plan.upstream)
        routes.withLock { $0[number] = route }
    }

    func route(_ number: Int?) -> TracedRequest.Route? {
        number.flatMap { number in routes.withLock { $0[number] } }
    }

    // MARK: Event loops

    func finished(_ record: borrowing ExchangeRecord) {
        let isStranger = record.problem.map { $0.isDenial || $0.isStray } ?? false
        let request = record.trace.flatMap {
            keepsSpans && $0.isExported(wasLetIn: !isStranger, sampling) ? TracedRequest(record, $0) : nil
        }
        parts[record.worker % parts.count].state.withLock { state in
            if let request { state.add(request, isStranger: isStranger) }
            guard keepsDurations else { return }
            state.add(record.finishedAt - record.startedAt, Self.kind(of: record, isUpstream: false))
            guard let trace = record.trace, trace.tries > 0 else { return }
            state.add(record.finishedAt - trace.sentAt, Self.kind(of: record, isUpstream: true))
        }
    }

    private static func kind(of record: borrowing ExchangeRecord, isUpstream: Bool) -> Kind {
        Kind(
            isUpstream: isUpstream,
            route: record.route,
            method: HTTPConventions.method(record.method),
            status: isUpstream && record.problem != nil ? 0 : CountedStatus.number(for: record.status),
            problem: record.problem,
            isTLS: record.isTLS
        )
    }

    // MARK: Calls to authorities

    /// - Parameter make: Is given the numbers of a trace of its own and of the span; called where that trace is recorded.
    func called(_ make: (TraceContext.TraceID, UInt64) -> TelemetrySpan) {
        guard keepsSpans else { return }
        calls.withLock { calls in
            let trace = TraceContext.TraceID(high: calls.numbers.next(), low: calls.numbers.next())
            guard sampling.keeps(trace) else { return }
            guard calls.spans.count < Calls.limit else { return calls.dropped += 1 }
            calls.spans.append(make(trace, calls.numbers.next()))
        }
    }

    func takeCalls() -> (spans: [TelemetrySpan], dropped: Int) {
        calls.withLock { calls in
            defer {
                calls.spans = []
                calls.dropped = 0
            }
            return (calls.spans, calls.dropped)
        }
    }

    // MARK: Exporter

    func takeSpans() -> (requests: [TracedRequest], dropped: Int) {
        var (requests, dropped): ([TracedRequest], Int) = ([], 0)
        for part in parts {
            // Made before the lock is taken: an event loop may be waiting for it.
            var spans: [TracedRequest] = []
            dropped += part.state.withLock { state in
                swap(&spans, &state.spans)
                defer { (state.dropped, state.strangers) = (0, 0) }
                return state.dropped
            }
            requests += spans
        }
        return (requests, dropped)
    }

    /// How long requests took since the start, summed over all event loops.
    func durations() -> [Kind: Durations] {
        var all: [Kind: Durations] = [:]
        for part in parts {
            for (kind, durations) in part.state.withLock({ $0.durations }) {
                all[kind, default: Durations()].add(durations)
            }
        }
        return all
    }

    // MARK: Metrics

    /// The two histograms of OpenTelemetry's conventions.
    func metrics() -> [TelemetryMetric] {
        let all = durations()
        return [
            metric(
                "http.server.request.duration",
                "How long requests of clients took.",
                all.filter { !$0.key.isUpstream }
            ) {
                serverAttributes(of: $0)
            },
            metric("http.client.request.duration", "How long upstreams took.", all.filter(\.key.isUpstream)) {
                upstreamAttributes(of: $0)
            },
        ].filter { !$0.points.isEmpty }
    }

    private func metric(
        _ name: String,
        _ help: String,
        _ durations: [Kind: Durations],
        _ attributes: (Kind) -> [TelemetryAttribute]
    ) -> TelemetryMetric {
        let points = durations.map { kind, durations in
            let value = TelemetryMetric.Point.histogram(
                counts: durations.counts,
                sum: durations.sum,
                bounds: HTTPConventions.durationBounds
            )
            return (attributes: attributes(kind), value: value)
        }
        return TelemetryMetric(name: name, unit: "s", help: help, points: points)
    }

    private func serverAttributes(of kind: Kind) -> [TelemetryAttribute] {
        guard kind != .overflow else { return [TelemetryAttribute("otel.metric.overflow", "true")] }
        var attributes = common(kind, scheme: kind.isTLS ? "https" : "http")
        attributes.add("http.route", route(kind.route)?.path)
        attributes.add("error.type", HTTPConventions.error(ofServerSpan: kind.status, kind.problem))
        return attributes
    }

    private func upstreamAttributes(of kind: Kind) -> [TelemetryAttribute] {
        let route = route(kind.route)
        var attributes = common(kind, scheme: route?.upstream.scheme.rawValue ?? "http")
        attributes.add("server.address", route?.upstream.host)
        attributes.add("server.port", route?.upstream.port)
        attributes.add("error.type", HTTPConventions.error(ofClientSpan: kind.status, kind.problem))
        return attributes
    }

    private func common(_ kind: Kind, scheme: String) -> [TelemetryAttribute] {
        var attributes = [
            TelemetryAttribute("http.request.method", kind.method), TelemetryAttribute("url.scheme", scheme),
        ]
        attributes.add("http.response.status_code", kind.status > 0 ? kind.status : nil)
        attributes.add("gateway.route", route(kind.route)?.name)
        return attributes
    }
}

/// Calls to authorities with a span for each.
struct TracedTokenEndpoint: TokenEndpoint {
    let endpoint: any TokenEndpoint
    let telemetry: RequestTelemetry
    let clock: any GatewayClock

    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        let start = clock.now()
        let result = await endpoint.send(request, deadline: deadline)
        let took = (clock.monotonic() - start.monotonic).wholeNanoseconds
        let begin = start.wall.milliseconds &* 1_000_000
        telemetry.called { trace, span in
            TelemetrySpan(of: request, result, in: trace, span, from: begin, to: begin &+ took)
        }
        return result
    }
}
