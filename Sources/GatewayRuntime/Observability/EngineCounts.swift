import GatewayCore
import Synchronization

/// Counts what engines are answered.
final class EngineCounts: Sendable {
    private let metrics: MetricRegistry
    private let counters = Mutex<[AuthzOutcome: CounterSeries]>([:])

    init(metrics: MetricRegistry) { self.metrics = metrics }

    func add(_ use: AuthzOutcome) { counter(of: use).increment(by: 1) }

    private func counter(of use: AuthzOutcome) -> CounterSeries {
        counters.withLock { counters in
            if let known = counters[use] { return known }
            let labels = [("engine", use.name), ("outcome", use.outcome.rawValue)]
            let new = metrics.counter("gateway_engine_answers_total", labels)
            counters[use] = new
            return new
        }
    }
}
