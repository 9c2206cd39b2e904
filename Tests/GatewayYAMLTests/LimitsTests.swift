import GatewayCore
import GatewayStrategies
import GatewayYAML
import Testing

/// Limits of the gateway as a whole.
@Suite("Limits", .timeLimit(.minutes(5)))
struct LimitsTests {
    private static let routes = "routes: {box: {upstream: https://api.box.com, auth: none}}\n"

    private func outcome(_ text: String) -> ConfigOutcome {
        let secrets = MemorySecrets()
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\n\(text)\n\(Self.routes)"])
        return ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private func plan(_ text: String) throws -> Plan {
        let outcome = outcome(text)
        return try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
    }

    @Test func theDefaults() throws {
        let plan = try plan("")
        #expect(plan.limits.headMemory == 64 << 20)
        #expect(plan.limits.uploadMemory == 64 << 20)
        #expect(plan.limits.connectionsPerAddress == nil)
        #expect(plan.limits.connectionMaxAge == .seconds(600))
        let text = PlanSummary(plan).text()
        for line in [
            "head_memory: 64MiB", "upload_memory: 64MiB", "connections_per_address: none", "connection_max_age: 10m",
        ] {
            #expect(text.contains("  \(line)\n"))
        }
    }

    @Test func whatIsWrittenIsInThePlan() throws {
        let limits = "head_memory: 1MiB, upload_memory: 2MiB, connections_per_address: 100, connection_max_age: 1s"
        let plan = try plan("limits: {\(limits)}")
        #expect(plan.limits.headMemory == 1 << 20)
        #expect(plan.limits.uploadMemory == 2 << 20)
        #expect(plan.limits.connectionsPerAddress == 100)
        #expect(plan.limits.connectionMaxAge == .seconds(1))
    }

    @Test(arguments: [
        ("head_memory: 1023KiB", "must be between 1048576 and 68719476736 bytes"),
        ("head_memory: 9999999999999999GiB", "must be between 1048576 and 68719476736 bytes"),
        ("upload_memory: 1023KiB", "must be between 1048576 and 68719476736 bytes"),
        ("connections_per_address: 0", "must be between 1 and 1000000"),
        ("connection_max_age: 999ms", "must be between 1s and 1d"),
    ])
    func aSlipDoesNotSwitchAProtectionOff(_ limit: String, _ message: String) {
        #expect(outcome("limits: {\(limit)}").report(consequence: "refused").contains(message))
    }
}
