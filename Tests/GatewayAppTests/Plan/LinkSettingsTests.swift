import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import Testing

@testable import GatewayProxy

/// Keys about URLs of the gateway, and about pages that may call it.
@Suite("Settings of links and pages", .timeLimit(.minutes(5)))
struct LinkSettingsTests {
    private static func outcome(route: String = "", listener: String = "", access: String = "") -> ConfigOutcome {
        let text = """
            version: 1
            access: {\(access)}
            listeners: {proxy: [{address: "127.0.0.1:8080"\(listener)}]}
            routes:
              app: {upstream: https://app.example.com, auth: none\(route)}
            """
        let secrets = MemorySecrets(variables: [:])
        return ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": text]), environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private static func report(_ outcome: ConfigOutcome) -> String { outcome.report(consequence: "refused") }

    // MARK: Via

    @Test(arguments: [("", true), (", via: true", true), (", via: false", false)])
    func aRouteSaysWhetherItSendsVia(_ settings: String, _ expected: Bool) throws {
        let plan = try #require(Self.outcome(route: settings).plan)
        #expect(plan.routes.first?.sendsVia == expected)
        #expect(PlanSummary(plan).text().contains("    via: false\n") == !expected)
    }

    @Test(arguments: [
        (", via: false", ", public_url: \"https://app.example.com\""),
        (", via: false, match: {hosts: [app.example.com]}", ""),
        (", via: false, match: {hosts: [\"*.example.com\"]}", ""),
    ])
    func itIsNotWithoutViaWhereTheUpstreamMayBeTheGateway(_ route: String, _ listener: String) {
        let report = Self.report(Self.outcome(route: route, listener: listener))
        let problem = "routes.app.via: cannot be false: this upstream may be the gateway itself"
        #expect(report.contains(problem), "\(report)")
    }

    // MARK: Links

    @Test(arguments: [("", nil), (", rewrite: {links: true}", true), (", rewrite: {links: false}", false)])
    func aRouteSaysWhetherItsLinksAreRewritten(_ settings: String, _ expected: Bool?) throws {
        let plan = try #require(Self.outcome(route: settings).plan)
        #expect(plan.routes.first?.rewritesLinks == expected)
        let line = "    rewrite.links: "
        #expect(PlanSummary(plan).text().contains(line + "\(expected ?? true)\n") == (expected != nil))
    }

    @Test(arguments: [
        (", rewrite: {}", "rewrites nothing"), (", rewrite: {links: some}", "routes.app.rewrite.links"),
        (", rewrite: {link: true}", "unknown key"), (", rewrite: true", "routes.app.rewrite"),
    ])
    func anotherRewriteIsRefused(_ settings: String, _ expected: String) {
        let report = Self.report(Self.outcome(route: settings))
        #expect(report.contains(expected), "\(report)")
    }

    @Test(arguments: [
        ("https://gw.example.com", "https://gw.example.com"), ("HTTPS://GW.example.com:443/", "https://gw.example.com"),
        ("http://gw.example.com:8000/a/b/", "http://gw.example.com:8000/a/b"),
    ])
    func aListenerHasAPublicURL(_ text: String, _ expected: String) throws {
        let plan = try #require(Self.outcome(listener: ", public_url: \"\(text)\"").plan)
        #expect(plan.listeners.first?.publicURL?.text == expected)
        #expect(PlanSummary(plan).text().contains("127.0.0.1:8080, public_url \(expected)\n"))
    }

    @Test(arguments: [
        "gw.example.com", "https://", "https://u:p@gw.example.com", "https://gw.example.com?a",
        "https://gw.example.com/a/../b",
        "ftp://gw.example.com",
    ])
    func whatIsNoURLIsRefused(_ text: String) {
        let outcome = Self.outcome(listener: ", public_url: \"\(text)\"")
        #expect(outcome.plan == nil)
        #expect(Self.report(outcome).contains("listeners.proxy[0].public_url: "), "\(Self.report(outcome))")
    }

    // MARK: Pages

    @Test func aRouteHasItsOwnListOrThatOfAll() throws {
        let access = "allow_origins: [\"https://App.example.com:443\"]"
        func origins(_ route: String) throws -> [String] {
            let plan = try #require(Self.outcome(route: route, access: access).plan)
            return plan.access.allowedOrigins(on: try #require(plan.routes.first))
        }
        #expect(try origins("") == ["https://app.example.com"])
        #expect(try origins(", allow_origins: []") == [])
        #expect(try origins(", allow_origins: [\"http://localhost:3000\"]") == ["http://localhost:3000"])
        let plan = try #require(Self.outcome(route: ", allow_origins: [\"http://localhost:3000\"]").plan)
        #expect(PlanSummary(plan).text().contains("    allow_origins: [http://localhost:3000]\n"))
    }

    @Test(arguments: ["*", "null", "app.example.com", "https://app.example.com/x", "file://"])
    func eachOriginIsNamed(_ text: String) {
        for outcome in [
            Self.outcome(access: "allow_origins: [\"\(text)\"]"), Self.outcome(route: ", allow_origins: [\"\(text)\"]"),
        ] {
            #expect(outcome.plan == nil)
            #expect(Self.report(outcome).contains("https://app.example.com"))
            #expect(Self.report(outcome).contains("names no page") == (text == "*" || text == "null"))
        }
    }
}
