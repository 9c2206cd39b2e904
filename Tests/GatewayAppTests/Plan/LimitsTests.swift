import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayProxy

/// Limits of the gateway as a whole.
@Suite("Limits", .timeLimit(.minutes(5)))
struct LimitsTests {
    private static let routes = "routes: {box: {upstream: https://api.box.com, auth: none}}\n"

    private func outcome(_ text: String, routes: String = routes) -> ConfigOutcome {
        let secrets = MemorySecrets()
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\n\(text)\n\(routes)"])
        return ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private func plan(_ text: String, routes: String = routes) throws -> Plan {
        let outcome = outcome(text, routes: routes)
        return try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
    }

    @Test func theDefaults() throws {
        let plan = try plan("")
        #expect(plan.limits.headMemory == 64 << 20)
        #expect(plan.limits.uploadMemory == 64 << 20)
        #expect(plan.limits.connectionsPerAddress == nil)
        #expect(plan.limits.connectionMaxAge == .seconds(600))
        let text = PlanSummary(plan).text()
        #expect(plan.limits.keepAlive == .seconds(30))
        for line in [
            "keepalive: 30s", "head_memory: 64MiB", "upload_memory: 64MiB", "connections_per_address: none",
            "connection_max_age: 10m",
        ] {
            #expect(text.contains("  \(line)\n"))
        }
    }

    @Test func whatIsWrittenIsInThePlan() throws {
        let limits =
            "head_memory: 1MiB, upload_memory: 2MiB, connections_per_address: 100, connection_max_age: 1s, keepalive: 0s"
        let plan = try plan("limits: {\(limits)}")
        #expect(plan.limits.keepAlive == .zero)
        #expect(plan.limits.headMemory == 1 << 20)
        #expect(plan.limits.uploadMemory == 2 << 20)
        #expect(plan.limits.connectionsPerAddress == 100)
        #expect(plan.limits.connectionMaxAge == .seconds(1))
    }

    private static func route(timeouts: String) -> String {
        "routes: {box: {upstream: https://api.box.com, auth: none, timeouts: \(timeouts)}}\n"
    }

    @Test(arguments: [
        ("{response: 10m}", RoutePlan.Timeouts(response: .seconds(600)), ["timeouts.response: 10m"]),
        ("{idle: 2m}", RoutePlan.Timeouts(idle: .seconds(120)), ["timeouts.idle: 2m"]),
        (
            "{response: 1h, idle: 250ms}", RoutePlan.Timeouts(response: .seconds(3600), idle: .milliseconds(250)),
            ["timeouts.response: 1h", "timeouts.idle: 250ms"]
        ),
    ])
    func aRouteHasTimeoutsOfItsOwn(_ text: String, _ timeouts: RoutePlan.Timeouts, _ lines: [String]) throws {
        let plan = try plan("limits: {response_timeout: 5s}", routes: Self.route(timeouts: text))
        #expect(plan.routes.map(\.timeouts) == [timeouts])
        #expect(plan.limits.responseTimeout(of: timeouts) == timeouts.response ?? .seconds(5))
        #expect(plan.limits.responsePause(of: timeouts) == timeouts.idle ?? .seconds(5))
        for line in lines { #expect(PlanSummary(plan).text().contains("    \(line)\n")) }
    }

    @Test(arguments: [
        ("{}", "sets nothing; leave it out"), ("{response: 99ms}", "must be between 100ms and 1d"),
        ("{idle: never}", "expected a duration"), ("{connect: 1s}", "unknown key"),
    ])
    func aTimeoutThatIsNoneIsRefused(_ text: String, _ message: String) {
        #expect(outcome("", routes: Self.route(timeouts: text)).report(consequence: "refused").contains(message))
    }

    @Test(arguments: [
        ("head_memory: 1023KiB", "must be between 1048576 and 68719476736 bytes"),
        ("head_memory: 9999999999999999GiB", "must be between 1048576 and 68719476736 bytes"),
        ("upload_memory: 1023KiB", "must be between 1048576 and 68719476736 bytes"),
        ("connections_per_address: 0", "must be between 1 and 1000000"),
        ("keepalive: 3h", "must be between 0s and 2h"),
        ("connection_max_age: 999ms", "must be between 1s and 1d"),
    ])
    func aSlipDoesNotSwitchAProtectionOff(_ limit: String, _ message: String) {
        #expect(outcome("limits: {\(limit)}").report(consequence: "refused").contains(message))
    }
}
