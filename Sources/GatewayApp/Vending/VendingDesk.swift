import Crypto
import GatewayEvents
import GatewayHTTP
import GatewayProxy
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
                        "This client may not get a token of \(credential); vend of the credential names the clients that may."
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

/// What a client is handed: a credential's token, one that is made from it, or that of the subject which it names.
private enum VendingOffer {
    case token(of: TokenKeeper, madeFrom: TokenKeeper)
    case subject(String, of: PerSubjectKeepers)

    /// Whether the client has to wait for the token. Makes no keeper.
    func waits(at now: MonotonicTime) -> Bool {
        switch self {
        case .token(let keeper, _): keeper.vendsLater(at: now)
        case .subject(let subject, let keepers):
            (try? keepers.member(subject).get())?.vendsLater(at: now) ?? true
        }
    }

    func handOut(for demand: CredentialRequest, within limit: Duration) async -> Result<VendedToken, GatewayProblem> {
        switch self {
        case .token(let keeper, let own): await Self.handOut(keeper, madeFrom: own, for: demand, within: limit)
        case .subject(let subject, let keepers):
            switch keepers.keeper(for: subject, by: .client(demand.client)) {
            case .success(let keeper): await keeper.vend(for: demand, within: limit)
            case .failure(let problem): .failure(problem)
            }
        }
    }

    private static func handOut(
        _ keeper: TokenKeeper,
        madeFrom own: TokenKeeper,
        for demand: CredentialRequest,
        within limit: Duration
    ) async -> Result<VendedToken, GatewayProblem> {
        // A weaker token that was made before lives on, and is not handed out any more.
        if let problem = own.lockedProblem { return .failure(problem) }
        let answer = await keeper.vend(for: demand, within: limit)
        // It may have been locked meanwhile.
        if let problem = own.lockedProblem { return .failure(problem) }
        return answer
    }
}

extension VendingOffer: Equatable {
    /// Whether both hand out the token of the same keeper.
    static func == (one: VendingOffer, other: VendingOffer) -> Bool {
        switch (one, other) {
        case (.token(let keeper, let own), .token(let otherKeeper, let otherOwn)):
            keeper === otherKeeper && own === otherOwn
        case (.subject(let subject, let keepers), .subject(let otherSubject, let otherKeepers)):
            subject == otherSubject && keepers === otherKeepers
        case (.token, .subject), (.subject, .token): false
        }
    }
}

extension CredentialSources {
    /// - Parameter subjects: The values of a field of the request.
    fileprivate func offer(
        _ vend: VendPlan,
        of credential: Int,
        naming subjects: (_ field: String) -> [String]
    ) -> Result<VendingOffer, GatewayProblem> {
        if let keepers = perSubjectKeepers[vend.credential] {
            return keepers.subject(named: subjects(keepers.naming.field ?? "")).map { .subject($0, of: keepers) }
        }
        guard let own = keeper(of: credential), let keeper = keeper(of: vend.credential) else {
            return .failure(GatewayProblem(.internalError, "There is no keeper for the token that is handed out."))
        }
        return .success(.token(of: keeper, madeFrom: own))
    }
}

/// How often one client is handed a token, each of which is a row of the audit log, and how many requests wait for one.
///
/// Only who waits takes a place, so that a slow authority does not keep away those whose tokens are at hand.
struct VendingLimits {
    static let maximumWaiting = 64
    /// How many requests of one client may wait.
    static let maximumWaitingOfOne = 16
    /// How many tokens one client gets at once. It regains one each second.
    static let burst = 60

    private struct Account {
        var spent: Double
        var updatedAt: MonotonicTime
    }

    /// How many requests of each client wait.
    private var waiting: [String: Int] = [:]
    /// What each client that asked in the last minute has spent.
    private var accounts: [String: Account] = [:]
    private let problem: GatewayProblem

    /// - Parameter problem: What a client over its limit is told.
    init(refusing problem: GatewayProblem = Self.tooManyTokens) { self.problem = problem }

    /// - Parameter waits: Takes a place until ``leave(_:)``.
    /// - Returns: Why not now; nil when the client has entered.
    mutating func enter(_ client: String, waits: Bool, at now: MonotonicTime) -> GatewayProblem? {
        guard !waits || hasPlace(for: client) else { return problem }
        accounts = accounts.compactMapValues { account in
            // Not in whole milliseconds: a client that asks several times within each would stop everybody's clock.
            let spent = account.spent - (now - account.updatedAt) / .seconds(1)
            return spent > 0 ? Account(spent: spent, updatedAt: now) : nil
        }
        let spent = accounts[client]?.spent ?? 0
        guard spent + 1 <= Double(Self.burst) else { return problem }
        accounts[client] = Account(spent: spent + 1, updatedAt: now)
        if waits { waiting[client, default: 0] += 1 }
        assert(spent >= 0 && spent + 1 <= Double(Self.burst), "A client was handed too many tokens.")
        checkInvariants()
        return nil
    }

    private func hasPlace(for client: String) -> Bool {
        waiting[client, default: 0] < Self.maximumWaitingOfOne && waiting.values.reduce(0, +) < Self.maximumWaiting
    }

    /// Gives back the place of a request that waited.
    mutating func leave(_ client: String) {
        guard let count = waiting[client] else { return }
        waiting[client] = count > 1 ? count - 1 : nil
        checkInvariants()
    }

    private func checkInvariants() {
        assert(
            waiting.values.allSatisfy { 1...Self.maximumWaitingOfOne ~= $0 },
            "Too many requests of one client wait."
        )
        assert(waiting.values.reduce(0, +) <= Self.maximumWaiting, "Too many requests wait.")
    }

    private static let tooManyTokens = GatewayProblem(
        .overloaded,
        "Too many token requests; keep using the token that was handed out until it expires.",
        retryAfter: .seconds(1)
    )
}
