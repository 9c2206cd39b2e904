import GatewayEvents
import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("Credentials that an operator has taken away", .timeLimit(.minutes(5)))
struct WithdrawnCredentialsTests {
    private final class Source: CredentialSource {
        let name = "box"
        let strategy = "oauth2"
        let isRenewable = true
        let grantKey: CredentialKey?

        init(_ grant: String?) { grantKey = grant.map { CredentialKey(digest: $0) } }

        func current(at now: MonotonicTime) -> CredentialAnswer { .wait }
        func wait(
            for demand: CredentialRequest,
            _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
        ) -> CredentialTicket { CredentialTicket(id: 0) }
        func cancel(_ ticket: CredentialTicket) {}
        func rejected(generation: Int, by demand: CredentialRequest) {}
        func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {}
    }

    private static let now = MonotonicTime(nanoseconds: 10)

    private static func credential(isWithdrawn: Bool = false, expiresAt: MonotonicTime? = nil) -> Credential {
        let credential = Credential(name: "box", generation: 1, injection: Injection(), expiresAt: expiresAt)
        if isWithdrawn { credential.withdraw() }
        return credential
    }

    private let source = Source("a")

    @Test func theOneThatWasTakenAwayEndsAndTheNextOneGoesOn() {
        let withdrawn = WithdrawnCredentials([source])
        #expect(withdrawn.event(Self.credential(isWithdrawn: true), of: source, at: Self.now) == .withdrawn)
        #expect(withdrawn.event(Self.credential(), of: source, at: Self.now) == nil)
        #expect(withdrawn.event(Self.credential(expiresAt: Self.now), of: source, at: Self.now) == .withdrawn)
    }

    /// It has not been told, and offers its token as before.
    @Test func aSourceThatWasReplacedHasNoOther() {
        let withdrawn = WithdrawnCredentials([Source("b"), source])
        let replaced = Source("a")
        #expect(withdrawn.event(Self.credential(), of: replaced, at: Self.now) == .sourceWithdrawn)
        #expect(withdrawn.event(Self.credential(isWithdrawn: true), of: replaced, at: Self.now) == .sourceWithdrawn)
    }

    @Test func othersAreNotTouched() {
        let withdrawn = WithdrawnCredentials([source])
        for other in [Source("b"), Source(nil)] {
            #expect(withdrawn.event(Self.credential(isWithdrawn: true), of: other, at: Self.now) == nil)
        }
    }

    @Test func withoutAGrantThereIsNothingToTakeAway() {
        #expect(WithdrawnCredentials([]).isEmpty && WithdrawnCredentials([Source(nil)]).isEmpty)
        #expect(!WithdrawnCredentials([source]).isEmpty)
    }

    @Test func anExchangeWithWhatWasLockedIsEnded() {
        let shared = FixedCredentialSource(
            name: "openai",
            strategy: "basic",
            injection: Injection.authorization(scheme: "Basic", Secret("YTpw")),
            generation: ChallengeCredentialSource.fullGeneration,
            grantKey: CredentialKey(digest: "a")
        )
        let route = ChallengeCredentialSource(shared, realm: nil)
        let now = MonotonicTime(nanoseconds: 0)
        guard case .ready(let credential) = shared.current(at: now) else {
            Issue.record("a fixed credential is there at once")
            return
        }
        shared.lock()
        let withdrawn = WithdrawnCredentials([shared])
        #expect(withdrawn.event(credential, of: shared, at: now) == .withdrawn)
        #expect(withdrawn.event(credential, of: route, at: now) == .sourceWithdrawn)
    }
}
