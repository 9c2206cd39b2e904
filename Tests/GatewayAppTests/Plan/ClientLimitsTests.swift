import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayProxy

/// Limits of single clients.
@Suite("Limits of clients", .timeLimit(.minutes(5)))
struct ClientLimitsTests {
    private static let routes = "routes: {box: {upstream: https://api.box.com, auth: none}}\n"

    private func outcome(_ text: String) -> ConfigOutcome {
        let secrets = MemorySecrets(variables: ["ONE": "secret-1", "TWO": "secret-2"])
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\n\(text)\n\(Self.routes)"])
        return ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private func plan(_ text: String) throws -> Plan {
        let outcome = outcome(text)
        return try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
    }

    @Test func aClientMayHaveLimits() throws {
        let plan = try plan(
            """
            access:
              clients:
                both: {token: {env: ONE}, limits: {concurrent: 10, per_second: 50}}
                none: {token: {env: TWO}}
            """
        )
        #expect(
            plan.access.clients.map(\.limits) == [ClientLimitsPlan(concurrent: 10, perSecond: 50), ClientLimitsPlan()]
        )
        let shown = PlanSummary(plan)
        #expect(
            shown.text().contains(
                "  clients: [both, none]\n  clients.both.limits: {concurrent: 10, per_second: 50}\n  require_client"
            )
        )
        #expect(shown.json().contains("\"per_second\" : 50"))
    }

    @Test(arguments: [
        ("{}", "access.clients.laptop.limits: limits nothing; leave it out"),
        ("{concurrent: 0}", "access.clients.laptop.limits.concurrent: must be between 1 and 1000000"),
        ("{per_second: 1.5}", "access.clients.laptop.limits.per_second: expected a whole number"),
        ("{per_second: }", "\"per_second\" has no value; remove it to allow any number of requests in a second"),
        ("{per_minute: 3}", "access.clients.laptop.limits: unknown key \"per_minute\""),
        ("10", "access.clients.laptop.limits: expected a mapping"),
    ])
    func limitsOfAClientAreChecked(_ limits: String, _ message: String) {
        let outcome = outcome("access: {clients: {laptop: {token: {env: ONE}, limits: \(limits)}}}")
        #expect(outcome.plan == nil)
        #expect(outcome.report(consequence: "refused").contains(message))
    }

    @Test func aReloadNamesTheClientWhoseLimitsChange() throws {
        let mark = { (bytes: [UInt8]) in String(decoding: bytes, as: UTF8.self) }
        func digest(_ limits: String) throws -> PlanDigest {
            let clients = "laptop: {token: {env: ONE}\(limits)}, ci: {token: {env: TWO}}"
            return PlanDigest(try plan("access: {clients: {\(clients)}}"), mark: mark)
        }
        let changes = PlanChange.between(try digest(""), try digest(", limits: {concurrent: 5}"))
        let effective = PlanChange.effective(changes)
        #expect(effective.map(\.path) == ["access.clients.laptop"])
        #expect(effective.map(\.notes) == [["limits: nothing -> {concurrent: 5}"]])
        #expect(effective.allSatisfy { !$0.needsRestart })
    }
}
