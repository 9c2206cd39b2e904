import Synchronization

/// The credentials of one route to a registry: one source for each repository and kind of use, which asks for a token once the
/// registry has said which.
///
/// Belongs to one route: a challenge of another upstream means nothing here.
package final class RegistryCredentials: SubjectCredentialResolver {
    /// At this limit all entries are discarded. The next request of each gets a challenge again.
    private static let maximumPlaces = 256

    private let tokens: any SubjectCredentialResolver
    private let rule: RegistryRule
    private let places = Mutex<[Place: RegistryCredentialSource]>([:])

    private struct Place: Hashable {
        let name: String
        let client: String?
    }

    /// - Parameter tokens: Has the tokens by their URL.
    package init(_ tokens: any SubjectCredentialResolver, _ rule: RegistryRule) {
        self.tokens = tokens
        self.rule = rule
    }

    package var name: String { tokens.name }
    package var strategy: String { tokens.strategy }
    package var grantKey: CredentialKey { tokens.grantKey }
    package var field: String? { nil }

    package func source(for place: String, client: String?) -> Result<any CredentialSource, GatewayProblem> {
        let place = Place(name: place, client: client)
        return places.withLock { places in
            if let known = places[place] { return .success(known) }
            if places.count >= Self.maximumPlaces { places = [:] }
            let new = RegistryCredentialSource(tokens, rule, client: client)
            places[place] = new
            return .success(new)
        }
    }

    package func look(for place: String) -> Result<(any CredentialSource)?, GatewayProblem> {
        .success(places.withLock { places in places.first { $0.key.name == place }?.value })
    }
}

/// Sends requests without a token until the registry asks for one. From then on each request has that token.
package final class RegistryCredentialSource: ChallengeAnswering {
    private static let bareGeneration = 0

    private let tokens: any SubjectCredentialResolver
    private let rule: RegistryRule
    private let client: String?
    private let bare: Credential
    /// Of the token that the registry asked for last; nil before it has asked.
    private let tokenURL = Mutex<String?>(nil)

    init(_ tokens: any SubjectCredentialResolver, _ rule: RegistryRule, client: String?) {
        self.tokens = tokens
        self.rule = rule
        self.client = client
        bare = Credential(name: tokens.name, generation: Self.bareGeneration, injection: Injection())
    }

    package var name: String { tokens.name }
    package var strategy: String { tokens.strategy }
    package var grantKey: CredentialKey? { known?.grantKey ?? tokens.grantKey }
    /// Also before the registry has asked: a body is held, because the response may be the challenge.
    package var isRenewable: Bool { true }
    package var rejections: RejectionRecord? { known?.rejections }
    package var timesWithdrawn: Int { known?.timesWithdrawn ?? 0 }

    /// Looked up each time: one that was not used for long may have been removed.
    private var source: Result<any CredentialSource, GatewayProblem>? {
        tokenURL.withLock { $0 }.map { tokens.source(for: $0, client: client) }
    }

    /// The source of the token, if there is one now.
    private var known: (any CredentialSource)? {
        guard let url = tokenURL.withLock({ $0 }), case .success(let source?) = tokens.look(for: url) else {
            return nil
        }
        return source
    }

    package func answer(_ challenges: [AuthChallenge], to generation: Int) -> ChallengeAnswer {
        guard let url = rule.tokenURL(answering: challenges) else { return .unanswered }
        let isNew = tokenURL.withLock { current in
            let isNew = current != url
            current = url
            return isNew
        }
        if isNew { bare.withdraw() }
        return isNew || generation == Self.bareGeneration ? .answered : .rejected
    }

    package func current(at now: MonotonicTime) -> CredentialAnswer {
        switch source {
        case nil: .ready(bare)
        case .success(let source)?: source.current(at: now)
        case .failure(let problem)?: .unavailable(problem)
        }
    }

    package func outlook(at now: MonotonicTime) -> CredentialAnswer {
        guard tokenURL.withLock({ $0 != nil }) else { return .ready(bare) }
        return known?.outlook(at: now) ?? .wait
    }

    package func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket {
        switch source {
        case nil: done(.success(bare))
        case .success(let source)?: return source.wait(for: demand, done)
        case .failure(let problem)?: done(.failure(problem))
        }
        return CredentialTicket(id: 0)
    }

    /// One whose token is waited for makes no room, so it is found.
    package func cancel(_ ticket: CredentialTicket) { known?.cancel(ticket) }

    package func rejected(generation: Int, by demand: CredentialRequest) {
        guard generation != Self.bareGeneration else { return }
        known?.rejected(generation: generation, by: demand)
    }

    package func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {
        guard generation != Self.bareGeneration || event == .withheld else { return }
        known?.note(event, generation: generation, by: demand)
    }
}
