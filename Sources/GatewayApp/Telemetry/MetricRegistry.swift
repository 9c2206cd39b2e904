import GatewayEvents
import GatewayHTTP
import GatewayTokens
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
private enum MetricText {
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

    /// Escapes a HELP line, in which quotation marks are not escaped.
    private static func escapeHelp(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\n", with: "\\n")
    }

    private static func escape(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}

/// What each metric says, for the HELP lines of `/metrics`. A test fails when a metric in the sources has no entry.
enum MetricHelp {
    /// A sentence by the name of the metric; it names the unit.
    static let texts: [String: String] = [
        "gateway_audit_events_dropped_total":
            "Audit events that were lost because the queue before the audit log was full.",
        "gateway_audit_requests_lost_total":
            "Requests without a row in the audit log, because more came than it could write (audit.usage: request).",
        "gateway_audit_unshipped_events":
            "Events of the audit log that the database of tokens.store: postgres does not have yet.",
        "gateway_clients_denied_total": "Requests that were refused before a credential was used, by reason.",
        "gateway_credential_accepted_at_seconds":
            "Unix time in seconds at which an upstream last accepted a static credential.",
        "gateway_credential_rejected_at_seconds":
            "Unix time in seconds at which an upstream last rejected a static credential.",
        "gateway_credential_rejections_total":
            "401 and 403 responses of upstreams to requests with a credential, by route.",
        "gateway_engine_answers_total": "Answers to engines of listeners.authz, by engine and outcome.",
        "gateway_expires_in_seconds":
            "Seconds until something that only a person can replace expires, by kind and name.",
        "gateway_expires_soon": "1 when it is time to replace it, else 0.",
        "gateway_log_lines_lost_total": "Log lines that were dropped because standard error was not read in time.",
        "gateway_login_expires_in_seconds": "Seconds until a person has to log in again for a credential.",
        "gateway_metrics_series_refused_total": "Metrics that are not shown because the limit of 10000 is reached.",
        "gateway_problems_total": "Requests that the gateway answered itself or cut, by route and problem.",
        "gateway_received_bytes_total": "Bytes of request bodies that clients sent, by route.",
        "gateway_replays_total": "Requests that were sent again with a newer token after a 401, by route.",
        "gateway_request_duration_seconds":
            "Seconds from the whole head of a request to the end of its response, by route.",
        "gateway_requests_failed_total": "Requests that failed, by route and reason.",
        "gateway_requests_held": "Requests that wait for an operator's approval.",
        "gateway_requests_total":
            "Finished requests, by route and status. The route is empty where none matched.",
        "gateway_sent_bytes_total": "Bytes of response bodies that clients were sent, by route.",
        "gateway_telemetry_exports_failed_total": "Exports that the OpenTelemetry collector did not accept.",
        "gateway_telemetry_spans_dropped_total":
            "Requests and token calls without an exported span: too many waited, or the collector refused them.",
        "gateway_token_audit_failures_total": "Token events that could not be written to the audit log.",
        "gateway_token_call_seconds": "Duration of token requests, in seconds, by credential.",
        "gateway_token_calls_total": "Token requests, by credential and outcome.",
        "gateway_token_clock_skew_seconds": "Clock of the authorization server minus the gateway's, in seconds.",
        "gateway_token_expires_at_seconds": "Unix time in seconds at which the token of a credential expires.",
        "gateway_token_expires_in_seconds": "Seconds until the token of a credential expires.",
        "gateway_token_failing": "1 while the token requests of a credential fail, else 0.",
        "gateway_token_generation": "How many tokens the credential has had; the present one has this number.",
        "gateway_token_needs_person": "1 when only a person can make the credential usable again, else 0.",
        "gateway_token_notes_dropped_total": "Audit events about a token that were lost because too many waited.",
        "gateway_token_rejections_total": "Tokens that were given up because an upstream rejected them with a 401.",
        "gateway_token_storms_total": "Times that token requests were slowed down because there were too many.",
        "gateway_token_store_failures_total": "Reads and writes of a token that the token store failed.",
        "gateway_token_subjects": "Subjects (users) of a credential that have a token at this moment.",
        "gateway_token_usable": "1 when the token of a credential can be used, else 0.",
        "gateway_tokens_vended_total": "Tokens of a credential that were handed out to clients (vend).",
    ]
}

/// What metrics say about credentials, taken when somebody asks.
enum TokenMetrics {
    private static let names: Set<String> = [
        "gateway_token_generation", "gateway_token_needs_person", "gateway_token_usable", "gateway_token_failing",
        "gateway_token_clock_skew_seconds",
        "gateway_token_expires_at_seconds", "gateway_token_expires_in_seconds", "gateway_login_expires_in_seconds",
        "gateway_expires_in_seconds", "gateway_expires_soon",
        "gateway_credential_accepted_at_seconds", "gateway_credential_rejected_at_seconds",
    ]

    /// Gauges of credentials that are gone are no longer exported.
    static func record(_ tokens: [TokenStatus], _ expirations: [Expiration], in metrics: MetricRegistry) {
        var kept: Set<MetricRegistry.Key> = []
        func set(_ name: String, _ labels: [(String, String)], _ value: Double) {
            metrics.gauge(name, labels).set(value)
            kept.insert(MetricRegistry.Key(name, labels))
        }
        // A subject that a request names is no label: there is no end of them.
        for token in tokens where token.perSubjectCredential == nil {
            let labels = [("credential", token.credential), ("strategy", token.strategy)]
            func setTime(_ name: String, _ time: String?) {
                guard let time = time.flatMap({ UnixTime(rfc3339: $0) }) else { return }
                set(name, labels, Double(time.milliseconds / 1000))
            }
            if token.isStatic != true { set("gateway_token_generation", labels, Double(token.generation)) }
            set("gateway_token_needs_person", labels, token.needsPerson ? 1 : 0)
            set("gateway_token_usable", labels, token.isServed ? 1 : 0)
            if token.isStatic != true { set("gateway_token_failing", labels, token.failing == nil ? 0 : 1) }
            if let seconds = token.clockSkewSeconds { set("gateway_token_clock_skew_seconds", labels, Double(seconds)) }
            setTime("gateway_token_expires_at_seconds", token.expiresAt)
            setTime("gateway_credential_accepted_at_seconds", token.lastAcceptedAt)
            setTime("gateway_credential_rejected_at_seconds", token.lastRejectedAt)
            if let remaining = token.remainingSeconds {
                set("gateway_token_expires_in_seconds", labels, Double(remaining))
            }
            if let remaining = token.renewalRemainingSeconds {
                set("gateway_login_expires_in_seconds", labels, Double(remaining))
            }
        }
        for expiration in expirations {
            let labels = [("kind", expiration.kind.rawValue), ("of", expiration.of)]
            set("gateway_expires_in_seconds", labels, Double(expiration.remainingSeconds))
            set("gateway_expires_soon", labels, expiration.isSoon ? 1 : 0)
        }
        metrics.removeGauges { names.contains($0.name) && !kept.contains($0) }
    }
}
