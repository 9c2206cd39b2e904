import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Where spans and metrics are exported to, by OpenTelemetry's protocol (OTLP) over HTTP: `telemetry`.
struct TelemetryPlan: Hashable, Sendable {
    /// The collector. `/v1/traces` and `/v1/metrics` go behind its path.
    var origin: Origin
    /// Empty, or with a slash at the beginning and none at the end.
    var path = ""
    /// What each export carries, such as a token of the collector.
    var headers: [Injection.Field] = []
    var serviceName = "authgateway"
    /// Percent of the traces that begin here. One that a client has begun is recorded as the client says.
    var sampling = 100
    /// How often metrics are exported; nil: never.
    var metricsInterval: Duration? = Self.standardInterval
    var exportsTraces = true

    private static let standardInterval = Duration.seconds(60)

    /// ``metricsInterval`` is read before it.
    private var exportsMetrics: Bool {
        get { metricsInterval != nil }
        set { if !newValue { metricsInterval = nil } }
    }
}

/// The keys of `telemetry`, and how they are read.
extension TelemetryPlan {
    static let keys = Keys(TelemetryPlan(origin: Origin(scheme: .https, host: "", port: 443))) {
        $0("otlp", type: "an http or https URL", shown: { "\($0.origin)\($0.path)" }, example: "http://127.0.0.1:4318")
            .covers { [$0.origin, $0.path] }
            .means(
                "The collector that traces and metrics are sent to: OTLP over HTTP with JSON. /v1/traces "
                    + "and /v1/metrics are appended to it."
            )
        $0("headers", shown: { $0.shownHeaders }, example: "{Authorization: {env: OTLP_AUTHORIZATION}}")
            .covers { $0.headers.isEmpty ? [] : [$0.headers] }
            .means(
                "Header fields to send with each export, such as a token for the collector. They require "
                    + "https, except on loopback."
            )
        $0("service_name", \.serviceName, .text, example: "gateway-berlin")
            .means("What the collector calls this gateway: service.name.")
        $0("sampling", \.sampling, .percent(), example: "10%")
            .means(
                "The share of the traces begun here that is recorded. For a trace that a client began, the "
                    + "client decides."
            )
        $0(
            "metrics_interval",
            \.metricsInterval,
            .duration(.seconds(1) ... .seconds(3600)),
            default: ConfigUnits.seconds(standardInterval),
            example: "15s"
        )
        .means("How often metrics are exported.")
        $0("traces", \.exportsTraces, .flag, example: "false")
            .means("Whether spans are exported.")
        $0("metrics", \.exportsMetrics, .flag, example: "false")
            .means("Whether metrics are exported.")
    }

    /// - Returns: nil when nothing is exported.
    static func decode(_ fields: ConfigFields?) -> TelemetryPlan? {
        guard let fields else { return nil }
        fields.explain(keys)
        defer { fields.refuseUnknownKeys() }
        let url = url(fields)
        var plan = keys.defaults
        plan.headers = headers(fields)
        keys.read(fields, into: &plan)
        if !plan.exportsMetrics, fields.has("metrics_interval") {
            fields.error("metrics_interval", "has no effect: no metrics are exported")
        }
        if !plan.exportsTraces, !plan.exportsMetrics {
            fields.error("traces and metrics are both off; leave out telemetry")
        }
        guard let url else { return nil }
        if url.origin.scheme == .http, !url.origin.isLoopback, !plan.headers.isEmpty {
            fields.error("otlp", "must be https: the headers would be sent in clear (http is for loopback only)")
        }
        (plan.origin, plan.path) = (url.origin, url.path)
        return plan
    }

    private static func url(_ fields: ConfigFields) -> UpstreamURL? {
        guard let text = fields.requiredString("otlp") else { return nil }
        return fields.usable("otlp", try UpstreamURL(text))
    }

    private static func headers(_ fields: ConfigFields) -> [Injection.Field] {
        var headers: [Injection.Field] = []
        for (name, value) in fields.valueMap("headers") ?? [] {
            guard FieldSyntax.isToken(name), value.withValue(FieldSyntax.isValue) else {
                fields.error("headers", "\"\(name)\" is not a name and a value of a header field")
                continue
            }
            headers.append(Injection.Field(name: name, value: value))
        }
        return headers
    }

    /// The values may be secrets.
    private var shownHeaders: String? {
        headers.isEmpty ? nil : headers.map { "\($0.name): ***" }.joined(separator: ", ")
    }
}
