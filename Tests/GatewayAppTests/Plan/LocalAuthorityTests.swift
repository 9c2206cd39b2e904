import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("The local CA in the configuration", .timeLimit(.minutes(5)))
struct LocalAuthorityTests {
    private func outcome(_ text: String) -> ConfigOutcome {
        let secrets = MemorySecrets()
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\n\(text)\n"])
        return ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private static let secure = "routes: {box: {upstream: https://api.box.com, auth: none}}\n"
    private static let intercepting = "listeners: {proxy: [{address: 127.0.0.1:8080, intercept: true}]}\n"

    @Test func whatIsWrittenIsInThePlan() throws {
        let plan = try #require(
            outcome(Self.secure + Self.intercepting + "ca: {permit: [Box.com], days: 30}").plan
        )
        #expect(plan.localAuthority == LocalAuthorityPlan(permit: ["box.com"], days: 30))
        #expect(PlanSummary(plan).text().contains("ca:\n  constrain: true\n  days: 30\n  permit: [box.com]\n"))
        #expect(outcome(Self.secure).plan?.localAuthority == LocalAuthorityPlan())
    }

    @Test(arguments: [
        ("permit: [com]", "would permit a whole top-level domain"),
        ("permit: ['*.box.com']", "expected the name of a host such as example.com"),
        ("permit: [10.0.0.1]", "expected the name of a host such as example.com"),
        ("permit: ['box.com:443']", "expected the name of a host such as example.com"),
        ("days: 0", "must be between 1 and 3650"),
        ("constrain: false, permit: [box.com]", "has no effect with constrain: false"),
    ])
    func aSlipIsAnError(_ keys: String, _ message: String) {
        let outcome = outcome(Self.secure + "ca: {\(keys)}")
        #expect(outcome.plan == nil && outcome.report(consequence: "refused").contains(message))
    }

    @Test func givingTheConstraintsUpIsAWarning() {
        let outcome = outcome(Self.secure + "ca: {constrain: false}")
        #expect(outcome.plan != nil && outcome.report(consequence: "").contains("can pose as any host"))
    }

    @Test func aListenerThatInterceptsNothingIsAWarning() {
        let plain = "routes: {box: {upstream: 'http://127.0.0.1:9', auth: none}}\n"
        let outcome = outcome(plain + Self.intercepting)
        #expect(outcome.plan != nil && outcome.report(consequence: "").contains("intercepts nothing"))
        #expect(!self.outcome(Self.secure + Self.intercepting).report(consequence: "").contains("intercepts nothing"))
    }
}
