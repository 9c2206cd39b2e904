import GatewayHTTP
import GatewaySandbox
import GatewayTesting
import Logging
import Testing

@Suite(.timeLimit(.minutes(5)))
struct SandboxTests {
    @Test func aPortThatIsTakenIsAnErrorAndLeavesNothingRunning() async throws {
        try await Harness.run { harness async throws in
            var options = Sandbox.Options()
            options.upstreamPort = Int(harness.sandbox.addresses.upstream.split(separator: ":").last ?? "") ?? 0
            await #expect(throws: (any Error).self) {
                try await Sandbox.start(options: options, logger: Logger(label: "sandbox"))
            }
        }
    }

    @Test func aStoppedSandboxHasGivenItsPortsBack() async throws {
        let logger = Logger(label: "sandbox")
        let first = try await Sandbox.start(logger: logger)
        await first.stop()
        var options = Sandbox.Options()
        options.boxPort = Int(first.addresses.box.split(separator: ":").last ?? "") ?? 0
        let second = try await Sandbox.start(options: options, logger: logger)
        #expect(second.addresses.box == first.addresses.box)
        await second.stop()
    }

    @Test func stoppingEndsAnAnswerThatWouldLastForMinutes() async throws {
        try await Harness.run { harness async throws in
            let started = ContinuousClock.now
            let slow = Task {
                try await harness.send(.get, harness.sandbox.addresses.upstream + "/public/slow?ms=100000")
            }
            try await waitUntil("it is asked") { try await harness.count(of: "requests.upstream") ?? 0 > 0 }
            await harness.sandbox.stop()
            await #expect(throws: (any Error).self) { try await slow.value }
            #expect(ContinuousClock.now - started < .seconds(10))
        }
    }

    @Test func theEnvironmentNamesEveryAddress() async throws {
        try await Harness.run { harness async throws in
            for (name, address) in [
                ("BOX_URL", harness.sandbox.addresses.box), ("DUKE_URL", harness.sandbox.addresses.duke),
                ("OAUTH_URL", harness.sandbox.addresses.oauth), ("UPSTREAM_URL", harness.sandbox.addresses.upstream),
            ] {
                #expect(harness.environment(name) == address)
                #expect(address.hasPrefix("http://127.0.0.1:"))
            }
            #expect(!harness.sandbox.environment.values.contains(""))
            let served = try await harness.send(.get, harness.sandbox.addresses.oauth + "/_sandbox/environment")
            #expect(served.json == .object(harness.sandbox.environment.mapValues { .string($0) }))
        }
    }
}
