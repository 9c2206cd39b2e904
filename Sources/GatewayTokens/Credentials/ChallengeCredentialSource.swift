package import GatewayEvents
package import GatewayHTTP
import Synchronization

/// A source that shows its credential only to those who ask for it.
package protocol ChallengeAnswering: CredentialSource {
    /// - Parameter generation: What the refused request went with.
    func answer(_ challenges: [AuthChallenge], to generation: Int) -> ChallengeAnswer
}

extension ChallengeAnswering {
    package var answering: (any ChallengeAnswering)? { self }
}

package enum ChallengeAnswer: Hashable, Sendable {
    /// There is no other credential for them.
    case unanswered
    /// There is another credential now, or there will be, so that the request may be sent again.
    case answered
    /// They ask for what the request went with: that is not accepted any more.
    case rejected
}

/// Sends requests without credentials until the upstream asks for `Basic`, and for the configured realm if there is
/// one. From then on each request has the credentials (RFC 7617 §2.2).
///
/// Belongs to one route: a challenge of another upstream means nothing here. What it sends then, and whether that is locked, is
/// common to all routes.
package final class ChallengeCredentialSource: ChallengeAnswering {
    private static let bareGeneration = 1
    /// The generation that is sent once the upstream has asked.
    package static let fullGeneration = bareGeneration + 1

    package var name: String { full.name }
    package var strategy: String { full.strategy }
    package var grantKey: CredentialKey? { full.grantKey }
    package var fixed: FixedCredentialSource? { full }
    package var timesWithdrawn: Int { full.timesWithdrawn }

    private let bare: Credential
    private let full: FixedCredentialSource
    private let realm: String?
    private let isChallenged = Atomic(false)

    /// - Parameters:
    ///   - full: What is sent once the upstream has asked; of ``fullGeneration``.
    ///   - realm: Compared exactly; nil takes any.
    package init(_ full: FixedCredentialSource, realm: String?) {
        assert(full.generation == Self.fullGeneration, "A credential looks like none.")
        self.full = full
        self.realm = realm
        // While the credential is locked, no request of this route is sent, not even one without it.
        bare = Credential(
            name: full.name,
            generation: Self.bareGeneration,
            injection: Injection(),
            offeredWith: full.credential
        )
    }

    /// Until the upstream has asked: a body is held, because the response may be the challenge.
    package var isRenewable: Bool { !isChallenged.load(ordering: .relaxed) }

    package func answer(_ challenges: [AuthChallenge], to generation: Int) -> ChallengeAnswer {
        // Sent already: the password is wrong, and sending it again would lock an account.
        guard generation == Self.bareGeneration else { return .unanswered }
        let isAsked = challenges.contains { challenge in
            challenge.scheme == "basic" && (realm == nil || challenge.parameters["realm"] == realm)
        }
        if isAsked {
            isChallenged.store(true, ordering: .relaxed)
            bare.withdraw()
        }
        return isAsked ? .answered : .unanswered
    }

    package func current(at now: MonotonicTime) -> CredentialAnswer {
        let answer = full.current(at: now)
        guard case .ready = answer, !isChallenged.load(ordering: .relaxed) else { return answer }
        return .ready(bare)
    }

    package func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket {
        guard !isChallenged.load(ordering: .relaxed), full.lockedProblem == nil else {
            return full.wait(for: demand, done)
        }
        done(.success(bare))
        return CredentialTicket(id: 0)
    }

    package func cancel(_ ticket: CredentialTicket) {}
    package func rejected(generation: Int, by demand: CredentialRequest) {}

    package func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {
        if event == .injected, generation <= Self.bareGeneration { return }
        full.note(event, generation: generation, by: demand)
    }
}
