import GatewayCore
import GatewayTokenKeeper

/// What operators see and do, put together from the plan and the keepers. Made anew for each question, so that one
/// answer speaks of one plan.
struct OperatorControl: GatewayControl {
    private let plan: Plan
    private let sources: CredentialSources
    /// Why the configuration on disk is not the one that is served.
    private let refusal: String?
    private let reloader: Reloader?
    private let readinessState: ReadinessState
    private let storage: Storage
    private let clock: any GatewayClock

    init(
        _ live: LivePlan.State,
        reloader: Reloader?,
        readiness: ReadinessState,
        storage: Storage,
        clock: any GatewayClock
    ) {
        self.storage = storage
        self.clock = clock
        plan = live.plan
        sources = live.sources
        refusal = live.refusal
        self.reloader = reloader
        readinessState = readiness
    }

    func tokens() async -> [TokenStatus] { sources.keepers.map { $0.status(at: clock.now()) } }

    func routes() async -> [RouteStatus] {
        plan.routes.map { route in
            let credential = route.credential.map { plan.credentials[$0] }
            return RouteStatus(
                name: route.name,
                upstream: route.upstream.description + route.upstreamPath,
                path: route.matchPath,
                hosts: route.matchHosts,
                credential: credential?.name,
                strategy: credential?.strategyKind ?? "none",
                needs: route.credential.flatMap(need)
            )
        }
    }

    func readiness() async -> Readiness {
        let needs = sources.keepers.map { $0.status(at: clock.now()) }.filter(\.needsPerson).map { status in
            "\(status.credential): \(status.lastError ?? status.action ?? status.state.rawValue)"
        }
        let rotating = sources.keepers.filter(\.rotates).map(\.name)
        let troubles = await storage.troubles(plan, rotating: rotating)
        let notes = [refusal].compactMap(\.self) + troubles.reasons + needs
        switch readinessState.phase {
        case .starting: return Readiness(isReady: false, reasons: ["the gateway is starting"] + notes)
        case .serving: return Readiness(isReady: !troubles.blocks, reasons: notes)
        case .draining: return Readiness(isReady: false, reasons: ["the gateway is stopping"] + notes)
        }
    }

    func refresh(_ credential: String) async -> Result<TokenStatus, GatewayProblem> {
        guard let keeper = keeper(named: credential) else { return .failure(unknown(credential)) }
        return await keeper.refresh()
    }

    func clear(_ credential: String) async -> Result<TokenStatus, GatewayProblem> {
        guard let keeper = keeper(named: credential) else { return .failure(unknown(credential)) }
        return await keeper.clear()
    }

    func reload() async -> ReloadReport {
        guard let reloader else {
            let problem = "this gateway was started without a configuration file\n"
            return ReloadReport(cause: .operator, outcome: .failed, problems: problem)
        }
        return await reloader.reload(.operator)
    }

    func servedPlan() async -> ServedPlan? { reloader?.servedPlan() }

    /// For logins: who keeps the token, or why nobody does.
    func keeper(of credential: String) -> Result<TokenKeeper, GatewayProblem> {
        keeper(named: credential).map { .success($0) } ?? .failure(unknown(credential))
    }

    private func keeper(named name: String) -> TokenKeeper? {
        guard let index = plan.credentials.firstIndex(where: { $0.name == name }) else { return nil }
        return sources.keeperIndices[index].map { sources.keepers[$0] }
    }

    private func unknown(_ name: String) -> GatewayProblem {
        if plan.credentials.contains(where: { $0.name == name }) {
            return GatewayProblem(.noRoute, "The credential \(name) is static: it has no token to renew or clear.")
        }
        let names = plan.credentials.indices.filter { sources.keeperIndices[$0] != nil }.map {
            plan.credentials[$0].name
        }
        let known =
            names.isEmpty ? "no credential has a token" : "those with a token are \(names.joined(separator: ", "))"
        return GatewayProblem(.noRoute, "There is no credential \(LogText.clean(name)); \(known).")
    }

    private func need(_ credential: Int) -> String? {
        guard let index = sources.keeperIndices[credential] else { return nil }
        let status = sources.keepers[index].status(at: clock.now())
        return status.needsPerson ? status.action ?? status.lastError ?? status.state.rawValue : nil
    }
}
