import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Synchronization
import Testing

@testable import GatewayTokens

@Suite("A grant that runs a program", .timeLimit(.minutes(5)))
struct ProgramTests {
    @Test func itsOutputBecomesTheToken() async throws {
        let bench = KeeperBench(grant: ProgramGrant(), programs: ScriptedPrograms([.success(Array("abc".utf8))]))
        try await bench.running { bench in
            #expect(await bench.credential().generation == 1)
            let event = try #require(bench.audit.events.first { $0.name == .acquired })
            #expect(event.httpStatus == nil)
        }
        #expect(bench.endpoint.requests.isEmpty)
    }

    @Test func aProgramThatIsMissingIsNotTriedAgain() async throws {
        let missing = ProgramFailure(.notFound, "cannot be started: No such file or directory")
        let bench = KeeperBench(grant: ProgramGrant(), programs: ScriptedPrograms([.failure(missing)]))
        try await bench.running { bench in
            let problem = await bench.credential().problem
            #expect(problem?.kind == .credentialMisconfigured)
            #expect(problem?.detail.contains("print-token of box-service cannot be started") == true)
            #expect(bench.audit.events.contains { $0.errorCode == "program_not_found" })
        }
    }

    @Test func aProgramThatFailsIsTriedAgain() async throws {
        let programs = ScriptedPrograms([
            .failure(ProgramFailure(.failed, "ended with status 1; run it by hand to see why")),
            .success(Array("abc".utf8)),
        ])
        let bench = KeeperBench(grant: ProgramGrant(), programs: programs)
        try await bench.running { bench in
            #expect(await bench.credential().problem?.kind == .tokenTemporarilyUnavailable)
            bench.clock.advance(by: .seconds(120))
            #expect(await bench.credential().generation == 1)
        }
    }
}

private struct ProgramGrant: TokenGrant {
    var identity: GrantIdentity { .sample() }
    let isRenewable = true
    let rotatesRefreshToken = false

    func seed(at now: Moment) -> TokenSet? { nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        .run(TokenProgram(command: ["print-token"], timeout: .seconds(3)))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        .token(TokenSet(access: Secret(String(decoding: reply.body, as: UTF8.self)), obtainedAt: attempt.now.wall))
    }

    func injection(of token: TokenSet) -> Injection { .authorization(scheme: "Bearer", token.access) }
}

private final class ScriptedPrograms: ProgramRunner {
    private let script: Mutex<[Result<[UInt8], ProgramFailure>]>

    init(_ script: [Result<[UInt8], ProgramFailure>]) { self.script = Mutex(script) }

    func run(_ program: TokenProgram, input: Secret?, deadline: Duration) async -> Result<[UInt8], ProgramFailure> {
        script.withLock { script in
            script.isEmpty ? .failure(ProgramFailure(.failed, "has no script left")) : script.removeFirst()
        }
    }
}
