import Foundation
import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayApp

@Suite(.timeLimit(.minutes(5)))
struct MetricTests {
    @Test func aRegistryPrintsWhatPrometheusReads() {
        let registry = MetricRegistry()
        registry.counter("requests_total", [("route", "a\"b\\c\n")]).increment(by: 3)
        registry.gauge("token-age").set(1.5)
        let histogram = registry.histogram("seconds", [("route", "x")], bounds: [0.5, 1])
        for value in [0.2, 0.7, 3] { histogram.record(value) }
        #expect(
            registry.text() == #"""
                # HELP gateway_metrics_series_refused_total Metrics that are not shown because the limit of 10000 is reached.
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

    /// Finds them where they are made: a metric that only appears after a failure must have its line, too.
    @Test func everyMetricOfTheSourcesHasAHelpLine() throws {
        let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Sources")
        let files = try FileManager.default.subpathsOfDirectory(atPath: sources.path).filter { $0.hasSuffix(".swift") }
        var names: Set<String> = []
        for file in files {
            let text = try String(contentsOf: sources.appendingPathComponent(file), encoding: .utf8)
            // As an argument: the names of audit events, for example, are not.
            for found in text.matches(of: /\(\s*(?:label: )?"(gateway_[a-z0-9_]+)"/) { names.insert(String(found.1)) }
        }
        #expect(names.count > 20, "the expression above finds metrics")
        #expect(names.subtracting(MetricHelp.texts.keys) == [], "add what they say to MetricHelp")
        #expect(Set(MetricHelp.texts.keys).subtracting(names) == [], "no longer metrics: remove them from MetricHelp")
        for (name, text) in MetricHelp.texts {
            #expect(text.hasSuffix(".") && !text.contains("\n"), "\(name)")
            if name.contains("_seconds") { #expect(text.contains("econds"), "\(name) names its unit") }
            if name.contains("_bytes") { #expect(text.contains("ytes"), "\(name) names its unit") }
        }
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

    @Test func whatIsThereNoMoreIsSaidNoMore() {
        let registry = MetricRegistry()
        func token(_ name: String, login: Int?) -> TokenStatus {
            var status = TokenStatus(
                credential: name,
                strategy: "box_oauth",
                subject: nil,
                state: .valid,
                generation: 2,
                remainingSeconds: 60,
                isRenewable: true
            )
            status.renewalRemainingSeconds = login
            return status
        }
        let now = UnixTime(seconds: 1_772_357_400)
        let expiration = Expiration(.secret, of: "dropped", from: nil, to: now + .seconds(5), at: now, action: "")
        registry.gauge("other").set(1.0)
        registry.counter("gateway_token_calls_total", [("credential", "dropped")]).increment(by: 1)
        TokenMetrics.record([token("kept", login: 500), token("dropped", login: nil)], [expiration], in: registry)
        #expect(registry.text().contains(#"gateway_expires_soon{kind="secret",of="dropped"} 1"#))
        TokenMetrics.record([token("kept", login: nil)], [], in: registry)
        let lines = registry.text().split(separator: "\n").filter { !$0.hasPrefix("#") }
        #expect(lines.contains(#"gateway_token_generation{credential="kept",strategy="box_oauth"} 2"#))
        #expect(lines.contains("other 1"))
        #expect(lines.filter { $0.contains("dropped") } == [#"gateway_token_calls_total{credential="dropped"} 1"#])
        #expect(!lines.contains { $0.hasPrefix("gateway_login_") }, "nobody is logged in any more")
    }
}
