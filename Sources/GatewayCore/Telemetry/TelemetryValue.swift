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
    package let isError: Bool

    package init(
        trace: TraceContext.TraceID,
        span: UInt64,
        parent: UInt64,
        name: String,
        kind: Kind,
        start: Int64,
        end: Int64,
        attributes: [TelemetryAttribute],
        isError: Bool
    ) {
        self.trace = trace
        self.span = span
        self.parent = parent
        self.name = name
        self.kind = kind
        self.start = start
        self.end = end
        self.attributes = attributes
        self.isError = isError
    }
}

/// One metric as it is exported: all values since the start.
package struct TelemetryMetric: Sendable {
    package enum Point: Hashable, Sendable {
        case sum(Int64)
        case gauge(Double)
        /// One count more than there are bounds.
        case histogram(counts: [Int64], sum: Double, bounds: [Double])
    }

    package let name: String
    package let unit: String
    package let help: String
    /// All of one kind.
    package let points: [(attributes: [TelemetryAttribute], value: Point)]

    package init(
        name: String,
        unit: String,
        help: String,
        points: [(attributes: [TelemetryAttribute], value: Point)]
    ) {
        self.name = name
        self.unit = unit
        self.help = help
        self.points = points
    }
}
