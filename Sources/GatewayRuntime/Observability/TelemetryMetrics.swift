import GatewayCore

extension RequestTelemetry {
    /// The two histograms of OpenTelemetry's conventions.
    func metrics() -> [TelemetryMetric] {
        let all = durations()
        return [
            metric(
                "http.server.request.duration",
                "How long requests of clients took.",
                all.filter { !$0.key.isUpstream }
            ) {
                serverAttributes(of: $0)
            },
            metric("http.client.request.duration", "How long upstreams took.", all.filter(\.key.isUpstream)) {
                upstreamAttributes(of: $0)
            },
        ].filter { !$0.points.isEmpty }
    }

    private func metric(
        _ name: String,
        _ help: String,
        _ durations: [Kind: Durations],
        _ attributes: (Kind) -> [TelemetryAttribute]
    ) -> TelemetryMetric {
        let points = durations.map { kind, durations in
            let value = TelemetryMetric.Point.histogram(
                counts: durations.counts,
                sum: durations.sum,
                bounds: HTTPConventions.durationBounds
            )
            return (attributes: attributes(kind), value: value)
        }
        return TelemetryMetric(name: name, unit: "s", help: help, points: points)
    }

    private func serverAttributes(of kind: Kind) -> [TelemetryAttribute] {
        guard kind != .overflow else { return [TelemetryAttribute("otel.metric.overflow", "true")] }
        var attributes = common(kind, scheme: kind.isTLS ? "https" : "http")
        if let route = route(kind.route) { attributes.append(TelemetryAttribute("http.route", route.path)) }
        if let error = HTTPConventions.error(ofServerSpan: kind.status, kind.problem) {
            attributes.append(TelemetryAttribute("error.type", error))
        }
        return attributes
    }

    private func upstreamAttributes(of kind: Kind) -> [TelemetryAttribute] {
        let route = route(kind.route)
        var attributes = common(kind, scheme: route?.upstream.scheme.rawValue ?? "http")
        if let upstream = route?.upstream {
            attributes += [
                TelemetryAttribute("server.address", upstream.host), TelemetryAttribute("server.port", upstream.port),
            ]
        }
        if let error = HTTPConventions.error(ofClientSpan: kind.status, kind.problem) {
            attributes.append(TelemetryAttribute("error.type", error))
        }
        return attributes
    }

    private func common(_ kind: Kind, scheme: String) -> [TelemetryAttribute] {
        var attributes = [
            TelemetryAttribute("http.request.method", kind.method), TelemetryAttribute("url.scheme", scheme),
        ]
        if kind.status > 0 { attributes.append(TelemetryAttribute("http.response.status_code", kind.status)) }
        if let route = route(kind.route) { attributes.append(TelemetryAttribute("gateway.route", route.name)) }
        return attributes
    }
}

extension MetricRegistry {
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
