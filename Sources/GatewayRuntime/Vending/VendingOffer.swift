import GatewayCore
import GatewayTokens

/// What a client is handed: a credential's token, one that is made from it, or that of the subject which it names.
enum VendingOffer {
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
    func offer(
        _ vend: VendPlan,
        of credential: Int,
        naming subjects: (_ field: String) -> [String]
    ) -> Result<VendingOffer, GatewayProblem> {
        if let keepers = perSubjectKeepers[vend.credential] {
            return keepers.subject(named: subjects(keepers.naming.field ?? "")).map { .subject($0, of: keepers) }
        }
        guard let own = keeper(of: credential), let keeper = keeper(of: vend.credential) else {
            return .failure(GatewayProblem(.internalError, "There is no keeper for what is handed out."))
        }
        return .success(.token(of: keeper, madeFrom: own))
    }
}
