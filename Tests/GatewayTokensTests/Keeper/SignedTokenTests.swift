import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("A grant that makes the token itself", .timeLimit(.minutes(5)))
struct SignedTokenTests {
    @Test func itsTokenIsUsedAndRecordedWithoutAnAuthority() async throws {
        let bench = KeeperBench(grant: SigningGrant(lifetime: .seconds(300)))
        try await bench.running { bench in
            #expect(await bench.credential().generation == 1)
            let event = try #require(bench.audit.events.first { $0.name == .acquired })
            #expect(event.httpStatus == nil)
            #expect(event.expiresAt == bench.clock.now().wall + .seconds(300))
        }
        #expect(bench.endpoint.requests.isEmpty)
    }

    @Test func aTokenThatIsOverAlreadyIsNotUsed() async throws {
        let bench = KeeperBench(grant: SigningGrant(lifetime: .zero))
        try await bench.running { bench in
            #expect(await bench.credential().problem?.kind == .tokenTemporarilyUnavailable)
        }
    }
}

private struct SigningGrant: TokenGrant {
    let lifetime: Duration
    var identity: GrantIdentity { .sample() }
    let isRenewable = true
    let rotatesRefreshToken = false

    func seed(at now: Moment) -> TokenSet? { nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        let now = attempt.now.wall
        return .token(TokenSet(access: Secret("signed"), obtainedAt: now, expiresAt: now + lifetime))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        Issue.record("there is no answer to interpret")
        return .failure(TokenFailure(.terminal, problem: GatewayProblem(.internalError, "no answer")))
    }

    func injection(of token: TokenSet) -> Injection { .authorization(scheme: "Bearer", token.access) }
}
