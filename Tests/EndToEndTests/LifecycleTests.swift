import ArgumentParser
import Foundation
import GatewayApp
import GatewayHTTP
import GatewaySandbox
import Testing

@testable import GatewayTools

/// What a stop and a start leave behind.
@Suite("Stop and start", .timeLimit(.minutes(5)))
struct LifecycleTests {
    @Test func aRestartUsesTheStoredTokenWithoutANewGrant() async throws {
        try await Bench.run { (bench: Bench) async throws in
            for _ in 0..<2 {
                try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                    #expect(try await gateway.get("/api/echo").status == 200)
                }
            }
            #expect(try await bench.tokenCalls() == 1)
        }
    }

    @Test func aStopLetsARequestUnderWayFinish() async throws {
        try await Bench.run { (bench: Bench) async throws in
            let slow = Mailbox()
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                async let answer = gateway.get("/open/slow?ms=500")
                try await bench.untilRequestsArrive(1)
                await gateway.gateway.stop()
                slow.put(try await answer.status)
            }
            #expect(slow.value == 200)
        }
    }

    @Test func theLogIsWholeAndTellsOfStartAndStop() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                _ = try await gateway.get("/api/echo")
            }
            let file = bench.folder.appending(path: "gateway.yaml").path(percentEncoded: false)
            let (rows, verdicts) = (Rows(), Rows())
            try await AuditQueryCommand.parse(["--config", file, "--json"]).write { rows.add($0) }
            let names = rows.all.compactMap { JSONValue(Array($0.utf8))?["event"]?.string }
            #expect(names.first == "gateway_started")
            #expect(names.last == "gateway_stopped")
            try await AuditVerifyCommand.parse(["--config", file, "--json"]).write { verdicts.add($0) }
            let verdict = verdicts.all.joined()
            let report = try #require(JSONValue(Array(verdict.utf8)), "\(verdict)")
            #expect(report["rows"] == .number(.init(Double(rows.all.count))))
            #expect(report["breach"] == nil)
        }
    }

    @Test func noSecretIsInAnyFileOfTheState() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                _ = try await gateway.get("/api/echo")
                _ = try await gateway.get("/basic/echo")
            }
            let state = bench.folder.appending(path: "state")
            let files = try FileManager.default.contentsOfDirectory(at: state, includingPropertiesForKeys: nil)
            #expect(files.count >= 4)
            let secrets = ["OAUTH_CLIENT_SECRET", "UPSTREAM_PASSWORD"].compactMap {
                bench.sandbox.environment["SANDBOX_\($0)"]
            }
            for file in files {
                let content = try Data(contentsOf: file)
                // Tokens of the sandbox begin with these words.
                for secret in secrets + ["oauth-access-"] {
                    #expect(content.range(of: Data(secret.utf8)) == nil, "\(secret) is in \(file.lastPathComponent)")
                }
            }
        }
    }
}

extension Bench {
    /// Returns when the sandbox's upstream has seen so many requests.
    func untilRequestsArrive(_ count: Double) async throws {
        for _ in 0..<400 {
            if case .number(let seen) = try await state()["requests"]?["upstream"], seen.value >= count { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("no request arrived at the upstream")
    }
}
