import Crypto
import GatewayCore
import GatewayTokens
import Synchronization

/// Hands tokens out to clients, as `vend` of their credentials says in the plan that is served at the moment.
final class VendingDesk: VendingControl {
    private let live: LivePlan
    private let observer: TrafficObserver
    private let tokenUses: ClientTokenUses
    private let jwts: ClientJWTParts
    private let clock: any GatewayClock
    private let limits = Mutex(VendingLimits())

    init(
        live: LivePlan,
        observer: TrafficObserver,
        tokenUses: ClientTokenUses,
        jwts: ClientJWTParts,
        clock: any GatewayClock
    ) {
        self.live = live
        self.observer = observer
        self.tokenUses = tokenUses
        self.jwts = jwts
        self.clock = clock
    }

    func vend(
        _ credential: String,
        presenting tokens: [[UInt8]],
        naming subjects: @Sendable (_ field: String) -> [String]
    ) async -> Result<VendedToken, GatewayProblem> {
        let requestID = TokenKeeper.randomNonce()
        let now = clock.now().monotonic
        let admitted: Admitted
        switch admit(credential, presenting: tokens, naming: subjects, requestID) {
        case .success(let found): admitted = found
        case .failure(let problem): return .failure(problem)
        }
        let waits = admitted.offer.waits(at: now)
        if let problem = limits.withLock({ $0.enter(admitted.client, waits: waits, at: now) }) {
            return .failure(problem)
        }
        defer { if waits { limits.withLock { $0.leave(admitted.client) } } }
        let request = CredentialRequest(route: "tokens/\(credential)", client: admitted.client, requestID: requestID)
        let answer = await admitted.offer.handOut(for: request, within: admitted.limit)
        guard case .success = answer else { return answer }
        // A reload may have come while the client waited.
        switch admit(credential, presenting: tokens, naming: subjects, requestID) {
        case .failure(let problem): return .failure(problem)
        case .success(let present):
            guard present.client == admitted.client, present.offer == admitted.offer else {
                let detail = "\(credential) was replaced while the request waited; send it again."
                return .failure(GatewayProblem(.draining, detail, retryAfter: .seconds(1)))
            }
            return answer
        }
    }

    /// A client that may have a token by the configuration of the moment.
    private struct Admitted {
        let client: String
        let offer: VendingOffer
        /// How long the client may wait.
        let limit: Duration
    }

    private func admit(
        _ credential: String,
        presenting tokens: [[UInt8]],
        naming subjects: (_ field: String) -> [String],
        _ requestID: String
    ) -> Result<Admitted, GatewayProblem> {
        let state = live.state
        let plan = state.plan
        let clients = ClientAuthenticator(plan.access.clients, uses: tokenUses, jwts: jwts) {
            Array(SHA256.hash(data: $0))
        }
        let evidence = clients.evidence(of: tokens)
        guard let client = evidence.client else {
            let request = CredentialRequest(route: "tokens", client: nil, requestID: requestID)
            observer.denied(request, reason: .clientAuthRequired)
            return .failure(evidence.refusal())
        }
        // An unknown name and one that is not for handing out are the same to a client.
        guard let index = plan.credentials.firstIndex(where: { $0.name == credential }),
            let vend = plan.credentials[index].vend
        else {
            let detail = "No token is handed out under this name; only credentials with vend hand out tokens."
            return .failure(GatewayProblem(.noRoute, detail))
        }
        let offer: Result<VendingOffer, GatewayProblem> =
            if vend.clients.contains(client) {
                state.sources.offer(vend, of: index, naming: subjects)
            } else {
                .failure(
                    GatewayProblem(
                        .routeForbidden,
                        "This client is handed no token of \(credential); vend of the credential names those that are."
                    )
                )
            }
        if case .failure(let problem) = offer, problem.kind.isDenial {
            let request = CredentialRequest(route: "tokens/\(credential)", client: client, requestID: requestID)
            observer.denied(request, reason: problem.kind)
        }
        return offer.map { Admitted(client: client, offer: $0, limit: plan.limits.credentialTimeout) }
    }
}
