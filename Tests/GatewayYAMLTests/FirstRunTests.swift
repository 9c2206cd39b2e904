import Foundation
import GatewayCore
import GatewayStrategies
import GatewayYAML
import Testing

/// `gateway.yaml` is what a first run serves.
@Suite("The first run's configuration", .timeLimit(.minutes(5)))
struct FirstRunTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private func outcome(_ path: String, _ secrets: some SecretSource) -> ConfigOutcome {
        ConfigLoader(files: FolderFiles(folder: Self.root.path), environment: { secrets.environment($0) })
            .plan(at: path, catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    @Test func theFirstRunsConfigurationIsWholeBesideTheSandbox() throws {
        let outcome = outcome("gateway.yaml", AnyVariable())
        #expect(outcome.report(consequence: "refused") == "")
        let plan = try #require(outcome.plan)
        #expect(plan.listeners.map(\.address) == [.tcp(host: "127.0.0.1", port: 8080)])
        #expect(plan.admin == AdminPlan(address: .tcp(host: "127.0.0.1", port: 8081)))
        #expect(plan.routes.count >= 5)
    }

    @Test func theFirstRunsConfigurationSaysHowToBeginWhenThereIsNoSandbox() {
        let outcome = outcome("gateway.yaml", MemorySecrets())
        #expect(outcome.plan == nil)
        #expect(outcome.report(consequence: "refused").contains("--sandbox"))
    }
}

/// Every variable is set: to a URL where its name asks for one.
private struct AnyVariable: SecretSource {
    func environment(_ name: String) -> String? { name.hasSuffix("_URL") ? "http://127.0.0.1:\(port(name))" : "1234" }

    private func port(_ name: String) -> Int { 9000 + name.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) % 1000 } }

    func file(_ path: String) throws(SecretSourceError) -> Secret { throw SecretSourceError("no files here") }

    func program(_ program: SecretProgram) throws(SecretSourceError) -> Secret {
        throw SecretSourceError("no programs here")
    }

    func systemdCredential(_ name: String) throws(SecretSourceError) -> Secret {
        throw SecretSourceError("no credentials here")
    }

    func certificates(_ path: String) throws(SecretSourceError) -> String { throw SecretSourceError("no files here") }
    func fits(_ tls: ClientTLS) -> Bool { true }
}
