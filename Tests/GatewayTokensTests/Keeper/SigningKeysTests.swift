import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayTokens

@Suite("A token that requests are signed with", .timeLimit(.minutes(5)))
struct SigningKeysTests {
    private func tokens() -> ScriptedTokenEndpoint {
        ScriptedTokenEndpoint { _, count in .token("keys-\(count)", expiresIn: 600) }
    }

    private func signature(_ credential: Credential) throws -> String? {
        guard case .everyRequest(let signer)? = credential.signer else { return nil }
        let request = SignableRequest(
            method: "GET",
            path: Array("/".utf8),
            query: nil,
            isTLS: true,
            host: "api.example.com",
            fields: [],
            added: [],
            hasBody: false,
            time: UnixTime(seconds: 0)
        )
        let plan = try signer.plan(for: request).get()
        return try plan.sign(at: request.time, [UInt8]().span).get().fields.first?.value.withValue { $0 }
    }

    @Test func theSignerHasTheTokenOfItsGeneration() async throws {
        try await KeeperBench(tokens(), grant: KeysGrant()).running { bench in
            let first = try await bench.credential().get()
            #expect(first.injection.isEmpty)
            #expect(first.ownedFields == ["X-Signature"])
            #expect(try signature(first) == "keys-1")
            try await bench.clock.untilAsleep(atMost: .seconds(540))
            bench.clock.advance(by: .seconds(560))
            #expect(try signature(await bench.untilGeneration(after: 1)) == "keys-2")
        }
    }

    @Test func itsFieldsAreKnownBefore() {
        #expect(AuthBehavior.token(KeysGrant()).signs)
        #expect(!AuthBehavior.token(SampleGrant()).signs)
    }

    @Test func theKeysOfALockedParentAskForNothing() async throws {
        let isLocked = Atomic(true)
        let endpoint = tokens()
        let bench = KeeperBench(endpoint, parentProblem: { isLocked.load(ordering: .relaxed) ? .locked("base") : nil })
        try await bench.running { bench in
            let problem = try #require(await bench.credential().problem)
            #expect(problem.kind == .locked)
            #expect(problem.detail == "An operator has locked the credential base.")
            #expect(endpoint.requests.isEmpty)
            isLocked.store(false, ordering: .relaxed)
            bench.clock.advance(by: .seconds(60))
            #expect(await bench.credential().generation == 1)
        }
    }
}

private struct KeysGrant: TokenGrant {
    private let sample = SampleGrant()

    var identity: GrantIdentity { sample.identity }
    let isRenewable = true
    let rotatesRefreshToken = false

    func seed(at now: Moment) -> TokenSet? { nil }
    func firstStep(of attempt: GrantAttempt) -> GrantStep { sample.firstStep(of: attempt) }
    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        sample.interpret(reply, in: &attempt)
    }
    func injection(of token: TokenSet) -> Injection { Injection() }
    func signer(with token: TokenSet) -> Signer? { .everyRequest(TokenSigner(token: token.access)) }
}

/// Its signature is the token itself.
private final class TokenSigner: RequestSigner, SigningPlan {
    private let token: Secret
    let ownedFields = ["X-Signature"]
    let needsBody = false
    var identity: GrantIdentity { .sample() }

    init(token: Secret) { self.token = token }

    func plan(for request: SignableRequest) -> Result<any SigningPlan, GatewayProblem> { .success(self) }

    func sign(at time: UnixTime, _ content: borrowing Span<UInt8>) -> Result<RequestSignature, GatewayProblem> {
        .success(RequestSignature(fields: [Injection.Field(name: "X-Signature", value: token)]))
    }
}
