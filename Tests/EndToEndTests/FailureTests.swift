import ArgumentParser
import Foundation
import GatewayHTTP
import GatewaySandbox
import NIOHTTP1
import Testing

@testable import GatewayApp
@testable import GatewayTools

/// What goes wrong says what is wrong, and never shows a secret.
@Suite("Failures", .timeLimit(.minutes(5)))
struct FailureTests {
    @Test func aWrongSecretIsTheConfigurationsFaultAndIsNotShown() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.wrongSecret) { (gateway: RunningGateway) async throws in
                let answer = try await gateway.get("/box/2.0/users/me")
                #expect(answer.status == 500)
                #expect(answer.json?["code"]?.string == "credential-misconfigured")
                #expect(answer.json?["recovery"]?.string == "fix_configuration")
                let secret = try #require(bench.sandbox.environment["SANDBOX_OAUTH_CLIENT_SECRET"])
                #expect(!answer.text.contains(secret))
                let again = try await gateway.get("/box/2.0/users/me")
                #expect(again.status == 500)
                #expect(try await bench.tokenCalls() == 1, "a terminal failure is not tried again")
                let page = try await gateway.admin(.GET, "/")
                #expect(page.text.contains("failed"))
                #expect(!page.text.contains(secret))
            }
        }
    }

    @Test func anUpstreamThatIsDownIsNamed() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                let answer = try await gateway.get("/down/x")
                #expect(answer.status == 502)
                #expect(answer.text.contains("127.0.0.1:1"))
            }
        }
    }

    @Test func aPortInUseIsNamedAndNothingStaysBehind() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                let plan = try bench.plan(Configurations.upstream, state: "other", port: gateway.port)
                let options = GatewayOptions(output: LogOutput(format: .json, write: { _ in }))
                let failure = await #expect(throws: CommandFailure.self) {
                    _ = try await Gateway(plan: plan, options: options)
                }
                #expect(failure?.status == .failed)
                #expect(failure?.description.contains("127.0.0.1:\(gateway.port)") == true)
                #expect(failure?.description.contains("in use") == true)
            }
        }
    }

    @Test func oneStateDirectoryHasOneGateway() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (_: RunningGateway) async throws in
                let plan = try bench.plan(Configurations.upstream)
                let options = GatewayOptions(output: LogOutput(format: .json, write: { _ in }))
                let failure = await #expect(throws: CommandFailure.self) {
                    _ = try await Gateway(plan: plan, options: options)
                }
                #expect(failure?.description.contains("another gateway") == true)
                #expect(failure?.description.contains("state_directory") == true)
            }
        }
    }

    @Test func foreignHostsAndPagesAreRefusedOnBothListeners() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                #expect(try await gateway.get("/open/echo", [("Host", "evil.example")]).status == 421)
                #expect(try await gateway.get("/open/echo", [("Origin", "https://evil.example")]).status == 403)
                #expect(try await gateway.admin(.GET, "/api/tokens", [("Host", "evil.example")]).status == 421)
                #expect(try await gateway.admin(.GET, "/", [("Origin", "https://evil.example")]).status == 403)
            }
        }
    }

    @Test func operatorsNeedTheTokenOfTheStateDirectory() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                let path = "/api/tokens/service/refresh"
                #expect(try await gateway.admin(.POST, path).status == 401)
                let token = try gateway.adminToken
                let answer = try await gateway.admin(.POST, path, [("Authorization", "Bearer \(token)")])
                #expect(answer.status == 200)
                #expect(answer.json?["token"]?["generation"] == .number(1))
                let cleared = try await gateway.admin(
                    .POST,
                    "/api/tokens/service/clear",
                    [("Authorization", "Bearer \(token)")]
                )
                #expect(cleared.status == 200)
                #expect(cleared.json?["token"]?["state"]?.string == "empty")
                let file = bench.folder.appending(path: "state/admin.token").path(percentEncoded: false)
                let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
                #expect(mode == 0o600)
            }
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func commandsReportAGatewayThatIsNotThereInsteadOfWaitingForIt() async throws {
        try await Bench.run { (bench: Bench) async throws in
            let file = bench.folder.appending(path: "other.yaml").path(percentEncoded: false)
            let text = "version: 1\nlisteners: {admin: {address: \"127.0.0.1:1\"}}\n"
            try text.write(toFile: file, atomically: true, encoding: .utf8)
            let refresh = try TokenRefreshCommand.parse(["service", "--config", file])
            let begin = ContinuousClock.now
            let failure = await #expect(throws: CommandFailure.self) {
                try await refresh.run()
            }
            #expect(ContinuousClock.now - begin < .seconds(10))
            #expect(failure?.status == .unreachable)
            #expect(failure?.description.contains("http://127.0.0.1:1") == true)
        }
    }
}
