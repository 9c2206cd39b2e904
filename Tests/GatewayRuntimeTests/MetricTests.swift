import Testing

@testable import GatewayRuntime

struct MetricTests {
    @Test func aRegistryPrintsWhatPrometheusReads() {
        let registry = MetricRegistry()
        registry.counter("requests_total", [("route", "a\"b\\c\n")]).increment(by: 3)
        registry.gauge("token-age").set(1.5)
        let histogram = registry.histogram("seconds", [("route", "x")], bounds: [0.5, 1])
        for value in [0.2, 0.7, 3] { histogram.record(value) }
        #expect(
            registry.text() == #"""
                # TYPE gateway_metrics_series_refused_total counter
                gateway_metrics_series_refused_total 0
                # TYPE requests_total counter
                requests_total{route="a\"b\\c\n"} 3
                # TYPE seconds histogram
                seconds_bucket{route="x",le="0.5"} 1
                seconds_bucket{route="x",le="1"} 2
                seconds_bucket{route="x",le="+Inf"} 3
                seconds_sum{route="x"} 3.9
                seconds_count{route="x"} 3
                # TYPE token_age gauge
                token_age 1.5

                """#
        )
    }

    @Test func theSameNameAndLabelsAreOneSeries() {
        let registry = MetricRegistry()
        for _ in 0..<2 { registry.counter("calls", [("a", "b")]).increment(by: 1) }
        #expect(registry.counter("calls", [("a", "b")]).value == 2)
    }

    @Test func aFloodOfLabelsIsRefusedAndCounted() {
        let registry = MetricRegistry()
        for number in 0..<(MetricRegistry.seriesLimit + 10) {
            registry.counter("flood", [("n", String(number))]).increment(by: 1)
        }
        #expect(registry.text().contains("gateway_metrics_series_refused_total 10\n"))
    }

    @Test func aNameThatIsTakenByAnotherKindIsNotOverwritten() {
        let registry = MetricRegistry()
        registry.counter("thing").increment(by: 1)
        registry.gauge("thing").set(7.0)
        #expect(registry.text().contains("# TYPE thing counter\nthing 1\n"))
    }
}
