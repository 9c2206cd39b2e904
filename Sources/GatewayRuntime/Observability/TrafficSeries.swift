import GatewayCore

/// The metrics of one kind of exchange, found once.
///
/// Finding them by their labels, for each of a thousand routes every second, cost more than the routes themselves.
struct TrafficSeries {
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
