import GatewayEvents
package import GatewayHTTP
import Synchronization

/// The credentials of one route whose upstream says in a challenge which token it wants: one source for all requests that need
/// the same token.
///
/// Belongs to one route: a challenge of another upstream means nothing here.
package final class ChallengeTokenCredentials: SubjectCredentialResolver {
    /// For each client. At this limit all entries of that client are discarded: the next request of each gets a challenge again.
    static let maximumSources = 128

    private let tokens: any SubjectCredentialResolver
    private let rule: any ChallengeRule
    /// By client, then by ``ChallengeRule/requestKey(method:path:)``.
    private let sources = Mutex<[String?: [String: ChallengeTokenSource]]>([:])

    /// - Parameters:
    ///   - tokens: Has the tokens by their key.
    ///   - rule: Says which token a challenge asks for.
    package init(_ tokens: any SubjectCredentialResolver, _ rule: any ChallengeRule) {
        self.tokens = tokens
        self.rule = rule
    }

    package var name: String { tokens.name }
    package var strategy: String { tokens.strategy }
    package var grantKey: CredentialKey { tokens.grantKey }
    package var naming: TokenNaming { .challenge(rule) }
    package var lockedProblem: GatewayProblem? { tokens.lockedProblem }

    package func source(for request: String, client: String?) -> Result<any CredentialSource, GatewayProblem> {
        if let problem = lockedProblem { return .failure(problem) }
        return sources.withLock { sources in
            if let known = sources[client]?[request] { return .success(known) }
            if sources[client, default: [:]].count >= Self.maximumSources { sources[client] = [:] }
            let new = ChallengeTokenSource(tokens, rule, client: client)
            sources[client, default: [:]][request] = new
            return .success(new)
        }
    }

    package func look(for request: String, client: String?) -> Result<(any CredentialSource)?, GatewayProblem> {
        if let problem = lockedProblem { return .failure(problem) }
        return .success(sources.withLock { $0[client]?[request] })
    }
}

/// Sends requests without a token until the upstream asks for one. From then on each request has that token.
final class ChallengeTokenSource: ChallengeAnswering {
    private static let bareGeneration = 0

    private let tokens: any SubjectCredentialResolver
    private let rule: any ChallengeRule
    private let client: String?
    private let bare: Credential
    /// The key of the token that the upstream asked for last; nil before it has asked.
    private let tokenKey = Mutex<String?>(nil)

    init(_ tokens: any SubjectCredentialResolver, _ rule: any ChallengeRule, client: String?) {
        self.tokens = tokens
        self.rule = rule
        self.client = client
        bare = Credential(name: tokens.name, generation: Self.bareGeneration, injection: Injection())
    }

    var name: String { tokens.name }
    var strategy: String { tokens.strategy }
    var grantKey: CredentialKey? { known?.grantKey ?? tokens.grantKey }
    /// Also before the upstream has asked: a body is held, because the response may be the challenge.
    var isRenewable: Bool { true }
    var rejections: RejectionRecord? { known?.rejections }
    var timesWithdrawn: Int { known?.timesWithdrawn ?? 0 }

    /// Looked up each time: one that was not used for long may have been removed.
    private var source: Result<any CredentialSource, GatewayProblem>? {
        tokenKey.withLock { $0 }.map { tokens.source(for: $0, client: client) }
    }

    /// The source of the token, if there is one now.
    private var known: (any CredentialSource)? {
        guard let key = tokenKey.withLock({ $0 }), case .success(let source?) = tokens.look(for: key, client: client)
        else {
            return nil
        }
        return source
    }

    func answer(_ challenges: [AuthChallenge], to generation: Int) -> ChallengeAnswer {
        guard let key = rule.tokenKey(answering: challenges) else { return .unanswered }
        let isNew = tokenKey.withLock { current in
            let isNew = current != key
            current = key
            return isNew
        }
        if isNew { bare.withdraw() }
        return isNew || generation == Self.bareGeneration ? .answered : .rejected
    }

    func current(at now: MonotonicTime) -> CredentialAnswer {
        switch source {
        case nil: .ready(bare)
        case .success(let source)?: source.current(at: now)
        case .failure(let problem)?: .unavailable(problem)
        }
    }

    func outlook(at now: MonotonicTime) -> CredentialAnswer {
        if let problem = tokens.lockedProblem { return .unavailable(problem) }
        guard tokenKey.withLock({ $0 != nil }) else { return .ready(bare) }
        return known?.outlook(at: now) ?? .wait
    }

    func wait(
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
    func cancel(_ ticket: CredentialTicket) { known?.cancel(ticket) }

    func rejected(generation: Int, by demand: CredentialRequest) {
        guard generation != Self.bareGeneration else { return }
        known?.rejected(generation: generation, by: demand)
    }

    func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {
        guard generation != Self.bareGeneration || event == .withheld else { return }
        known?.note(event, generation: generation, by: demand)
    }
}
