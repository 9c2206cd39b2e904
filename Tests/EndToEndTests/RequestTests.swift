import ArgumentParser
import Foundation
import GatewayHTTP
import GatewaySandbox
import NIOHTTP1
import Testing

@testable import GatewayTools

/// From configuration text to a request that is signed in and recorded, over real sockets.
@Suite("Requests through a gateway", .timeLimit(.minutes(5)))
struct RequestTests {
    @Test func aRequestLeavesWithATokenThatWasFetchedAndRecorded() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.twoRoutesOneCredential) {
                (gateway: RunningGateway) async throws in
                let answer = try await gateway.get("/box/2.0/users/me")
                #expect(answer.status == 200)
                #expect(answer.json?["id"]?.string == "3000001")
                let events = try await gateway.events(including: "injected")
                let expected = ["gateway_started", "config_loaded", "acquiring", "acquired", "injected"]
                #expect(events == expected)
            }
        }
    }

    @Test func routesAndCredentialsWithTheSameGrantShareOneToken() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.twoRoutesOneCredential) {
                (gateway: RunningGateway) async throws in
                for path in ["/box", "/second", "/third"] {
                    let answer = try await gateway.get("\(path)/2.0/users/me")
                    #expect(answer.status == 200)
                }
                #expect(try await bench.tokenCalls() == 1)
            }
        }
    }

    @Test func anotherSubjectIsAnotherToken() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.twoRoutesOneCredential) {
                (gateway: RunningGateway) async throws in
                let service = try await gateway.get("/box/2.0/users/me")
                let user = try await gateway.get("/user/2.0/users/me")
                #expect(service.json?["id"]?.string == "3000001")
                #expect(user.json?["id"]?.string == "2000001")
                #expect(try await bench.tokenCalls() == 2)
            }
        }
    }

    @Test func manyRequestsOnAColdCredentialCauseOneTokenCall() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.sandboxSwitch(#"{"token_delay_ms": 200}"#, at: bench.sandbox.addresses.oauth)
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                let statuses = try await withThrowingTaskGroup(of: Int.self) { tasks in
                    for _ in 0..<100 { tasks.addTask { try await gateway.get("/api/echo").status } }
                    return try await tasks.reduce(into: []) { $0.append($1) }
                }
                #expect(statuses == Array(repeating: 200, count: 100))
                #expect(try await bench.tokenCalls() == 1)
            }
        }
    }

    @Test func aRejectedTokenIsRenewedOnceAndThePostArrivesWithItsBody() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                let first = try await gateway.get("/api/echo")
                #expect(first.status == 200)
                try await bench.sandboxSwitch(#"{"revoke_access": true}"#, at: bench.sandbox.addresses.oauth)
                let body = String(repeating: "a body that must arrive whole; ", count: 100)
                let answer = try await gateway.post("/api/sink", body: body)
                #expect(answer.status == 200)
                #expect(answer.text.contains("\(body.utf8.count)"))
                #expect(try await bench.tokenCalls() == 2)
                let events = try await gateway.events(including: "rejected", "replayed", "renewed")
                #expect(events.count { $0 == "renewed" } == 1)
            }
        }
    }

    @Test func aPairThatRotatesIsRenewedWhenTheAuthorityEndsIt() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.campus) { (gateway: RunningGateway) async throws in
                let first = try await gateway.get("/campus/api/me")
                #expect(first.status == 200)
                let token = try gateway.adminToken
                let path = "/api/tokens/routes.campus/refresh"
                let refreshed = try await gateway.admin(.POST, path, [("Authorization", "Bearer \(token)")])
                #expect(refreshed.status == 200)
                #expect(try await gateway.get("/campus/api/me").status == 200)
                #expect(try await bench.tokenCalls() == 1)
            }
        }
    }

    @Test func staticCredentialsAreInjectedAndRecordedOnce() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                for _ in 0..<3 {
                    let answer = try await gateway.get("/basic/echo", [("Authorization", "Bearer of-the-client")])
                    #expect(answer.status == 200)
                    #expect(answer.json?["authorization"]?["scheme"]?.string == "Basic")
                }
                let events = try await gateway.events(including: "injected")
                #expect(events.count { $0 == "injected" } == 1)
            }
        }
    }

    @Test func clientsShowTheirTokenAndItStaysHere() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.clients) { (gateway: RunningGateway) async throws in
                let laptop = ("Authorization", "Bearer \(bench.sandbox.environment["SANDBOX_BOX_CLIENT_SECRET"] ?? "")")
                let other = (
                    "Authorization", "Bearer \(bench.sandbox.environment["SANDBOX_OAUTH_CLIENT_SECRET"] ?? "")"
                )
                #expect(try await gateway.get("/open/echo").status == 401)
                #expect(try await gateway.get("/private/echo", [other]).status == 403)
                let answer = try await gateway.get("/private/echo", [laptop])
                #expect(answer.status == 200)
                #expect(answer.json?["authorization"] == .null)
                let events = try await gateway.events(including: "client_denied")
                #expect(events.count { $0 == "client_denied" } <= 2)
            }
        }
    }

    @Test func usesAreCountedPerRouteAndGeneration() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                for _ in 0..<5 { _ = try await gateway.get("/api/echo") }
            }
            let path = bench.folder.appending(path: "state/audit.sqlite").path(percentEncoded: false)
            let stats = Rows()
            try await AuditStatsCommand.parse(["--path", path, "--json"]).write { stats.add($0) }
            #expect(JSONValue(Array(stats.all.joined().utf8))?["calls"] == .number(5))
        }
    }
}
