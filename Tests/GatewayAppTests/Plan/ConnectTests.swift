import GatewayApp
import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayProxy

/// `connect` of a listener.
@Suite("listeners.proxy[].connect", .timeLimit(.minutes(5)))
struct ConnectTests {
    private static let routes = "routes: {box: {upstream: https://api.box.com, auth: none}}\n"

    private func outcome(_ listener: String) -> ConfigOutcome {
        let listeners = "listeners: {proxy: [{address: \"127.0.0.1:8082\", \(listener)}]}"
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\n\(listeners)\n\(Self.routes)"])
        return ConfigLoader(files: files, environment: { _ in nil })
            .plan(
                at: "gateway.yaml",
                catalog: .builtIn,
                presets: PresetLibrary(),
                secrets: MemorySecrets(variables: [:])
            )
    }

    @Test func unroutedServersMayBeTunnelled() throws {
        let text =
            "intercept: true, connect: {unrouted: tunnel, allow: ['*.Example.com', 10.0.0.0/8], ports: [443, 8443]}"
        let outcome = outcome(text)
        let plan = try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
        #expect(plan.listeners[0].connect.allow.map(\.description) == ["*.example.com", "10.0.0.0/8"])
        #expect(plan.connect.values.map(\.ports) == [[443, 8443]])
        let shown = PlanSummary(plan).text()
        #expect(shown.contains("intercept, tunnel to [*.example.com, 10.0.0.0/8] at ports [443, 8443]"), "\(shown)")
    }

    @Test func withoutItTheyAreRefused() throws {
        let plan = try #require(outcome("intercept: true").plan)
        #expect(plan.listeners[0].connect == ConnectPlan())
        #expect(plan.listeners[0].connect.unrouted == .refuse && !PlanSummary(plan).text().contains("tunnel"))
        let every = try #require(outcome("intercept: true, connect: {unrouted: tunnel}").plan)
        #expect(PlanSummary(every).text().contains("tunnel to every public server at port [443]"))
    }

    @Test func aListenerMayTakeItsCertificatesFromTheLocalAuthority() throws {
        let plan = try #require(outcome("tls: {ca: local}").plan)
        #expect(plan.listeners[0].usesLocalAuthority && plan.listeners[0].tls == nil && plan.listeners[0].speaksTLS)
        #expect(plan.interceptedHosts == ["api.box.com"])
        #expect(PlanSummary(plan).text().contains("tls of the local CA"))
    }

    @Test(arguments: [
        ("tls: {ca: other}", "expected one of local"),
        ("tls: {ca: local, certificate: cert.pem}", "cannot be combined with \"ca: local\""),
        ("tls: {ca: local}, intercept: true", "is for CONNECT, which a listener with"),
        ("connect: {unrouted: tunnel}", "tunnel needs \"intercept: true\" on the same listener"),
        ("intercept: true, connect: {unrouted: pass}", "expected one of refuse, tunnel; found \"pass\""),
        ("intercept: true, connect: {unrouted: tunnel, ports: []}", "connect.ports: names no port"),
        ("intercept: true, connect: {unrouted: tunnel, ports: [0]}", "expected a port between 1 and 65535"),
        ("intercept: true, connect: {unrouted: tunnel, ports: 443}", "connect.ports: expected a sequence"),
        ("intercept: true, connect: {unrouted: tunnel, allow: ['a.example:443']}", "expected a host without a port"),
        ("intercept: true, connect: {unrouted: tunnel, allow: [10.0.0.1/8]}", "or a network (10.0.0.0/8)"),
        (
            "intercept: true, connect: {unrouted: tunnel, allow: }",
            "\"allow\" has no value; remove it to allow every public server"
        ),
        ("intercept: true, connect: {unroutde: tunnel}", "unknown key \"unroutde\""),
    ])
    func whatIsWrongIsSaid(_ listener: String, _ message: String) {
        let outcome = outcome(listener)
        #expect(outcome.plan == nil)
        let report = outcome.report(consequence: "refused")
        #expect(report.contains(message), "\(report)")
    }
}
