package import GatewayHTTP

/// Writes spans and metrics as OTLP wants them in JSON (opentelemetry-proto 1.3: `/v1/traces`, `/v1/metrics`).
struct OTLPEncoder: Sendable {
    private let resource: String
    private let scope: String

    /// - Parameter attributes: Who exports: `service.name` and the like.
    init(_ attributes: [TelemetryAttribute], version: String) {
        resource = "{\"attributes\":\(Self.list(attributes))}"
        scope = "{\"name\":\"authgateway\",\"version\":\(Self.quoted(version))}"
    }

    // MARK: Spans

    func spans(_ spans: some Sequence<TelemetrySpan>) -> String {
        let list = spans.map(Self.span).joined(separator: ",")
        return
            "{\"resourceSpans\":[{\"resource\":\(resource),\"scopeSpans\":[{\"scope\":\(scope),\"spans\":[\(list)]}]}]}"
    }

    private static func span(_ span: TelemetrySpan) -> String {
        let parent = span.parent == 0 ? "" : "\"parentSpanId\":\"\(Hexadecimal.text(of: span.parent))\","
        let status = span.isError ? ",\"status\":{\"code\":2}" : ""
        return "{\"traceId\":\"\(Hexadecimal.text(of: span.trace.high))\(Hexadecimal.text(of: span.trace.low))\","
            + "\"spanId\":\"\(Hexadecimal.text(of: span.span))\",\(parent)\"name\":\(quoted(span.name)),"
            + "\"kind\":\(span.kind.rawValue),\"startTimeUnixNano\":\"\(span.start)\",\"endTimeUnixNano\":\"\(span.end)\","
            + "\"attributes\":\(list(span.attributes))\(status)}"
    }

    // MARK: Metrics

    /// - Parameters:
    ///   - start: When counting began, in nanoseconds since 1970.
    ///   - now: The present time, in nanoseconds since 1970.
    func metrics(_ metrics: [TelemetryMetric], from start: Int64, to now: Int64) -> String {
        let list = metrics.map { Self.metric($0, "\"startTimeUnixNano\":\"\(start)\",\"timeUnixNano\":\"\(now)\"") }
            .joined(separator: ",")
        return
            "{\"resourceMetrics\":[{\"resource\":\(resource),\"scopeMetrics\":[{\"scope\":\(scope),\"metrics\":[\(list)]}]}]}"
    }

    private static func metric(_ metric: TelemetryMetric, _ times: String) -> String {
        let points = metric.points.map { point(times, $0.attributes, $0.value) }.joined(separator: ",")
        let head =
            "{\"name\":\(quoted(metric.name)),\"unit\":\(quoted(metric.unit)),\"description\":\(quoted(metric.help)),"
        // 2: each point counts from the start of the process.
        switch metric.points.first?.value {
        case .sum?:
            return head + "\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":[\(points)]}}"
        case .histogram?: return head + "\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":[\(points)]}}"
        case .gauge?, nil: return head + "\"gauge\":{\"dataPoints\":[\(points)]}}"
        }
    }

    private static func point(
        _ times: String,
        _ attributes: [TelemetryAttribute],
        _ value: TelemetryMetric.Point
    ) -> String {
        let head = "{\"attributes\":\(list(attributes)),\(times),"
        switch value {
        case .sum(let total): return head + "\"asInt\":\"\(total)\"}"
        case .gauge(let value): return head + "\"asDouble\":\(number(value))}"
        case .histogram(let counts, let sum, let bounds):
            let counted = counts.map { "\"\($0)\"" }.joined(separator: ",")
            let limits = bounds.map(number).joined(separator: ",")
            return head + "\"count\":\"\(counts.reduce(0, +))\",\"sum\":\(number(sum)),"
                + "\"bucketCounts\":[\(counted)],\"explicitBounds\":[\(limits)]}"
        }
    }

    // MARK: Values

    private static func list(_ attributes: [TelemetryAttribute]) -> String {
        let members = attributes.map { attribute in
            let value =
                switch attribute.value {
                case .text(let text): "\"stringValue\":\(quoted(text))"
                case .number(let number): "\"intValue\":\"\(number)\""
                }
            return "{\"key\":\(quoted(attribute.key)),\"value\":{\(value)}}"
        }
        return "[\(members.joined(separator: ","))]"
    }

    /// JSON has no infinity.
    private static func number(_ value: Double) -> String { value.isFinite ? String(value) : "0" }

    static let longestText = 1024

    /// What a client chose, such as a method, is escaped and bounded.
    private static func quoted(_ text: String) -> String {
        JSONString.quoted(text, limit: longestText, isPlain: { $0.value >= 0x20 && $0.value != 0x7F })
    }
}

/// A piece of a span or a metric, by the name that OpenTelemetry's conventions give it.
package enum TelemetryValue: Hashable, Sendable {
    case text(String)
    case number(Int)
}

package struct TelemetryAttribute: Hashable, Sendable {
    package let key: String
    package let value: TelemetryValue

    package init(_ key: String, _ text: String) {
        self.key = key
        value = .text(text)
    }

    package init(_ key: String, _ number: Int) {
        self.key = key
        value = .number(number)
    }
}

extension [TelemetryAttribute] {
    /// Adds the attribute if it has a value.
    package mutating func add(_ key: String, _ text: String?) {
        if let text { append(TelemetryAttribute(key, text)) }
    }

    /// Adds the attribute if it has a value.
    package mutating func add(_ key: String, _ number: Int?) {
        if let number { append(TelemetryAttribute(key, number)) }
    }
}

/// One span as it is exported.
package struct TelemetrySpan: Hashable, Sendable {
    package enum Kind: Int, Sendable {
        case server = 2
        case client = 3
    }

    package let trace: TraceContext.TraceID
    package let span: UInt64
    /// 0 where the trace begins with it.
    package let parent: UInt64
    package let name: String
    package let kind: Kind
    /// Nanoseconds since 1970.
    package let start: Int64
    package let end: Int64
    package let attributes: [TelemetryAttribute]
    let isError: Bool
}

/// One metric as it is exported: all values since the start.
struct TelemetryMetric: Sendable {
    enum Point: Hashable, Sendable {
        case sum(Int64)
        case gauge(Double)
        /// One count more than there are bounds.
        case histogram(counts: [Int64], sum: Double, bounds: [Double])
    }

    let name: String
    let unit: String
    let help: String
    /// All of one kind.
    let points: [(attributes: [TelemetryAttribute], value: Point)]
}

/// When telemetry is sent to a collector that refuses it for now. The same batch is sent until it is taken or refused for good.
package struct ExportSchedule: Sendable {
    /// What a collector's answer means (OTLP specification, section "Failures").
    package enum Answer: Hashable, Sendable {
        case accepted
        /// The same batch may be taken later.
        case later(after: Duration?)
        case refused(status: Int)

        /// - Parameter retryAfter: Seconds, as the field says.
        package init(status: Int, retryAfter: String? = nil) {
            switch status {
            case 200..<300: self = .accepted
            case 429, 502, 503, 504: self = .later(after: retryAfter.flatMap { Int64($0) }.map { .seconds(max(0, $0)) })
            default: self = .refused(status: status)
            }
        }
    }

    private var failures = 0
    private var next: MonotonicTime?

    package init() {}

    func isDue(at now: MonotonicTime) -> Bool { next.map { now >= $0 } ?? true }

    /// - Parameter jitter: 0...1, evenly distributed.
    /// - Returns: Whether the batch is to be kept and sent again.
    package mutating func note(_ answer: Answer, at now: MonotonicTime, jitter: Double) -> Bool {
        guard case .later(let wish) = answer else {
            self = ExportSchedule()
            return false
        }
        failures += 1
        next = now + BackOff.delay(afterFailures: failures, retryAfter: wish, jitter: jitter)
        return true
    }
}
