import Synchronization

/// A source that shows its credential only to those who ask for it.
package protocol ChallengeAnswering: CredentialSource {
    /// - Parameter generation: What the refused request went with.
    func answer(_ challenges: [AuthChallenge], to generation: Int) -> ChallengeAnswer
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
/// Belongs to one route: a challenge of another upstream means nothing here.
package final class ChallengeCredentialSource: ChallengeAnswering {
    private static let bareGeneration = 1

    package let name: String
    package let strategy: String
    package let grantKey: CredentialKey?

    private let bare: Credential
    private let full: Credential
    private let realm: String?
    private let isChallenged = Atomic(false)
    private let firstUses = FirstUses()
    private let noted: @Sendable (CredentialUseEvent, CredentialRequest) -> Void

    /// - Parameters:
    ///   - realm: Compared exactly; nil takes any.
    ///   - grantKey: Of what is injected.
    ///   - noted: Told of first uses and repetitions, for the audit log. Must not block.
    package init(
        name: String,
        strategy: String,
        injection: Injection,
        realm: String?,
        grantKey: CredentialKey? = nil,
        noted: @escaping @Sendable (CredentialUseEvent, CredentialRequest) -> Void = { _, _ in }
    ) {
        self.name = name
        self.strategy = strategy
        self.realm = realm
        self.grantKey = grantKey
        self.noted = noted
        bare = Credential(name: name, generation: Self.bareGeneration, injection: Injection())
        full = Credential(name: name, generation: Self.bareGeneration + 1, injection: injection)
    }

    /// The same credential for another route, which has not been asked for it yet.
    package func unasked() -> ChallengeCredentialSource {
        ChallengeCredentialSource(
            name: name,
            strategy: strategy,
            injection: full.injection,
            realm: realm,
            grantKey: grantKey,
            noted: noted
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
        .ready(isChallenged.load(ordering: .relaxed) ? full : bare)
    }

    package func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket {
        done(.success(isChallenged.load(ordering: .relaxed) ? full : bare))
        return CredentialTicket(id: 0)
    }

    package func cancel(_ ticket: CredentialTicket) {}
    package func rejected(generation: Int, by demand: CredentialRequest) {}

    package func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {
        if event == .injected {
            guard generation > Self.bareGeneration, firstUses.isFirst(generation: generation, route: demand.route)
            else {
                return
            }
        }
        noted(event, demand)
    }
}
