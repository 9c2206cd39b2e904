import GatewayConfiguration
import GatewayEvents
import GatewayProxy
import GatewayStrategies
import Testing

@testable import GatewayApp

/// What `exec --ephemeral` changes of a configuration.
@Suite("The plan of a gateway for one program", .timeLimit(.minutes(5)))
struct EphemeralPlanTests {
    private func plan(_ more: String, in folder: String = "/tmp/one") throws -> Plan {
        let routes = "routes: {box: {upstream: https://api.box.com, auth: none}}\n"
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\n\(more)\n\(routes)"])
        let outcome = ConfigLoader(files: files, environment: { _ in nil })
            .plan(
                at: "gateway.yaml",
                catalog: .builtIn,
                presets: PresetLibrary(),
                secrets: MemorySecrets(variables: [:])
            )
        return try #require(outcome.plan, "\(outcome.report(consequence: "refused"))").ephemeral(in: folder)
    }

    @Test func allFilesAreInItsFolderAndTokensInMemory() throws {
        let plan = try plan("audit: {path: /var/log/audit.sqlite}")
        #expect(plan.stateDirectory == "/tmp/one" && plan.audit.path == "/tmp/one/audit.sqlite")
        #expect(plan.tokens.store == .memory && plan.tokens.key == .file(path: "/tmp/one/token.key"))
        #expect(plan.admin.address == .unix(path: "/tmp/one/admin.sock", allowedUsers: []) && plan.admin.requiresToken)
    }

    @Test func aFolderWithALongPathHasNoSocket() throws {
        let plan = try plan("", in: "/tmp/" + String(repeating: "a", count: 100))
        #expect(plan.admin.address == .tcp(host: "127.0.0.1", port: 0) && plan.admin.requiresToken)
    }

    @Test func itHasOneListenerOnLoopback() throws {
        let plain = "{address: \"127.0.0.1:1\"}, {address: \"127.0.0.1:2\", intercept: true}"
        let plan = try plan("listeners: {proxy: [\(plain)]}")
        #expect(plan.listeners.map(\.address) == [.tcp(host: "127.0.0.1", port: 0)] && plan.listeners[0].intercepts)
        #expect(plan.listeners[0].connect == ConnectPlan(unrouted: .tunnel))
    }

    @Test func serversWithoutARoutePassAsTheFirstListenerThatTunnelsHasIt() throws {
        let connect = "connect: {unrouted: tunnel, allow: ['*.example.com']}"
        let plan = try plan("listeners: {proxy: [{address: \"127.0.0.1:2\", intercept: true, \(connect)}]}")
        #expect(plan.listeners[0].connect.allow.map(\.description) == ["*.example.com"])
    }
}
