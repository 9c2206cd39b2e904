import GatewayApp
import GatewayEvents
import GatewayHTTP
import GatewayTokenClient
import GatewayTokenStores
import GatewayTokens
import Logging

/// Fetches one token of each credential and keeps none: what `check --acquire` does.
///
/// Grants that rotate are left alone: a trial would spend the refresh token for an access token that is not kept.
struct AcquireTrial: Sendable {
    enum Result: Sendable {
        case obtained
        case failed(GatewayProblem)
        case notTried(String)
    }

    private let plan: Plan
    private let indices: Set<Int>
    private let locked: LockedCredentials
    /// By index into ``Plan/credentials``.
    private var keepers: [Int: TokenKeeper] = [:]

    /// - Parameter indices: Into ``Plan/credentials``; nil means all.
    init(_ plan: Plan, only indices: Set<Int>? = nil, endpoint: any TokenEndpoint, logger: Logger) {
        self.plan = plan
        locked = LockedCredentials(plan)
        self.indices = indices ?? Set(plan.credentials.indices)
        let endpoint = AssertionEndpoint(endpoint: endpoint)
        for index in self.indices { _ = makeKeeper(index, endpoint, logger) }
    }

    /// - Returns: By index into ``Plan/credentials``.
    func run() async -> [Int: Result] {
        await withTaskGroup(of: Void.self) { running in
            for keeper in keepers.values { running.addTask { try? await keeper.run() } }
            let outcomes = await withTaskGroup(of: (Int, Result).self) { trials in
                for index in indices { trials.addTask { (index, await self.result(index)) } }
                return await trials.reduce(into: [:]) { $0[$1.0] = $1.1 }
            }
            running.cancelAll()
            return outcomes
        }
    }

    private func result(_ index: Int) async -> Result {
        if let reason = obstacle(index) { return .notTried(reason) }
        switch await keepers[index]?.perform(.refresh) {
        case .success?: return .obtained
        case .failure(let problem)?: return .failed(problem)
        case nil: return .notTried("its parent is not tried")
        }
    }

    /// Why no token is fetched for it.
    private func obstacle(_ index: Int) -> String? {
        if locked.contains(plan.credentials[index].name) { return locked.unknown ?? "an operator has locked it" }
        return switch plan.credentials[index].strategy.behavior {
        case .none, .fixed, .onChallenge, .signed: "it is what the configuration says"
        case .tokens(let grants):
            switch grants.naming {
            case .field: "each request names whose token it needs"
            case .challenge: "the upstream says which token it wants"
            }
        case .token(let grant):
            if !grant.isRenewable {
                "nothing fetches it"
            } else if grant.rotatesRefreshToken {
                "it would spend the token that renews it"
            } else {
                nil
            }
        }
    }

    /// A parent may stand further down.
    private mutating func makeKeeper(_ index: Int, _ endpoint: any TokenEndpoint, _ logger: Logger) -> TokenKeeper? {
        if let known = keepers[index] { return known }
        let credential = plan.credentials[index]
        guard obstacle(index) == nil, case .token(let grant) = credential.strategy.behavior else { return nil }
        var parent: TokenKeeper?
        var lockedParent: String?
        if let index = credential.parent {
            let base = plan.credentials[index]
            if case .signed = base.strategy.behavior {
                if locked.contains(base.name) { lockedParent = base.name }
            } else {
                parent = makeKeeper(index, endpoint, logger)
                if parent == nil { return nil }
            }
        }
        let keeper = TokenKeeper(
            KeeperContext(
                name: credential.name,
                strategyKind: credential.strategyKind,
                grant: grant,
                policy: RenewalPolicy(),
                key: CredentialKey(digest: String(index)),
                store: MemoryTokenStore(),
                endpoint: credential.proxied(endpoint) { [locked] in locked.contains($0) },
                programs: SystemProgramRunner(),
                audit: NoAuditLog(),
                onAuditFailure: .block,
                clock: SystemClock(),
                logger: logger,
                parent: parent,
                parentProblem: { [lockedParent] in lockedParent.map { .locked($0) } }
            )
        )
        keeper.runOffline()
        parent?.adopt(keeper)
        keepers[index] = keeper
        return keeper
    }
}
