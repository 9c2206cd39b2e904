package import GatewayAudit
package import GatewayEvents
import GatewayFiles
package import GatewayHTTP
import GatewayLocalAuthority
import GatewayProxy
import GatewayStrategies
package import GatewayTokens

/// What operators see and do, put together from the plan and the keepers. Made anew for each question, so that one
/// answer speaks of one plan.
package struct OperatorControl: OperationRunner {
    /// What a running gateway has observed of itself and others.
    package struct Observations: Sendable {
        /// How upstreams have answered, by the name of the route.
        var upstreamHealth: @Sendable () -> [String: UpstreamHealth] = { [:] }
        /// See ``AuthorityClocks/skewSeconds(of:)``.
        var clockSkew: @Sendable ([AuthorityEndpoint]) -> Int? = { _ in nil }
        /// The traffic of the routes with these names.
        var traffic: @Sendable ([String], Moment) -> [TrafficStatus] = { names, _ in
            names.map { TrafficStatus(route: $0) }
        }
        /// The traffic of clients, and latencies.
        var trafficHour: @Sendable (Moment) -> TrafficHour = { TrafficHour(at: $0.wall) }
        /// Writes what was counted to the audit log. false if some of it could not be written.
        var writeUses: @Sendable () async -> Bool = { true }
        /// Shared by all who ask; nil where no gateway runs.
        var questions: AuditQuestions?
        /// Shared by all who ask.
        var fleetReports = FleetReports()
        /// When operators locked the credential with this name; nil when that is not known.
        var lockedAt: @Sendable (String) -> UnixTime? = { _ in nil }
        /// nil where no gateway runs.
        var startedAt: UnixTime?
        /// Where clients find the gateway.
        var listeners: @Sendable () -> [BoundListener] = { [] }
        /// Makes the token of a program (``RunTokens``); nil where no gateway runs.
        var beginRun: (@Sendable (Secret?, [AccessPlan.Client], RunTokens.Program) -> Result<Secret, GatewayProblem>)?
        /// The requests that wait for an approval, oldest first.
        var heldRequests: @Sendable () -> [HeldRequest] = { [] }
        /// Approves the request with this ID in the name of this user, or denies it without one; nil if it does not wait.
        var decide: @Sendable (_ id: String, _ approver: String?) -> HeldRequest? = { _, _ in nil }
        /// How these clients use their tokens.
        var clientTokens: @Sendable ([AccessPlan.Client], UnixTime) -> [ClientTokenStatus] = { _, _ in [] }
    }

    private let plan: Plan
    private let sources: CredentialSources
    private let keepers: KeeperLookup
    private let operations: TokenOperations
    private let planExpirations: PlanExpirations
    /// Why the configuration on disk is not the one that is served.
    private let refusal: String?
    private let reloader: Reloader?
    private let locks: CredentialLocks
    private let readinessState: ReadinessState
    private let storage: Storage
    private let clock: any GatewayClock
    private let loadedAt: UnixTime
    private let fingerprint: PlanFingerprint
    private let seen: Observations
    private let questions: AuditQuestions
    /// No gateway runs: the keepers do not, and the store is all there is to see.
    private let isOffline: Bool

    /// - Parameters:
    ///   - isOffline: Whether the keepers do not run.
    ///   - withdraw: See ``TokenOperations/withdraw``.
    package init(
        _ live: LivePlan,
        reloader: Reloader?,
        readiness: ReadinessState,
        storage: Storage,
        clock: any GatewayClock,
        isOffline: Bool = false,
        seen: Observations = Observations(),
        withdraw: @escaping @Sendable ([any CredentialSource]) async -> [Int] = { _ in [] }
    ) {
        self.storage = storage
        self.clock = clock
        self.isOffline = isOffline
        self.seen = seen
        locks = storage.locks
        let state = live.state
        plan = state.plan
        questions = seen.questions ?? AuditQuestions(path: state.plan.audit.path)
        loadedAt = state.loadedAt
        fingerprint = state.fingerprint
        sources = state.sources
        keepers = KeeperLookup(plan: state.plan, sources: state.sources)
        operations = TokenOperations(
            live: live,
            keepers: keepers,
            locks: storage.locks,
            captures: storage.captures,
            audit: storage.recorder,
            onAuditFailure: state.plan.audit.onFailure,
            clock: clock,
            isOffline: isOffline,
            withdraw: withdraw
        )
        planExpirations = state.expirations
        refusal = state.refusal
        self.reloader = reloader
        readinessState = readiness
    }

    package func run<Input: Sendable, Answer: Sendable>(
        _ operation: String,
        on name: String,
        with input: Input,
        _ function: @Sendable (OperatorControl, String, Input) async -> Result<Answer, GatewayProblem>
    ) async -> Result<Answer, GatewayProblem> {
        await function(self, name, input)
    }

    package func tokens() async -> [TokenStatus] {
        var statuses: [TokenStatus] = []
        for keeper in sources.allKeepers { statuses.append(await status(of: keeper)) }
        return (lockedCredentials + statuses + fixedStatuses).map(timed)
    }

    /// Adds the time since when a locked credential has been locked.
    private func timed(_ status: TokenStatus) -> TokenStatus {
        guard status.state == .locked else { return status }
        var timed = status
        let name = status.credential
        timed.lockedAt = (seen.lockedAt(name) ?? status.perSubjectCredential.flatMap(seen.lockedAt))?.rfc3339
        return timed
    }

    /// Without a gateway the store has the answer. With one, a question neither makes nor removes a keeper.
    package func token(_ name: String) async -> Result<TokenStatus, GatewayProblem> {
        await untimedToken(name).map(timed)
    }

    private func untimedToken(_ name: String) async -> Result<TokenStatus, GatewayProblem> {
        if let locked = lockedCredentials.first(where: { $0.credential == name }) { return .success(locked) }
        if let fixed = sources.fixed(named: name) { return .success(fixed.status(at: clock.now())) }
        if !isOffline, let (members, subject) = keepers.member(named: name) {
            return members.member(subject).map { keeper in
                keeper.map(statusNow) ?? statusWithoutKeeper(of: subject, in: members, name)
            }
        }
        switch keepers.keeper(of: name) {
        case .success(let keeper): return .success(await status(of: keeper))
        case .failure(let problem): return .failure(problem)
        }
    }

    private func status(of keeper: TokenKeeper) async -> TokenStatus {
        if isOffline { await keeper.loadForDisplay() }
        return statusNow(of: keeper)
    }

    private func statusNow(of keeper: TokenKeeper) -> TokenStatus {
        var status = status(of: keeper, at: clock.now())
        status.clockSkewSeconds = seen.clockSkew(keeper.grant.authorityEndpoints)
        return status
    }

    private func status(of keeper: TokenKeeper, at now: Moment) -> TokenStatus {
        var status = keeper.status(at: now)
        // The lock of one token is removed by its name, that of all of them by the name of the credential.
        if let all = keeper.perSubjectCredential, locks.contains(all) { status.leadToUnlock(of: all) }
        return status
    }

    /// Credentials with a token for each subject that operators have locked as a whole.
    private var lockedCredentials: [TokenStatus] {
        sources.perSubjectKeepers.sorted { $0.key < $1.key }.map(\.value).filter { locks.contains($0.name) }
            .map { $0.status(isLocked: true) }
    }

    /// The names of the static credentials.
    var fixedNames: Set<String> { sources.fixedNames }

    private var fixedStatuses: [TokenStatus] {
        let now = clock.now()
        return sources.fixed.map { $0.status(at: now) }
    }

    /// No request has used this token lately. All that is known about it is in the store.
    private func statusWithoutKeeper(of subject: String, in keepers: PerSubjectKeepers, _ name: String) -> TokenStatus {
        let isWhollyLocked = locks.contains(keepers.name)
        let isLocked = isWhollyLocked || locks.contains(name)
        var status = TokenStatus(
            credential: name,
            strategy: keepers.strategy,
            subject: subject,
            state: isLocked ? .locked : .empty,
            generation: 0,
            isRenewable: keepers.isRenewable,
            action: isLocked ? GatewayCommand.line("token", "unlock", name) : nil
        )
        status.perSubjectCredential = keepers.name
        if isWhollyLocked { status.leadToUnlock(of: keepers.name) }
        return status
    }

    /// What ends at a known time and needs a person then, the nearest end first.
    package func expirations() async -> [Expiration] {
        let now = clock.now()
        let all = sources.keepers.flatMap { $0.expirations(at: now) } + planExpirations.expirations(at: now.wall)
        return all.sorted { ($0.remainingSeconds, $0.of) < ($1.remainingSeconds, $1.of) }
    }

    package func routes() async -> [RouteStatus] {
        let health = seen.upstreamHealth()
        return plan.routes.map { route in
            let credential = route.credential.map { plan.credentials[$0] }
            return RouteStatus(
                name: route.name,
                upstream: route.upstream.description + route.upstreamPath,
                path: route.matchPath,
                hosts: route.matchHosts,
                credential: credential?.name,
                strategy: credential?.strategyKind ?? "none",
                needs: route.credential.flatMap(need),
                health: health[route.name],
                authz: route.authz.isEmpty ? nil : route.authz
            )
        }
    }

    /// The traffic of each route, in the order of ``routes()``.
    package func traffic() async -> [TrafficStatus] {
        seen.traffic(plan.routes.map(\.name), clock.now())
    }

    /// What clients, upstreams and the gateway did in the last hour.
    package func trafficHour() async -> TrafficHour { seen.trafficHour(clock.now()) }

    package func overview() async -> GatewayOverview {
        let check = storage.chainCheck.result
        let held = seen.heldRequests().count
        return GatewayOverview(
            version: GatewayVersion.current,
            startedAt: (seen.startedAt ?? loadedAt).rfc3339,
            configurationDigest: fingerprint.text,
            configurationLoadedAt: loadedAt.rfc3339,
            auditChain: check.map { $0.breach == nil ? .intact : .broken } ?? .notVerified,
            auditVerifiedAt: check?.at.rfc3339,
            listeners: seen.listeners().map(\.boundText),
            requiresClientToken: plan.access.asksForClients,
            clients: plan.access.clients.map(\.name),
            clientTokens: seen.clientTokens(plan.access.clients, clock.now().wall),
            perSubjectCredentials: sources.perSubjectKeepers.keys.sorted().map { plan.credentials[$0].name },
            heldRequests: held == 0 ? nil : held,
            proxy: ProxyOffer(plan, bound: seen.listeners())
        )
    }

    /// The requests about which an operator has to decide, oldest first.
    package func heldRequests() async -> [HeldRequestStatus] {
        let now = clock.monotonic()
        return seen.heldRequests().map { HeldRequestStatus($0, at: now) }
    }

    /// Lets a request that is held be sent, once. Recorded first.
    ///
    /// - Parameter user: nil for the admin token, which programs of the gateway's user can read.
    package func approve(_ id: String, by user: String?) async -> Result<HeldRequestStatus, GatewayProblem> {
        guard let user, plan.admin.users.contains(where: { $0.proofs.name == user && $0.mayApprove }) else {
            let detail =
                "Only an operator whose token or certificate other programs cannot read can approve requests: a user of"
                + " listeners.admin.users with role operator and token_sha256 or certificate."
            return .failure(GatewayProblem(.routeForbidden, detail))
        }
        guard let held = seen.heldRequests().first(where: { $0.id == id }) else { return .failure(Self.notHeld(id)) }
        let event = TokenEvent(.requestApproved, held, by: user, at: clock.now().wall)
        if let error = await storage.recorder.refusal(recording: event, plan.audit.onFailure) {
            return .failure(
                GatewayProblem(.auditUnavailable, "The approval cannot be recorded: \(error.reason). Nothing was sent.")
            )
        }
        // It may have ended meanwhile.
        guard let approved = seen.decide(id, user) else { return .failure(Self.notHeld(id)) }
        return .success(HeldRequestStatus(approved, at: clock.monotonic()))
    }

    /// Refuses a request that is held, and records it as soon as possible.
    package func deny(_ id: String, by user: String?) async -> Result<HeldRequestStatus, GatewayProblem> {
        guard let denied = seen.decide(id, nil) else { return .failure(Self.notHeld(id)) }
        var event = TokenEvent(.requestDenied, denied, by: user, at: clock.now().wall)
        event.trigger = .operator
        _ = await storage.recorder.recordSoon(event)
        return .success(HeldRequestStatus(denied, at: clock.monotonic()))
    }

    private static func notHeld(_ id: String) -> GatewayProblem {
        let detail =
            "No request \(id.singleLine(limit: 64)) waits for approval: it was decided, has expired or has left."
        return GatewayProblem(.noRoute, detail, command: GatewayCommand.line("approve"))
    }

    /// Makes a token for a program that `exec` runs. It is valid as long as the program runs, and without a client token it proves no client.
    package func beginRun(_ order: RunOrder) async -> Result<RunToken, GatewayProblem> {
        guard order.process.isAlive else {
            return .failure(GatewayProblem(.requestRefused, "The gateway sees no such process."))
        }
        let program = RunTokens.Program(user: order.user) { order.process.isAlive }
        let result = seen.beginRun?(order.token, plan.access.clients, program)
        return result?.map { RunToken($0) } ?? .failure(GatewayProblem(.requestRefused, "No gateway runs."))
    }

    /// For a gateway that runs for one program.
    package func beginOnlyRun(as proof: Secret?) -> Secret? {
        try? seen.beginRun?(proof, plan.access.clients, RunTokens.Program { true }).get()
    }

    private func need(_ credential: Int) -> String? {
        let name = plan.credentials[credential].name
        let status =
            sources.keeper(of: credential)?.status(at: clock.now())
            ?? sources.fixed(named: name)?.status(at: clock.now())
            ?? lockedCredentials.first { $0.credential == name }
        guard let status else { return nil }
        return status.needsPerson ? status.action ?? status.lastError ?? status.state.rawValue : nil
    }

    package func readiness() async -> Readiness {
        var facts = Readiness.Facts(readinessState.phase)
        facts.refusal = refusal
        let rotating = sources.keepers.filter(\.rotatesRefreshToken).map(\.name)
        facts.storage = storage.health.troubles(plan.audit.onFailure, rotating: rotating)
        facts.anchor = storage.anchor?.reasons ?? []
        facts.tokens =
            lockedCredentials + sources.allKeepers.map { status(of: $0, at: clock.now()) } + fixedStatuses
        facts.expirations = await expirations()
        // The largest difference stands for all.
        let authorities = sources.allKeepers.flatMap(\.grant.authorityEndpoints)
        facts.clockAdvice = seen.clockSkew(authorities).flatMap(ClockSkew.advice)
        facts.unlisted = readinessState.unlisted
        return Readiness(facts)
    }

    /// Has a keeper do something with its token.
    ///
    /// - Parameter name: The name in the configuration; several names may share a token.
    package func perform(
        _ operation: TokenOperation,
        on name: String
    ) async -> Result<OperationReport, GatewayProblem> {
        let result = await operations.perform(operation, on: name)
        return operation.concernsOtherGateways ? await addingFleet(to: result) : result
    }

    package func lock(_ name: String) async -> Result<OperationReport, GatewayProblem> {
        let begun = clock.monotonic()
        return await addingFleet(to: await operations.lock(name), inHurrySince: begun)
    }

    package func unlock(_ name: String) async -> Result<OperationReport, GatewayProblem> {
        await addingFleet(to: await operations.unlock(name))
    }

    private func addingFleet(
        to result: Result<OperationReport, GatewayProblem>,
        inHurrySince begun: MonotonicTime? = nil
    ) async -> Result<OperationReport, GatewayProblem> {
        guard let inquiry else { return result }
        return await inquiry.addingWarning(result, inHurrySince: begun, from: storage.audit.chainName)
    }

    private var inquiry: FleetInquiry? { FleetInquiry(storage.tokens, clock: clock) }

    /// Who used a credential, from the log of this gateway. Reads the file, for at most some seconds.
    package func who(_ name: String, _ asked: AuditWhoQuestion) async -> Result<AuditWho, GatewayProblem> {
        let period: TypedPeriod
        do throws(UnusablePeriod) {
            period = try TypedPeriod(since: asked.since, until: asked.until, now: clock.now().wall, LocalTime.offset)
        } catch {
            return .failure(GatewayProblem(.requestRefused, "\(error.message)."))
        }
        let question = AuditWho.Question(credential: name, by: asked.by, since: period.since, until: period.until)
        let found = await questions.ask(by: asked.asker, afterWriting: seen.writeUses) { reader in
            do throws(AuditError) {
                return Result<AuditWho, AuditError>.success(try await reader.who(question, within: .seconds(4)))
            } catch {
                return .failure(error)
            }
        }
        guard let found else { return .failure(AuditQuestions.problem) }
        do throws(AuditError) {
            let answer = try found.get()
            guard answer.total == nil else { return .success(answer) }
            guard isKnown(name) else {
                let detail = "There is no credential \(name) in the configuration, and the audit log has no use of it."
                return .failure(GatewayProblem(.noRoute, detail))
            }
            guard let gap = answer.gap(countsUses: plan.audit.usage != .none) else { return .success(answer) }
            return .failure(GatewayProblem(.requestRefused, "The audit log cannot answer this: \(gap)."))
        } catch {
            guard error != .tookTooLong else {
                return .failure(
                    GatewayProblem(.requestRefused, "The question took too long; ask for a shorter period.")
                )
            }
            return .failure(GatewayProblem(.auditUnavailable, "The audit log cannot be read: \(error.reason)."))
        }
    }

    /// Writes the uses and requests that are counted in memory, so that a command finds them in the file.
    package func flushAudit() async -> AuditFlush { AuditFlush(isComplete: await seen.writeUses()) }

    private func isKnown(_ credential: String) -> Bool {
        plan.credentials.contains { $0.name == credential || credential.hasPrefix("\($0.name)[") }
    }

    /// The gateways that share the token store with this one, at most a second old.
    package func fleet() async -> Result<FleetReport, GatewayProblem> {
        guard let inquiry else { return .failure(FleetInquiry.notShared) }
        return await seen.fleetReports.report(of: inquiry).mapError {
            GatewayProblem(.storeUnavailable, "\($0.reason).")
        }
    }

    /// Hands out the access token itself, once the event `revealed` is committed.
    package func reveal(_ name: String) async -> Result<RevealedToken, GatewayProblem> {
        switch keepers.keeper(of: name) {
        case .success(let keeper): return await keeper.reveal()
        case .failure(let problem): return .failure(problem)
        }
    }

    /// Hands out a weaker token made from the credential's, once the event `downscoped` is committed.
    package func downscope(_ name: String, _ options: DownscopeOptions) async -> Result<RevealedToken, GatewayProblem> {
        do throws(GatewayProblem) {
            let keeper = try keepers.keeper(of: name).get()
            let grant = try options.grant(of: keeper.grant, catalog: .builtIn, secrets: SystemSecretSource())
            return await keeper.downscope(by: grant, options)
        } catch {
            return .failure(error)
        }
    }

    /// Reads the configuration again; returns when the new one is served, or refused.
    package func reload() async -> ReloadReport {
        guard let reloader else {
            let problem = "this gateway was started without a configuration file\n"
            return ReloadReport(cause: .operator, outcome: .failed, problems: problem)
        }
        return await reloader.reload(.operator)
    }

    /// Replaces the key of the token store and encrypts all tokens anew. Audited.
    package func rotateKey() async -> Result<KeyRotationReport, GatewayProblem> { await storage.rotateKey() }

    /// Records that the state is about to be copied.
    ///
    /// - Parameter includesKeys: Whether the copy has the keys, too.
    package func noteBackup(includesKeys: Bool) async -> Result<BackupNote, GatewayProblem> {
        await storage.noteBackup(includesKeys: includesKeys, onFailure: plan.audit.onFailure, at: clock.now().wall)
    }

    /// Replaces the local CA with a new one. Audited.
    package func rotateAuthority() async -> Result<AuthorityRotationReport, GatewayProblem> {
        guard !plan.interceptedHosts.isEmpty else {
            return .failure(GatewayProblem(.requestRefused, "No host is intercepted, so there is no local CA."))
        }
        let event = TokenEvent(at: clock.now().wall, name: .authorityRotated, trigger: .operator)
        if let error = await storage.recorder.refusal(recording: event, plan.audit.onFailure) {
            return .failure(GatewayProblem(.auditUnavailable, "The event cannot be recorded: \(error.reason)."))
        }
        switch await storage.authority.rotateInTime(plan) {
        case .success(let scopes):
            let file = LocalAuthority.bundlePath(in: plan.stateDirectory)
            return .success(AuthorityRotationReport(scopes: scopes, file: file))
        case .failure(let error):
            return .failure(
                GatewayProblem(.internalError, "The local CA was not replaced: \(error.description).")
            )
        }
    }

    /// nil for a gateway that was started without a configuration file.
    package func servedPlan() async -> ServedPlan? { reloader?.servedPlan() }

    /// The keeper that takes the token of a login, or why there is none.
    package func keeper(of credential: String) -> Result<TokenKeeper, GatewayProblem> { keepers.keeper(of: credential) }
}

extension CredentialSources {
    /// The names of the static credentials.
    var fixedNames: Set<String> { Set(fixed.map(\.name)) }
}

extension TokenStatus {
    /// - Parameter credential: Which is locked with all of its tokens.
    fileprivate mutating func leadToUnlock(of credential: String) {
        (lastError, action) = (GatewayProblem.locked(credential).detail, GatewayProblem.locked(credential).command)
    }
}
