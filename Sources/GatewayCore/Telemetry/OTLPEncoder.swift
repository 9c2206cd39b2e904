/// Writes spans and metrics as OTLP wants them in JSON (opentelemetry-proto 1.3: `/v1/traces`, `/v1/metrics`).
package struct OTLPEncoder: Sendable {
    private let resource: String
    private let scope: String

    /// - Parameter attributes: Who exports: `service.name` and the like.
    package init(_ attributes: [TelemetryAttribute], version: String) {
        resource = "{\"attributes\":\(Self.list(attributes))}"
        scope = "{\"name\":\"authgateway\",\"version\":\(Self.quoted(version))}"
    }

    // MARK: Spans

    package func spans(_ spans: some Sequence<TelemetrySpan>) -> String {
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
    ///   - now: The same.
    package func metrics(_ metrics: [TelemetryMetric], from start: Int64, to now: Int64) -> String {
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
