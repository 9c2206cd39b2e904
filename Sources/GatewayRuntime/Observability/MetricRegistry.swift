import GatewayCore
package import Metrics
import Synchronization

/// Keeps every metric of the process and prints them in Prometheus' text format.
///
/// Labels come from bounded sets; should one not, the registry stops at ``seriesLimit`` series and says so in
/// `gateway_metrics_series_refused_total`.
package final class MetricRegistry: MetricsFactory {
    enum Series: Sendable {
        case counter(CounterSeries)
        case gauge(GaugeSeries)
        case histogram(HistogramSeries)
    }

    struct Key: Hashable, Sendable {
        let name: String
        /// `{a="b",c="d"}`, or empty.
        let labels: String
        /// The same, one by one.
        let attributes: [TelemetryAttribute]

        init(_ name: String, _ labels: [(String, String)]) {
            self.name = MetricText.name(name)
            self.labels = MetricText.labels(labels)
            attributes = labels.map { TelemetryAttribute($0, $1) }
        }
    }

    static let seriesLimit = 10_000
    static let durationBounds = LatencyCounts.bounds
    static let sizeBounds: [Double] = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262_144, 1_048_576]

    private let series = Mutex<[Key: Series]>([:])
    private let refused = CounterSeries()

    package init() {}

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        counter(label, dimensions)
    }

    package func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        RoundedCounter(counter(label, dimensions))
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        gauge(label, dimensions)
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        if aggregate { return histogram(label, dimensions, bounds: Self.sizeBounds) }
        return gauge(label, dimensions)
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        histogram(label, dimensions, bounds: Self.durationBounds)
    }

    // Series live as long as the process: a counter that vanished would read as a restart.
    package func destroyCounter(_ handler: any CounterHandler) {}
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    package func destroyMeter(_ handler: any MeterHandler) {}
    package func destroyRecorder(_ handler: any RecorderHandler) {}
    package func destroyTimer(_ handler: any TimerHandler) {}

    func counter(_ name: String, _ labels: [(String, String)] = []) -> CounterSeries {
        let found = find(name, labels) { .counter(CounterSeries()) }
        guard case .counter(let counter) = found else { return CounterSeries() }
        return counter
    }

    func gauge(_ name: String, _ labels: [(String, String)] = []) -> GaugeSeries {
        let found = find(name, labels) { .gauge(GaugeSeries()) }
        guard case .gauge(let gauge) = found else { return GaugeSeries() }
        return gauge
    }

    func histogram(_ name: String, _ labels: [(String, String)] = [], bounds: [Double]) -> HistogramSeries {
        let found = find(name, labels) { .histogram(HistogramSeries(bounds: bounds)) }
        guard case .histogram(let histogram) = found else { return HistogramSeries(bounds: bounds) }
        return histogram
    }

    /// The registered series, or one that is never printed when the name is taken by another kind or the table is full.
    private func find(_ name: String, _ labels: [(String, String)], make: () -> Series) -> Series {
        let key = Key(name, labels)
        return series.withLock { series in
            if let found = series[key] { return found }
            guard series.count < Self.seriesLimit else {
                refused.increment(by: 1)
                return make()
            }
            let new = make()
            series[key] = new
            return new
        }
    }

    /// A gauge that is set again later is a new one.
    func removeGauges(where isMeant: (Key) -> Bool) {
        series.withLock { series in
            for (key, kind) in series {
                if case .gauge = kind, isMeant(key) { series[key] = nil }
            }
        }
    }

    /// Prometheus' text exposition format 0.0.4.
    package func text() -> String { MetricText.exposition(of: allSeries) }

    var allSeries: [Key: Series] {
        var all = series.withLock { $0 }
        all[Key("gateway_metrics_series_refused_total", [])] = .counter(refused)
        return all
    }
}

/// swift-metrics' floating-point counters, kept to whole units.
private final class RoundedCounter: FloatingPointCounterHandler {
    private let counter: CounterSeries
    private let rest = Mutex(0.0)

    init(_ counter: CounterSeries) { self.counter = counter }

    func increment(by amount: Double) {
        guard amount.isFinite, amount > 0, amount < 1e15 else { return }
        let whole = rest.withLock { rest in
            rest += amount
            let whole = rest.rounded(.down)
            rest -= whole
            return whole
        }
        counter.increment(by: Int64(whole))
    }

    func reset() { counter.reset() }
}
