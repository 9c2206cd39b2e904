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
        /// The labels as attributes of OpenTelemetry.
        let attributes: [TelemetryAttribute]

        init(_ name: String, _ labels: [(String, String)]) {
            self.name = MetricText.name(name)
            self.labels = MetricText.labels(labels)
            attributes = labels.map { TelemetryAttribute($0, $1) }
        }
    }

    static let seriesLimit = 10_000
    static let durationBounds = LatencyCounts.bounds
    private static let sizeBounds: [Double] = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262_144, 1_048_576]

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

    private var allSeries: [Key: Series] {
        var all = series.withLock { $0 }
        all[Key("gateway_metrics_series_refused_total", [])] = .counter(refused)
        return all
    }

    // MARK: Export

    /// What `/metrics` shows, under the same names.
    func telemetryMetrics() -> [TelemetryMetric] {
        let byName = Dictionary(grouping: allSeries) { $0.key.name }
        return byName.sorted { $0.key < $1.key }.map { name, series in
            TelemetryMetric(
                name: name,
                unit: name.contains("_seconds") ? "s" : (name.contains("_bytes") ? "By" : "1"),
                help: MetricHelp.texts[name] ?? "",
                points: series.sorted { $0.key.labels < $1.key.labels }.map {
                    ($0.key.attributes, Self.point($0.value))
                }
            )
        }
    }

    private static func point(_ series: Series) -> TelemetryMetric.Point {
        switch series {
        case .counter(let counter): return .sum(counter.value)
        case .gauge(let gauge): return .gauge(gauge.value)
        case .histogram(let histogram):
            let reading = histogram.value
            return .histogram(counts: reading.counts, sum: reading.sum, bounds: histogram.bounds)
        }
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

/// A count that only grows.
final class CounterSeries: CounterHandler {
    private let total = Atomic<Int64>(0)

    var value: Int64 { total.load(ordering: .relaxed) }

    func increment(by amount: Int64) { total.wrappingAdd(max(0, amount), ordering: .relaxed) }
    func reset() { total.store(0, ordering: .relaxed) }
}

/// A value that goes up and down.
final class GaugeSeries: MeterHandler, RecorderHandler {
    private let current = Mutex(0.0)

    var value: Double { current.withLock { $0 } }

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { current.withLock { $0 = value } }
    func increment(by amount: Double) { current.withLock { $0 += amount } }
    func decrement(by amount: Double) { current.withLock { $0 -= amount } }
    func record(_ value: Int64) { set(Double(value)) }
    func record(_ value: Double) { set(value) }
}

/// How values are distributed over fixed buckets. Times are in seconds.
final class HistogramSeries: TimerHandler, RecorderHandler {
    struct Reading: Sendable {
        /// One more than there are bounds: the last counts what is above all of them.
        var counts: [Int64]
        var sum: Double
    }

    let bounds: [Double]
    private let reading: Mutex<Reading>

    init(bounds: [Double]) {
        self.bounds = bounds
        reading = Mutex(Reading(counts: Array(repeating: 0, count: bounds.count + 1), sum: 0))
    }

    var value: Reading { reading.withLock { $0 } }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }
    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
        reading.withLock {
            $0.counts[bucket] += 1
            $0.sum += value
        }
    }

    /// Adds what was counted elsewhere with the same bounds.
    func merge(counts: some Sequence<Int64>, sum: Double) {
        reading.withLock { reading in
            for (index, count) in counts.enumerated() where reading.counts.indices.contains(index) {
                reading.counts[index] += count
            }
            reading.sum += sum
        }
    }
}

/// Spells metrics as Prometheus' text exposition format 0.0.4 wants them.
enum MetricText {
    /// Anything that a metric name cannot hold becomes `_`.
    static func name(_ text: String) -> String {
        String(text.map { $0.isASCII && ($0.isLetter || $0.isNumber) || $0 == "_" || $0 == ":" ? $0 : "_" })
    }

    static func labels(_ labels: [(String, String)]) -> String {
        guard !labels.isEmpty else { return "" }
        let pairs = labels.map { "\(name($0))=\"\(escape($1))\"" }
        return "{\(pairs.joined(separator: ","))}"
    }

    static func exposition(of series: [MetricRegistry.Key: MetricRegistry.Series]) -> String {
        let sorted = series.sorted { ($0.key.name, $0.key.labels) < ($1.key.name, $1.key.labels) }
        var result = ""
        var previous = ""
        for (key, series) in sorted {
            if key.name != previous { result += head(key.name, series) }
            previous = key.name
            result += lines(key, series)
        }
        return result
    }

    private static func head(_ name: String, _ series: MetricRegistry.Series) -> String {
        let help = MetricHelp.texts[name].map { "# HELP \(name) \(escapeHelp($0))\n" } ?? ""
        return "\(help)# TYPE \(name) \(type(of: series))\n"
    }

    private static func type(of series: MetricRegistry.Series) -> String {
        switch series {
        case .counter: "counter"
        case .gauge: "gauge"
        case .histogram: "histogram"
        }
    }

    private static func lines(_ key: MetricRegistry.Key, _ series: MetricRegistry.Series) -> String {
        switch series {
        case .counter(let counter): return "\(key.name)\(key.labels) \(counter.value)\n"
        case .gauge(let gauge): return "\(key.name)\(key.labels) \(number(gauge.value))\n"
        case .histogram(let histogram):
            let reading = histogram.value
            var (result, total) = ("", Int64(0))
            for (index, count) in reading.counts.enumerated() {
                total += count
                let bound = index < histogram.bounds.count ? number(histogram.bounds[index]) : "+Inf"
                result += "\(key.name)_bucket\(adding("le", bound, to: key.labels)) \(total)\n"
            }
            return result
                + "\(key.name)_sum\(key.labels) \(number(reading.sum))\n\(key.name)_count\(key.labels) \(total)\n"
        }
    }

    private static func adding(_ name: String, _ value: String, to labels: String) -> String {
        let pair = "\(name)=\"\(value)\""
        return labels.isEmpty ? "{\(pair)}" : "\(labels.dropLast()),\(pair)}"
    }

    private static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if value == value.rounded(), abs(value) < 1e15 { return String(Int64(value)) }
        return String(value)
    }

    /// In a HELP line quotes stand as they are.
    private static func escapeHelp(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\n", with: "\\n")
    }

    private static func escape(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}
