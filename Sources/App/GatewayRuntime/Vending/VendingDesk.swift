import Crypto
import GatewayCore
import GatewayTokenKeeper
import Synchronization

/// Hands tokens out to clients, as `vend` of their credentials says in the plan that is served at the moment.
final class VendingDesk: VendingControl {
    private let live: LivePlan
    private let observer: TrafficObserver
    private let clock: any GatewayClock
    private let limits = Mutex(VendingLimits())

    init(live: LivePlan, observer: TrafficObserver, clock: any GatewayClock) {
        self.live = live
        self.observer = observer
        self.clock = clock
    }

    func vend(
        _ credential: String,
        presenting tokens: [[UInt8]],
        naming subjects: @Sendable (_ field: String) -> [String]
    ) async -> Result<VendedToken, GatewayProblem> {
        let requestID = TokenKeeper.randomNonce()
        let state = live.state
        let (plan, sources) = (state.plan, state.sources)
        let clients = ClientAuthenticator(plan.access.clients) { Array(SHA256.hash(data: $0)) }
        let evidence = clients.evidence(of: tokens)
        guard let client = evidence.client else {
            observer.denied(nil, requestID: requestID, reason: .clientAuthRequired)
            return .failure(evidence.refusal())
        }
        // An unknown name and one that is not for handing out are the same to a client.
        guard let index = plan.credentials.firstIndex(where: { $0.name == credential }),
            let vend = plan.credentials[index].vend
        else {
            let detail = "No token is handed out under this name; a credential is whose vend names clients."
            return .failure(GatewayProblem(.noRoute, detail))
        }
        let demand = CredentialRequest(route: "tokens/\(credential)", client: client, requestID: requestID)
        guard vend.clients.contains(client) else {
            observer.denied(demand, requestID: requestID, reason: .routeForbidden)
            let detail = "This client is handed no token of \(credential); vend of the credential names those that are."
            return .failure(GatewayProblem(.routeForbidden, detail))
        }
        let offer: VendingOffer
        switch sources.offer(vend, of: index, naming: subjects) {
        case .success(let found): offer = found
        case .failure(let problem):
            if problem.kind.isDenial { observer.denied(demand, requestID: requestID, reason: problem.kind) }
            return .failure(problem)
        }
        let now = clock.now().monotonic
        let waits = offer.waits(at: now)
        if let problem = limits.withLock({ $0.enter(client, waits: waits, at: now) }) { return .failure(problem) }
        defer { if waits { limits.withLock { $0.leave(client) } } }
        return await offer.handOut(for: demand, within: plan.limits.credentialTimeout)
    }
}
