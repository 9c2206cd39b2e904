/// Reads `telemetry`.
enum TelemetryDecoder {
    /// - Returns: nil when nothing is exported.
    static func decode(_ fields: ConfigFields?) -> TelemetryPlan? {
        guard let fields else { return nil }
        fields.explain(meanings)
        defer { fields.refuseUnknownKeys() }
        let url = url(fields)
        let headers = headers(fields)
        let name = fields.string("service_name")
        let sampling = fields.percent("sampling")
        let interval = fields.duration("metrics_interval", in: .seconds(1) ... .seconds(3600))
        let exportsTraces = fields.bool("traces") ?? true
        let exportsMetrics = fields.bool("metrics") ?? true
        if !exportsMetrics, fields.has("metrics_interval") {
            fields.error("metrics_interval", "has no effect: no metrics are exported")
        }
        if !exportsTraces, !exportsMetrics { fields.error("traces and metrics are both off; leave out telemetry") }
        guard let url else { return nil }
        if url.origin.scheme == .http, !url.origin.isLoopback, !headers.isEmpty {
            fields.error("otlp", "must be https: the headers would be sent in clear (http is for loopback only)")
        }
        return TelemetryPlan(
            origin: url.origin,
            path: url.path,
            headers: headers,
            serviceName: name ?? "authgateway",
            sampling: sampling ?? 100,
            metricsInterval: exportsMetrics ? interval ?? .seconds(60) : nil,
            exportsTraces: exportsTraces
        )
    }

    private static func url(_ fields: ConfigFields) -> UpstreamURL? {
        guard let text = fields.requiredString("otlp") else { return nil }
        do throws(UpstreamURL.Refusal) {
            return try UpstreamURL(text)
        } catch {
            fields.error("otlp", error.message)
            return nil
        }
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
}
