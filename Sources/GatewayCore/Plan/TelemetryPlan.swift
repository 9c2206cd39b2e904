/// Where spans and metrics are exported to, by OpenTelemetry's protocol (OTLP) over HTTP.
package struct TelemetryPlan: Hashable, Sendable {
    /// The collector. `/v1/traces` and `/v1/metrics` go behind its path.
    package var origin: Origin
    /// Empty, or with a slash at the beginning and none at the end.
    package var path: String
    /// What each export carries, such as a token of the collector.
    package var headers: [Injection.Field]
    package var serviceName: String
    /// Percent of the traces that begin here. One that a client has begun is recorded as the client says.
    package var sampling: Int
    /// How often metrics are exported; nil: never.
    package var metricsInterval: Duration?
    package var exportsTraces: Bool

    package init(
        origin: Origin,
        path: String = "",
        headers: [Injection.Field] = [],
        serviceName: String = "authgateway",
        sampling: Int = 100,
        metricsInterval: Duration? = .seconds(60),
        exportsTraces: Bool = true
    ) {
        self.origin = origin
        self.path = path
        self.headers = headers
        self.serviceName = serviceName
        self.sampling = sampling
        self.metricsInterval = metricsInterval
        self.exportsTraces = exportsTraces
    }
}
