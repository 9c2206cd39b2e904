import Foundation
import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import Testing

@testable import GatewayProxy

/// `gateway.yaml` is what a first run serves, with `sandbox.yaml` beside the sandbox.
@Suite("The first run's configuration", .timeLimit(.minutes(5)))
struct FirstRunTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
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
        #expect(plan.routes.count >= 5 && plan.credentials.count >= 3)
    }

    @Test func theRoutesOfTheSandboxAreAbsentWithoutIt() throws {
        let outcome = outcome("gateway.yaml", MemorySecrets())
        #expect(outcome.report(consequence: "refused") == "")
        let plan = try #require(outcome.plan)
        #expect(plan.routes.map(\.name) == ["example"] && plan.credentials.isEmpty)
        #expect(plan.listeners.map(\.intercepts) == [true], "for authgateway exec")
        #expect(!plan.interceptedHosts.isEmpty)
    }

    @Test func whatInitWritesTakesConnect() throws {
        let url = try FirstConfiguration.Service(url: "http://127.0.0.1:9").entries(as: "own", token: "{env: TOKEN}")
        let entries = (url.credential.lines, url.routes[0].lines)
        func indented(_ lines: [String]) -> String { lines.map { "    \($0)\n" }.joined() }
        let text =
            FirstConfiguration.head(port: 9000, command: "authgateway run")
            + "credentials:\n  own:\n\(indented(entries.0))routes:\n  own:\n\(indented(entries.1))"
        let secrets = MemorySecrets(variables: ["TOKEN": "t"])
        let outcome = ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": text]), environment: { _ in nil })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
        #expect(outcome.report(consequence: "refused") == "", "no warning, although no route leads to https://")
        let plan = try #require(outcome.plan)
        #expect(plan.listeners.map(\.intercepts) == [true] && plan.listeners.map(\.connect.unrouted) == [.tunnel])
        #expect(plan.listeners.map(\.address) == [.tcp(host: "127.0.0.1", port: 9000)])
    }
}

/// Every variable is set: to a URL where its name asks for one, and to the file that the sandbox names.
private struct AnyVariable: SecretSource {
    func environment(_ name: String) -> String? {
        if name == "SANDBOX_ROUTES" { return "sandbox.yaml" }
        return name.hasSuffix("_URL") ? "http://127.0.0.1:\(port(name))" : "1234"
    }

    private func port(_ name: String) -> Int { 9000 + name.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) % 1000 } }

    func file(_ path: String) throws(UnusableInput) -> Secret { throw UnusableInput("no files here") }

    func program(_ program: SecretProgram) throws(UnusableInput) -> Secret {
        throw UnusableInput("no programs here")
    }

    func systemdCredential(_ name: String) throws(UnusableInput) -> Secret {
        throw UnusableInput("no credentials here")
    }

    func certificates(_ path: String) throws(UnusableInput) -> String { throw UnusableInput("no files here") }
    func fits(_ tls: ClientTLS) -> Bool { true }
}
