import GatewayApp
import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayProxy

/// `match` of routes that are alike.
@Suite("Routes that are alike", .timeLimit(.minutes(5)))
struct RouteMatchTests {
    private func outcome(_ routes: String) -> ConfigOutcome {
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\nroutes:\n\(routes)\n"])
        return ConfigLoader(files: files, environment: { _ in nil })
            .plan(
                at: "gateway.yaml",
                catalog: .builtIn,
                presets: PresetLibrary(),
                secrets: MemorySecrets(variables: [:])
            )
    }

    private static func route(_ name: String, _ match: String, upstream: String = "https://api.box.com") -> String {
        "  \(name): {upstream: \(upstream), auth: none, match: {\(match)}}\n"
    }

    @Test func keysTellThemApart() throws {
        let outcome = outcome(
            Self.route("a", "upstream_path: /2.0") + Self.route("b", "default: true") + Self.route("c", "path: /see")
                + Self.route("d", "all: true, path: /api, hosts: [a.example]")
                + Self.route("e", "all: true, path: /api, hosts: [b.example]")
                + Self.route("f", "upstream_path: /v2/users", upstream: "https://up.example/v2")
        )
        let plan = try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
        #expect(plan.routes.map(\.upstreamMatchPath) == ["/2.0", "", "", "", "", "/v2/users"])
        #expect(plan.routes.map(\.isDefault) == [false, true, false, false, false, false])
        #expect(plan.routes.map(\.matchesAll) == [false, false, false, true, true, false])
        #expect(
            PlanSummary(plan).routes.map { $0.values["absolute_form"] } == [
                .flag(true), .flag(true), .flag(false), .flag(false), .flag(false), .flag(true),
            ]
        )
        let shown = PlanSummary(plan).text()
        #expect(shown.contains("match.upstream_path: /2.0") && shown.contains("match.default: true"), "\(shown)")
    }

    @Test(arguments: [
        (
            route("a", "default: true") + route("b", "default: true"),
            "another route is the default for https://api.box.com, too"
        ),
        (
            route("a", "upstream_path: /2.0") + route("b", "upstream_path: /2.0/"),
            "the route a has the same upstream_path; tell them apart with match.upstream_path, clients or match.default"
        ),
        (route("a", "upstream_path: 2.0"), "expected a plain path such as /2.0"),
        (
            route("a", "upstream_path: /v1", upstream: "https://up.example/v2"),
            "must begin with the path of upstream, /v2"
        ),
        (route("a", "all: true, path: /api"), "also needs path and hosts"),
        (route("a", "all: true, hosts: [a.example]"), "also needs path and hosts"),
        (
            route("a", "all: true, path: /api, hosts: [a.example]")
                + route("b", "all: true, path: /api, hosts: [a.example]"),
            "another route has the host and path \"a.example/api\" too"
        ),
        (
            route("a", "all: true, path: /api, hosts: [a.example]")
                + route("b", "path: /api, hosts: [a.example, b.example]"),
            "another route has the host and path \"a.example/api\" too"
        ),
    ])
    func whatIsAmbiguousIsSaid(_ routes: String, _ message: String) {
        let outcome = outcome(routes)
        #expect(outcome.plan == nil)
        let report = outcome.report(consequence: "refused")
        #expect(report.contains(message), "\(report)")
    }
}
