import GatewayCore
import GatewayStrategies
import GatewayTokenKeeper

/// What operators see and do, put together from the plan and the keepers. Made anew for each question, so that one
/// answer speaks of one plan.
struct OperatorControl: GatewayControl {
    /// What is served by now, for what takes longer than a reload.
    private let live: LivePlan
    private let plan: Plan
    private let sources: CredentialSources
    private let planEndings: PlanExpirations
    /// Why the configuration on disk is not the one that is served.
    private let refusal: String?
    private let reloader: Reloader?
    private let locks: CredentialLocks
    private let readinessState: ReadinessState
    private let storage: Storage
    private let clock: any GatewayClock
    /// No gateway runs: the keepers do not, and the store is all there is to see.
    private let isOffline: Bool
    /// Ends what is under way with credentials of these sources; returns the numbers of the workers that did not answer in time.
    private let withdraw: @Sendable ([any CredentialSource]) async -> [Int]

    /// - Parameter isOffline: Whether the keepers do not run.
    init(
        _ live: LivePlan,
        reloader: Reloader?,
        readiness: ReadinessState,
        storage: Storage,
        clock: any GatewayClock,
        isOffline: Bool = false,
        withdraw: @escaping @Sendable ([any CredentialSource]) async -> [Int] = { _ in [] }
    ) {
        self.withdraw = withdraw
        self.storage = storage
        self.clock = clock
        self.isOffline = isOffline
        locks = storage.locks
        self.live = live
        let state = live.state
        plan = state.plan
        sources = state.sources
        planEndings = state.endings
        refusal = state.refusal
        self.reloader = reloader
        readinessState = readiness
    }

    func tokens() async -> [TokenStatus] {
        var statuses: [TokenStatus] = []
        for keeper in sources.allKeepers { statuses.append(await status(of: keeper)) }
        return statuses
    }

    /// Without a gateway the store is looked into; beside it nobody gets a keeper, or loses one, because somebody asks.
    func token(_ name: String) async -> Result<TokenStatus, GatewayProblem> {
        if !isOffline, let (family, subject) = member(named: name) {
            return family.member(subject).map { keeper in
                keeper?.status(at: clock.now()) ?? statusWithoutKeeper(of: subject, in: family, name)
            }
        }
        switch keeper(of: name) {
        case .success(let keeper): return .success(await status(of: keeper))
        case .failure(let problem): return .failure(problem)
        }
    }

    private func status(of keeper: TokenKeeper) async -> TokenStatus {
        if isOffline { await keeper.look() }
        return keeper.status(at: clock.now())
    }

    func endings() async -> [Expiration] {
        let now = clock.now()
        return (sources.keepers.flatMap { $0.endings(at: now) } + planEndings.endings(at: now.wall)).sorted {
            ($0.remainingSeconds, $0.of) < ($1.remainingSeconds, $1.of)
        }
    }

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
        let needs = needs()
        let said = Set(sources.keepers.filter { $0.status(at: clock.now()).needsPerson }.map(\.name))
        let ending = await endings().filter { $0.kind == .secret || !said.contains($0.of) }.compactMap(Self.notice)
        let rotating = sources.keepers.filter(\.rotatesRefreshToken).map(\.name)
        let troubles = await storage.troubles(plan, rotating: rotating)
        let notes = [refusal].compactMap(\.self) + troubles.reasons + needs + ending
        switch readinessState.phase {
        case .starting: return Readiness(isReady: false, reasons: ["the gateway is starting"] + notes)
        case .serving: return Readiness(isReady: !troubles.blocks, reasons: notes)
        case .draining: return Readiness(isReady: false, reasons: ["the gateway is stopping"] + notes)
        }
    }

    /// nil when there is time.
    private static func notice(of ending: Expiration) -> String? {
        guard ending.isSoon else { return nil }
        let remaining = ending.remainingSeconds
        let when = remaining > 0 ? "ends in \(ConfigUnits.countdown(remaining))" : "has ended"
        return "\(ending.of): its \(ending.kind.rawValue) \(when) (\(ending.endsAt)): \(ending.action)"
    }

    /// Answers once nothing is under way any more with what the operation took away.
    func perform(_ operation: TokenOperation, on name: String) async -> Result<OperationReport, GatewayProblem> {
        let before = sources.allKeepers.map { ($0, $0.timesWithdrawn) }
        let result = await carryOut(operation, on: name)
        let withdrawn = before.filter { keeper, times in keeper.timesWithdrawn != times }.map(\.0)
        let silent = await withdraw(withdrawn)
        guard !silent.isEmpty else { return result }
        let workers = silent.map(String.init).joined(separator: ", ")
        return result.map { report in
            var report = report
            report.message +=
                " Worker \(workers) has not confirmed within a second that it has ended all use of the token."
            return report
        }
    }

    private func carryOut(_ operation: TokenOperation, on name: String) async -> Result<OperationReport, GatewayProblem>
    {
        do throws(GatewayProblem) {
            let keeper = try keeper(of: name).get()
            switch operation {
            case .lock: return await lock(name, keeper)
            case .unlock: return await unlock(name, keeper)
            case .refresh, .revoke, .clear, .import: return await carryOut(operation, keeper)
            }
        } catch {
            return .failure(error)
        }
    }

    private func carryOut(
        _ operation: TokenOperation,
        _ keeper: TokenKeeper
    ) async -> Result<OperationReport, GatewayProblem> {
        isOffline ? await keeper.performAlone(operation) : await keeper.perform(operation)
    }

    private func lock(_ name: String, _ keeper: TokenKeeper) async -> Result<OperationReport, GatewayProblem> {
        do throws(StateError) {
            try locks.lock(name)
        } catch {
            _ = await carryOut(.lock, keeper)
            let detail =
                "\(error.description). \(name) is locked, but only until the gateway stops or a reload changes it."
            return .failure(GatewayProblem(.internalError, detail))
        }
        return await carryOut(.lock, keeper, of: name) { locks.contains(name) }
    }

    private func unlock(_ name: String, _ keeper: TokenKeeper) async -> Result<OperationReport, GatewayProblem> {
        do throws(StateError) {
            try locks.unlock(namesSharing(keeper))
        } catch {
            return .failure(GatewayProblem(.internalError, "\(error.description)."))
        }
        return await carryOut(.unlock, keeper, of: name) { !locks.contains(name) }
    }

    /// Carries out what is stored already, by the keeper that serves by now: whichever is made later begins as is stored.
    /// When that one makes room for another before the order has its turn, the other one does it and says so.
    ///
    /// - Parameter stands: Whether nobody has ordered the opposite meanwhile.
    private func carryOut(
        _ operation: TokenOperation,
        _ keeper: TokenKeeper,
        of name: String,
        while stands: () -> Bool
    ) async -> Result<OperationReport, GatewayProblem> {
        var keeper = successor(of: keeper, name)
        for _ in 1..<Self.maximumSuccessors {
            let result = await carryOut(operation, keeper)
            guard case .failure(let problem) = result, problem.kind == .draining, stands() else { return result }
            let next = successor(of: keeper, name)
            guard next !== keeper else { return result }
            keeper = next
        }
        return await carryOut(operation, keeper)
    }

    /// Keepers that one order is tried with; each of them was retired while the order waited.
    private static let maximumSuccessors = 4

    private func successor(of keeper: TokenKeeper, _ name: String) -> TokenKeeper {
        let now = Self(
            live,
            reloader: reloader,
            readiness: readinessState,
            storage: storage,
            clock: clock,
            isOffline: isOffline,
            withdraw: withdraw
        )
        return (try? now.keeper(of: name).get()) ?? keeper
    }

    func reveal(_ name: String) async -> Result<RevealedToken, GatewayProblem> {
        switch keeper(of: name) {
        case .success(let keeper): return await keeper.reveal()
        case .failure(let problem): return .failure(problem)
        }
    }

    func downscope(_ name: String, _ terms: DownscopeTerms) async -> Result<RevealedToken, GatewayProblem> {
        do throws(GatewayProblem) {
            let keeper = try keeper(of: name).get()
            let grant = try terms.grant(of: keeper.grant, catalog: .builtIn, secrets: SystemSecretSource())
            return await keeper.downscope(by: grant, terms)
        } catch {
            return .failure(error)
        }
    }

    func reload() async -> ReloadReport {
        guard let reloader else {
            let problem = "this gateway was started without a configuration file\n"
            return ReloadReport(cause: .operator, outcome: .failed, problems: problem)
        }
        return await reloader.reload(.operator)
    }

    func rotateKey() async -> Result<KeyRotationReport, GatewayProblem> {
        guard let rotation = storage.keyRotation else { return .failure(KeyRotation.noStore) }
        return await rotation.rotate()
    }

    func servedPlan() async -> ServedPlan? { reloader?.servedPlan() }

    /// For logins: who keeps the token, or why nobody does.
    func keeper(of credential: String) -> Result<TokenKeeper, GatewayProblem> {
        if let index = plan.credentials.firstIndex(where: { $0.name == credential }) {
            return sources.keeper(of: index).map { .success($0) } ?? .failure(withoutToken(credential, index))
        }
        guard let (family, subject) = member(named: credential) else { return .failure(unknown(credential)) }
        return family.keeper(for: subject)
    }

    /// Reads `app-user[42]`, whether or not a request has named that subject yet.
    private func member(named name: String) -> (PerSubjectKeepers, subject: String)? {
        guard let open = name.firstIndex(of: "["), name.last == "]" else { return nil }
        guard let family = sources.families.values.first(where: { $0.name == name[..<open] }) else { return nil }
        return (family, String(name[name.index(after: open)...].dropLast()))
    }

    /// Nobody has asked for this one's token lately; what there is of it is in the store.
    private func statusWithoutKeeper(of subject: String, in family: PerSubjectKeepers, _ name: String) -> TokenStatus {
        let isLocked = locks.contains(name)
        var status = TokenStatus(
            credential: name,
            strategy: family.strategy,
            subject: subject,
            state: isLocked ? .locked : .empty,
            generation: 0,
            isRenewable: family.isRenewable,
            action: isLocked ? "authgateway token unlock \(name)" : nil
        )
        status.family = family.name
        return status
    }

    private func namesSharing(_ keeper: TokenKeeper) -> [String] {
        if sources.families.values.contains(where: { $0.name == keeper.family }) { return [keeper.name] }
        return plan.credentials.indices.filter { index in
            sources.keeper(of: index) === keeper
        }.map { plan.credentials[$0].name }
    }

    /// Why a credential that there is has no token of its own.
    private func withoutToken(_ name: String, _ index: Int) -> GatewayProblem {
        guard let family = sources.families[index] else {
            let detail =
                "The credential \(name) is static: it is what the configuration says, and has no token of its own."
            return GatewayProblem(.noRoute, detail)
        }
        let detail = "The credential \(name) has a token for each subject that \(family.field) names: \(name)[SUBJECT]."
        return GatewayProblem(.noRoute, detail)
    }

    private func unknown(_ name: String) -> GatewayProblem {
        let names = plan.credentials.indices.filter { sources.keeper(of: $0) != nil }.map {
            plan.credentials[$0].name
        }
        let known =
            names.isEmpty ? "no credential has a token" : "those with a token are \(names.joined(separator: ", "))"
        let hint = Suggestion.hint(for: name, in: names)
        return GatewayProblem(
            .noRoute,
            "There is no credential \(LogText.clean(name))\(hint.isEmpty ? "; \(known)." : hint)"
        )
    }

    /// What people have to do, and what could not be obtained when it should have been.
    ///
    /// Of the subjects that requests have named, the first stands for all of one credential.
    private func needs() -> [String] {
        var counts: [String: Int] = [:]
        var needs: [(family: String?, text: String)] = []
        for keeper in sources.allKeepers {
            let status = keeper.status(at: clock.now())
            guard status.needsPerson || (keeper.acquiresAtStart && status.isWithoutToken) else { continue }
            if let family = status.family {
                counts[family, default: 0] += 1
                if counts[family, default: 0] > 1 { continue }
            }
            let text = "\(status.credential): \(status.lastError ?? status.action ?? status.state.rawValue)"
            needs.append((status.family, text))
        }
        return needs.map { need in
            let others = need.family.flatMap { counts[$0] }.map { $0 - 1 } ?? 0
            return others > 0 ? "\(need.text) (and \(others) more subjects)" : need.text
        }
    }

    private func need(_ credential: Int) -> String? {
        guard let keeper = sources.keeper(of: credential) else { return nil }
        let status = keeper.status(at: clock.now())
        return status.needsPerson ? status.action ?? status.lastError ?? status.state.rawValue : nil
    }
}
