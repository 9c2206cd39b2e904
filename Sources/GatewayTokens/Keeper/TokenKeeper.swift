package import GatewayEvents
package import GatewayHTTP
import Logging
import ServiceLifecycle
import Synchronization

/// Keeps one token alive: runs what ``TokenLifecycle`` decides.
///
///     requests          operators, other gateways        run() or KeeperSupervisor
///        │                          │                           │ work(): one turn at a time
///        ▼                          │                           ▼
///     published credential          │             ┌── a turn, which has the TokenRenewer to itself ──┐
///        │ none, or not usable      │             │   the next step ──▶ store, server, audit log     │
///        │                          │             └──────▲───────────────────────────┬───────────────┘
///        ▼                          ▼                    │ what to do                ▼ what came of it
///     ╔═ one lock ═══════════════════════════════════════╧═══════════════════════════════════════════╗
///     ║ State: machine (TokenLifecycle); commands, changes, audit buffer; renewer between turns      ║
///     ╚══╤═══════════════════════════╤═══════════════════════════════════════════════════════════════╝
///        ▼ decide(_:) publishes      ▼ afterwards, without the lock
///     published credential        waiting requests are answered, the runner and other keepers are told
///
/// The lock is held while deciding, and never while waiting requests, the runner or another keeper are called. Readers on the
/// request path take what ``decide(_:)`` has published, without that lock.
///
/// ``work()`` does everything that waits (store, authorization server, audit log), one thing after the other, so a token is never
/// requested twice at the same time. Between its turns, a keeper has no task: ``run()`` or ``KeeperSupervisor`` calls ``work()``
/// when it is due or asks for it.
package final class TokenKeeper: CredentialSource, Service {
    typealias Done = @Sendable (Result<Credential, GatewayProblem>) -> Void
    typealias Machine = TokenLifecycle<Done>

    /// How long a call to the authorization server may take, whatever `limits.credential_timeout` says. It must end before the
    /// lease of the record expires (20 s), and a stop waits for it.
    package static let callDeadline: Duration = TokenRequest.longestCall
    /// How many operators' commands may be queued.
    static let commandLimit = 64

    let context: KeeperContext
    let jitter: @Sendable () -> Double
    private let state: Mutex<State>
    package let rejections: RejectionRecord? = RejectionRecord()

    /// - Parameters:
    ///   - trigger: `startup`, `reload` for a credential that a reload has added, or `demand` for a subject that a request named.
    ///   - jitter: 0...1; spreads renewals and repeated calls.
    package init(
        _ context: KeeperContext,
        begunBy trigger: TokenEvent.Trigger = .startup,
        jitter: @escaping @Sendable () -> Double = { Double.random(in: 0...1) }
    ) {
        self.context = context
        self.jitter = jitter
        state = Mutex(
            State(machine: Machine(context.rules(begunBy: trigger)), renewer: TokenRenewer(context: context))
        )
    }

    @Sendable package static func randomNonce() -> String {
        Hexadecimal.random(bytes: 16)
    }

    package var name: String { context.name }
    /// The credential whose requests name this subject; nil for a credential from the configuration.
    package var perSubjectCredential: String? { context.callLimit?.name }
    package var strategy: String { context.strategyKind }
    /// Identifies the token.
    package var key: CredentialKey { context.key }
    /// Sends the requests of logins as well.
    package var endpoint: any TokenEndpoint { context.endpoint }
    package var grantKey: CredentialKey? { context.key }
    /// The first server that it requests tokens from; nil if the grant names none.
    package var authority: Origin? { context.grant.authorityEndpoints.first?.origin }
    package var isRenewable: Bool { context.isRenewable }
    package var tokenPlace: String? { context.grant.tokenPlace }
    /// Whether each renewal spends the refresh token, so that the next one depends on what was stored.
    package var rotatesRefreshToken: Bool { context.grant.rotatesRefreshToken }
    /// How a person logs in for this token; nil if there is no login for it.
    package var login: (any LoginFlow)? { context.grant.login }

    // MARK: State

    private struct State: ~Copyable {
        var machine: Machine
        /// nil during a turn, which owns it.
        var renewer: TokenRenewer?
        /// Why it takes no more commands and ends after the current turn; nil while it goes on.
        var ending: Ending?
        /// No gateway runs, so nothing is retried automatically.
        var isAlone = false

        /// Runs the keeper.
        var runner: (@Sendable (KeeperWork) -> Void)?
        /// The work from before there was a runner.
        var unheard: Set<KeeperWork> = []

        var commands: [OperatorCommand] = []
        /// The commands that the current one has dropped: see ``OperatorCommand/Completion/drops``.
        var drops: [OperatorCommand] = []
        /// The generation whose rejection is not stored yet.
        var rejection: Int?
        /// A change by another gateway that is not applied yet.
        var change: RemoteChange?
        var children: [Child] = []

        var missingScopes = MissingScopes()
        var auditBuffer = AuditBuffer()
        /// Requests without a token since the last call that brought one.
        var withheldRequests = 0
        /// When the first call failed, as the status first reported it.
        var failingSince: Moment?
        var lastTicket: UInt64 = 0

        init(machine: consuming Machine, renewer: TokenRenewer) {
            self.machine = machine
            self.renewer = renewer
        }
    }

    private enum Ending {
        case shutdown
        /// A reload has dropped the credential.
        case retired
    }

    /// An entry that another gateway, or an operator there, has written to the store.
    struct RemoteChange {
        let entry: TokenEntry
        /// Requests wait until it is applied.
        let hasTakenAway: Bool
    }

    /// A keeper whose token is made from this one's. Weak, because only its credential keeps it alive.
    private struct Child {
        weak var keeper: TokenKeeper?
    }

    /// Decides, and publishes the credential that readers get from now on.
    private func decide<Decision: Sendable>(_ body: (inout Machine) -> Decision) -> Decision {
        state.withLock { state in
            let decision = body(&state.machine)
            publish(&state)
            return decision
        }
    }

    private func publish(_ state: inout State) {
        context.published.offer(state.machine.servable)
        if state.machine.unresolvedSince == nil { state.withheldRequests = 0 }
    }

    /// Reads without deciding.
    private func read<Answer: Sendable>(_ body: (borrowing Machine) -> Answer) -> Answer {
        state.withLock { body($0.machine) }
    }

    /// Whether the keeper can be dropped: there is no call and no waiting request.
    package var isIdle: Bool { state.withLock { $0.commands.isEmpty && $0.machine.isIdle } }

    // MARK: CredentialSource

    package var timesWithdrawn: Int { read { $0.withdrawals } }

    package func current(at now: MonotonicTime) -> CredentialAnswer {
        if let credential = context.published.credential, credential.isUsable(at: now) { return .ready(credential) }
        return read { $0.answer(at: now) }
    }

    package func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket {
        ask(done) { $0.need(by: done, ticket: $1, for: demand, at: $2) }
    }

    /// Asks for the next token even if this generation is still valid: see ``wait(for:_:)``.
    func waitForSuccessor(of generation: Int, for demand: CredentialRequest, _ done: @escaping Done) -> CredentialTicket
    {
        ask(done) { $0.needSuccessor(of: generation, by: done, ticket: $1, for: demand, at: $2) }
    }

    /// Answers at once, or makes the caller wait.
    private func ask(
        _ done: @escaping Done,
        _ need: @Sendable (inout Machine, CredentialTicket, MonotonicTime) -> Machine.OnNeed
    ) -> CredentialTicket {
        let now = context.clock.now().monotonic
        let (ticket, answer) = state.withLock { state in
            state.lastTicket += 1
            let ticket = CredentialTicket(id: state.lastTicket)
            let answer = need(&state.machine, ticket, now)
            publish(&state)
            return (ticket, answer)
        }
        switch answer {
        case .use(let credential): done(.success(credential))
        case .refuse(let problem): done(.failure(problem.kind == .draining ? stopProblem(problem) : problem))
        case .waitAndCall: wake(.request)
        case .wait: break
        }
        return ticket
    }

    package func cancel(_ ticket: CredentialTicket) {
        let waiter = decide { $0.withdraw(ticket) }
        waiter?(.failure(GatewayProblem(.requestTimeout, "The request stopped waiting for the credential \(name).")))
    }

    package func rejected(generation: Int, by demand: CredentialRequest) {
        let outcome = state.withLock { state in
            let outcome = state.machine.rejected(generation: generation, by: demand)
            // Set under the same lock: the call that follows must find it, see `turn`.
            if case .dead = outcome { state.rejection = generation }
            publish(&state)
            return outcome
        }
        guard case .dead(let calls) = outcome else { return }
        if !calls { rejections?.causedNothing(generation) }
        context.metrics.rejected()
        remember(.rejected, generation: generation, by: demand)
        wake()
    }

    package func lacks(_ scopes: [String], generation: Int, by demand: CredentialRequest) {
        guard let requested = context.grant.login?.requestedScopes else { return }
        let now = context.clock.now().monotonic
        let missing = state.withLock { state -> [String] in
            // What an older token lacked, the present one may have.
            guard generation >= state.machine.generation else { return [] }
            let known = requested + (state.machine.held?.token.addedScopes ?? [])
            return state.missingScopes.note(scopes, known: known, at: now)
        }
        guard !missing.isEmpty else { return }
        let names = missing.joined(separator: " ")
        context.logger.warning(
            "Token lacks a scope",
            metadata: [
                "gateway.credential": "\(name)", "gateway.route": "\(demand.route)", "gateway.scopes": "\(names)",
                "gateway.action": "\(context.loginCommand(with: missing) ?? "")",
            ]
        )
        let code = "insufficient_scope"
        remember(.scopeMissing, generation: generation, by: demand, detail: ["scopes": names], code: code)
    }

    /// The scopes that logins have added. After a start, the token's record may not have been read yet.
    package func addedScopes() async -> [String] {
        if let held { return held.token.addedScopes }
        return (try? await context.store.load(key))?.token?.token.addedScopes ?? []
    }

    package func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {
        switch event {
        case .injected:
            guard isFirstUse(of: generation, on: demand.route) else { return }
            remember(.injected, generation: generation, by: demand)
        case .handedOut:
            guard isFirstUse(of: generation, on: demand.use) else { return }
            remember(.handedOut, generation: generation, by: demand)
        case .replayed: remember(.replayed, generation: generation, by: demand)
        case .withheld:
            state.withLock { $0.withheldRequests += 1 }
            // Every request that cannot be served is recorded.
            guard let unrecorded = spendRefusal(at: context.clock.now().monotonic) else { return }
            let detail = unrecorded > 0 ? ["unrecorded_before": String(unrecorded)] : [:]
            remember(.withheld, generation: generation, by: demand, detail: detail)
        }
    }

    private func isFirstUse(of generation: Int, on route: String) -> Bool {
        state.withLock { $0.auditBuffer.isFirstUse(of: generation, on: route) }
    }

    private func spendRefusal(at now: MonotonicTime) -> Int? {
        guard let limit = context.callLimit else { return state.withLock { $0.auditBuffer.spendForWithheld(at: now) } }
        return limit.spendRefusal(at: now)
    }

    private func remember(
        _ name: TokenEvent.Name,
        generation: Int,
        by demand: CredentialRequest,
        detail: [String: String] = [:],
        code: String? = nil
    ) {
        var event = context.event(name, generation: generation)
        event.demand = demand
        if let code { (event.outcome, event.errorCode) = (.failed, code) }
        event.detail = detail
        event.detail["engine"] = demand.engine
        switch state.withLock({ $0.auditBuffer.add(event) }) {
        case .lost: context.metrics.noteDropped()
        case .first: signal(.auditEvents)
        // The writer, which was told of the first one, goes on until the buffer is empty.
        case .behindOthers: break
        }
    }
}

/// The background work, one thing at a time until shutdown.
extension TokenKeeper {
    /// Runs this keeper without a supervisor. Returns at graceful shutdown once the current call has ended, or soon after the task
    /// was cancelled.
    package func run() async throws {
        let turns = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let auditEvents = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        onSignal { work in
            if work == .auditEvents { auditEvents.continuation.yield() } else { turns.continuation.yield() }
        }
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                // In a task of its own, so that events do not wait for the authorization server.
                group.addTask { for await _ in auditEvents.stream { await self.writeBufferedEvents() } }
                while !isEnding {
                    let due = await work()
                    if !isEnding { await sleep(until: due, or: turns.stream) }
                }
                await finish()
                auditEvents.continuation.finish()
            }
        } onGracefulShutdown: {
            self.stop()
        }
    }

    /// - Parameter runner: Called on any thread when there is work, also for work from before this call. It must return at once. If
    ///   nil, work is kept for the next runner.
    func onSignal(_ runner: (@Sendable (KeeperWork) -> Void)?) {
        let unheard = state.withLock { state -> Set<KeeperWork> in
            state.runner = runner
            guard runner != nil else { return [] }
            defer { state.unheard = [] }
            return state.unheard
        }
        for work in unheard { runner?(work) }
    }

    private func signal(_ work: KeeperWork) {
        let runner = state.withLock { state in
            if state.runner == nil { state.unheard.insert(work) }
            return state.runner
        }
        runner?(work)
    }

    /// Whether ``finish()`` comes next.
    package var isEnding: Bool { isStopping || Task.isCancelled }

    private var isStopping: Bool { state.withLock { $0.ending != nil } }

    /// Does whatever is due, one thing after the other. It must not be called again before it has returned.
    ///
    /// - Returns: When the next work is due; nil if the runner will be told.
    package func work() async -> MonotonicTime? {
        var renewer = takeRenewer()
        defer { putBack(renewer) }
        while !isEnding {
            if case .rest(let due) = await using(&renewer, turn) { return due }
        }
        return nil
    }

    /// Stops as at shutdown: the current call ends, and a valid token is still handed out to requests that began earlier.
    package func retire() {
        state.withLock { $0.ending = .retired }
        wake(.command)
    }

    /// Tells the runner that there may be work.
    func wake(_ urgency: WorkUrgency = .background) { signal(.turn(urgency)) }

    /// Stops taking commands. The runner has to call ``finish()``.
    package func stop() {
        state.withLock { $0.ending = $0.ending ?? .shutdown }
        wake(.command)
    }

    /// Ends a run: refuses waiting requests and commands, and writes whatever is not stored yet. ``work()`` must have returned.
    package func finish() async {
        close()
        var renewer = takeRenewer()
        await storeWhatIsLeft(&renewer)
        putBack(renewer)
        await writeBufferedEvents()
    }

    private func takeRenewer() -> TokenRenewer {
        let renewer = state.withLock { $0.renewer.take() }
        assert(renewer != nil, "Two turns of one keeper run at a time.")
        return renewer ?? TokenRenewer(context: context)
    }

    private func putBack(_ renewer: TokenRenewer) { state.withLock { $0.renewer = renewer } }

    /// Refuses waiting requests and commands, and accepts no more.
    package func close() {
        let (waiters, stopped, commands) = state.withLock { state in
            state.ending = state.ending ?? .shutdown
            let (waiters, problem) = state.machine.stop()
            publish(&state)
            defer { state.commands = [] }
            return (waiters, problem, state.commands)
        }
        let problem = stopProblem(stopped)
        for waiter in waiters { waiter(.failure(problem)) }
        for command in commands { command.finish(.failure(problem)) }
    }

    /// The problem to report for a keeper that has stopped.
    private func stopProblem(_ problem: GatewayProblem) -> GatewayProblem {
        guard state.withLock({ $0.ending == .retired }) else { return problem }
        return .changed(name)
    }

    /// The last chance to write whatever is not stored yet: the next keeper of this token begins with the contents of the store.
    private func storeWhatIsLeft(_ renewer: inout TokenRenewer) async {
        await storeRejection(&renewer)
        if renewer.writeDue != nil { await renewer.saveAgain() }
        await renewer.endLease()
    }

    /// Writes the buffered events of the request path to the audit log.
    ///
    /// Several calls may run at the same time, such as at the end of a run. One of them writes each event, in no particular order.
    func writeBufferedEvents() async {
        while true {
            let batch = state.withLock { $0.auditBuffer.take() }
            guard !batch.isEmpty else { return }
            for event in batch {
                // At shutdown, give up after the first failure: each of the other events would wait as long as this one did.
                if await context.note(event) != nil, isStopping { return }
            }
        }
    }

    private enum TurnEnd {
        case again
        /// There is nothing to do until this time, or until the keeper is woken.
        case rest(until: MonotonicTime?)
    }

    private func turn(_ renewer: inout TokenRenewer) async -> TurnEnd {
        if let command = nextCommand() {
            await carryOut(command, &renewer)
            return .again
        }
        if await storeRejection(&renewer) { return .again }
        if await applyRemoteChange(&renewer) { return .again }
        await followRefusal(renewer)
        let now = context.clock.now()
        switch decide({ $0.next(at: now.monotonic) }) {
        case .call(let call):
            // Stored before the call, because the rejection must survive a crash, however long the call takes.
            await storeRejection(&renewer)
            if await isGranted(call) { await make(call, &renewer) }
        case .storm(let waiters, let problem, let call):
            for waiter in waiters { waiter(.failure(problem)) }
            await reportStorm(problem, call)
        case .expiringSoon(let held):
            warn("Expires soon", about: held)
            await context.note(announcement(.expiringSoon, of: held))
        case .expired(let held):
            var event = announcement(.expired, of: held)
            event.outcome = .failed
            if !isRenewable {
                warn("Has expired", about: held)
                event.errorCode = ProblemKind.staticTokenExpired.rawValue
            }
            await context.note(event)
        case .sleep(let until):
            guard let due = renewer.writeDue else { return .rest(until: until) }
            guard due <= now.monotonic else { return .rest(until: min(due, until ?? due)) }
            await renewer.saveAgain()
        }
        return .again
    }

    /// - Returns: Whether there was one.
    @discardableResult
    private func storeRejection(_ renewer: inout TokenRenewer) async -> Bool {
        guard let generation = state.withLock({ $0.rejection.take() }) else { return false }
        await renewer.storeRejection(of: generation)
        return true
    }

    /// Returns when it is woken, at the time `until` (nil: never), or when the task is cancelled.
    private func sleep(until: MonotonicTime?, or wakeUps: AsyncStream<Void>) async {
        await withTaskGroup(of: Void.self) { group in
            if let until {
                group.addTask {
                    do {
                        try await self.context.clock.sleep(for: until - self.context.clock.now().monotonic)
                        self.wake()
                    } catch {
                        // Cancelled, because the keeper was woken earlier.
                    }
                }
            }
            var iterator = wakeUps.makeAsyncIterator()
            _ = await iterator.next()
            group.cancelAll()
        }
    }
}

/// Calls to the authorization server, and their results.
extension TokenKeeper {
    /// Whether a call may be made: the credential's subjects have calls left, and their password was not refused. If not, every
    /// waiting request is refused.
    private func isGranted(_ call: TokenCall) async -> Bool {
        guard let limit = context.callLimit, !call.isFirstLook else { return true }
        let now = context.clock.now().monotonic
        if let refusal = limit.refusal {
            refuse(call, refusal, at: now)
            return false
        }
        guard case .spent(let isUnreported) = limit.spend(for: call, isLook: false, at: now) else { return true }
        let failure = limit.failure
        refuse(call, failure, at: now)
        await context.report(failure.problem, of: limit, call, isUnreported: isUnreported)
        return false
    }

    private func refuse(_ call: TokenCall, _ failure: TokenFailure, at now: MonotonicTime) {
        for waiter in decide({ $0.slowDown(call, by: failure, at: now) }) { waiter(.failure(failure.problem)) }
    }

    func make(_ call: TokenCall, _ renewer: inout TokenRenewer) async {
        switch await perform(call, by: &renewer) {
        case .obtained(let fresh):
            use(fresh, obtainedBy: call)
        case .nothing:
            decide { $0.foundNothing(by: call) }
        case .held(let time):
            let until = context.clock.now().monotonic + RenewalLease.pause(held: time, jitter: jitter())
            decide { $0.postpone(call, until: until) }
        case .withdrawn:
            forgetWithdrawn(&renewer)
        case .failed(let refusal):
            let failure = advised(refusal)
            context.callLimit?.failed(failure, hadToken: renewer.record != nil)
            rejections?.failed()
            let (now, jitter) = (context.clock.now().monotonic, jitter())
            let refused = decide { $0.failed(failure, by: call, at: now, jitter: jitter) }
            for waiter in refused?.waiters ?? [] { waiter(.failure(refused?.problem ?? failure.problem)) }
            if refused?.isEscalated == true { await renewer.noteLogin(failure, call) }
            if isGone(after: failure, at: now) { dropDescendants() }
        }
    }

    private func advised(_ failure: TokenFailure) -> TokenFailure {
        failure.class == .terminal && isAlone ? failure : context.advised(failure)
    }

    func perform(_ call: TokenCall, by renewer: inout TokenRenewer) async -> TokenRenewer.End {
        let generation = highestGeneration
        return await renewer.perform(call, after: generation) { self.read { $0.waiterCount } }
    }

    func use(_ fresh: FreshToken, obtainedBy call: TokenCall) {
        context.callLimit?.expect(fresh.token, renewedBy: context.policy)
        let (now, jitter) = (context.clock.now(), jitter())
        let outcome = decide { $0.obtained(fresh, by: call, at: now, jitter: jitter) }
        if case .ignored = outcome { return }
        rejections?.replaced(by: fresh.generation, isOwn: !fresh.isAdopted, at: now.monotonic)
        release(outcome)
    }

    /// Takes a token that did not come from a call: from an operator, or from the store.
    func install(_ fresh: FreshToken) {
        let (now, jitter) = (context.clock.now(), jitter())
        let outcome = decide { $0.import(fresh, at: now, jitter: jitter) }
        state.withLock { $0.missingScopes = MissingScopes() }
        rejections?.replaced(by: fresh.generation, isOwn: false, at: now.monotonic)
        release(outcome)
    }

    /// Works with the renewer. Afterwards, the status shows what it has found out about the refresh token.
    func using<Answer>(
        _ renewer: inout TokenRenewer,
        _ work: (inout TokenRenewer) async -> Answer
    ) async -> Answer {
        let answer = await work(&renewer)
        showUncertainty(of: renewer)
        return answer
    }

    private func showUncertainty(of renewer: TokenRenewer) {
        decide { $0.show(isRotationUncertain: renewer.isRotationUncertain) }
    }

    /// Whether a failure leaves no usable token until a person brings another one.
    private func isGone(after failure: TokenFailure, at now: MonotonicTime) -> Bool {
        if failure.clearsToken { return true }
        guard failure.class.asksForLogin, highestGeneration > 0 else { return false }
        return read { $0.servable }?.isUsable(at: now) != true
    }

    func release(_ ended: Machine.EndedWaits?) {
        guard let ended else { return }
        for waiter in ended.waiters { waiter(ended.result) }
    }

    func release(_ outcome: Machine.OnToken) {
        guard case .use(let credential, let waiters) = outcome else { return }
        for waiter in waiters { waiter(.success(credential)) }
    }

    private func announcement(_ name: TokenEvent.Name, of held: HeldToken) -> TokenEvent {
        var event = context.event(name, generation: held.generation)
        event.expiresAt = held.token.expiresAt
        return event
    }

    /// - Parameter held: A token that only a person can replace.
    private func warn(_ message: Logger.Message, about held: HeldToken) {
        context.logger.warning(
            message,
            metadata: [
                "kind": "token", "of": "\(name)", "ends_at": "\(held.token.expiresAt?.rfc3339 ?? "")",
                "action": "\(context.manualRenewal?.problem.command ?? context.importCommand)",
            ]
        )
    }

    private func reportStorm(_ problem: GatewayProblem, _ call: TokenCall) async {
        context.metrics.storm()
        context.logger.error(
            "Too many token requests; slowed down to one per minute",
            metadata: ["gateway.credential": "\(name)", "gateway.trigger": "\(call.trigger.rawValue)"]
        )
        var event = context.event(.renewalFailed, trigger: call.trigger)
        event.demand = call.demand
        event.outcome = .failed
        event.errorCode = problem.kind.rawValue
        event.detail = ["reason": "too_many_calls"]
        await context.note(event)
    }
}

/// Single steps under the lock, for operators, reloads and the keeper's other files, which cannot access the machine.
extension TokenKeeper {
    /// The highest generation so far.
    var highestGeneration: Int { read { $0.generation } }
    var held: HeldToken? { read { $0.held } }
    /// The token, unless it must not be handed out.
    var servable: HeldToken? { read { $0.servable == nil ? nil : $0.held } }
    /// Why there is no new token at the moment; nil if nothing is wrong.
    var lastFailure: TokenFailure? { read { $0.lastFailure } }
    /// Whether another gateway is renewing the token.
    var isPostponed: Bool { read { $0.isPostponed } }

    /// nil unless an operator has locked it.
    package var lockedProblem: GatewayProblem? { read { $0.isLocked ? $0.lockedProblem : nil } }

    /// Refuses waiting requests. It records nothing: the caller does, if a person asked for it.
    package func lock() {
        change(isLocked: true)()
    }

    /// A reload has not changed the credential. Calls that failed because of the configuration may be tried again.
    package func reloaded() {
        let sendsSecrets = context.grant.sendsSecrets
        if decide({ $0.reloaded(sendsSecrets: sendsSecrets) }) { wake() }
    }

    package func unlock() {
        change(isLocked: false)()
    }

    /// Locks or unlocks for a caller that decides under its own lock.
    ///
    /// - Returns: What remains to be done after that lock is released: refusing the waiting requests, or waking the keeper.
    package func change(isLocked: Bool) -> @Sendable () -> Void {
        guard isLocked else {
            decide { $0.unlock() }
            return { self.wake() }
        }
        let (waiters, problem) = decide { $0.lock() }
        return { for waiter in waiters { waiter(.failure(problem)) } }
    }

    /// Locks or unlocks as the store says. It records nothing: see ``SharedUnlocks`` for the events.
    ///
    /// - Returns: See ``change(isLocked:)``; nil if nothing changes.
    package func follow(isLocked: Bool) -> (@Sendable () -> Void)? {
        read { $0.isLocked } == isLocked ? nil : change(isLocked: isLocked)
    }

    /// The store works again: a call that failed because of it is made now.
    func storeReturned() {
        if decide({ $0.storeReturned() }) { wake() }
    }

    /// Begins a call for an operator; nil while locked or during another call.
    func beginRefresh() -> TokenCall? { decide { $0.refresh() } }

    /// See ``TokenLifecycle/beginImport(generation:)``.
    func beginImport(generation: Int) -> TokenCall? { decide { $0.beginImport(generation: generation) } }

    /// Ends the call of ``beginImport(generation:)``: see ``TokenLifecycle/importFailed(_:of:replacing:by:at:jitter:)``.
    func failImport(
        _ failure: TokenFailure,
        of imported: FreshToken,
        replacing earlier: FreshToken?,
        by call: TokenCall
    ) -> Machine.OnImportFailure {
        let (now, jitter) = (context.clock.now(), jitter())
        return decide { $0.importFailed(failure, of: imported, replacing: earlier, by: call, at: now, jitter: jitter) }
    }

    /// Forgets the token at once; the `clear` follows in a turn. Requests wait until then.
    func beginClear() { decide { $0.beginClear() } }

    /// Forgets the token and any refusal. Waiting requests cause a new call.
    func forget() { decide { $0.clear() } }

    /// Reports at once if a person is needed.
    func leave(_ renewer: inout TokenRenewer) {
        let isSeeded = renewer.record == nil && context.grant.seed(at: context.clock.now()) != nil
        guard !isSeeded, let failure = renewer.obstacle.map(context.advised) else { return decide { $0.clear() } }
        for waiter in decide({ $0.clear(leaving: failure) }) { waiter(.failure(failure.problem)) }
    }

    /// Hands out no token until ``resume()``. Requests wait.
    func suspend() { decide { $0.suspend() } }

    func resume() {
        let now = context.clock.now().monotonic
        release(decide { $0.resume(at: now) })
    }
}

/// Operators' commands that wait for their turn.
extension TokenKeeper {
    func enqueue(_ command: OperatorCommand) -> Bool {
        // A withdrawal is accepted even if the queue is full of other commands.
        let limit = command.operation.isWithdrawal ? 2 * Self.commandLimit : Self.commandLimit
        return state.withLock { state in
            guard state.commands.count < limit, state.ending == nil else { return false }
            state.commands.append(command)
            return true
        }
    }

    func nextCommand() -> OperatorCommand? {
        state.withLock { $0.commands.isEmpty ? nil : $0.commands.removeFirst() }
    }

    var hasCommands: Bool { state.withLock { !$0.commands.isEmpty } }

    /// Keeps messages from promising what only a running gateway does, such as to repeat a failed write later.
    package func runOffline() { state.withLock { $0.isAlone = true } }

    var isAlone: Bool { state.withLock { $0.isAlone } }
}

/// Changes that other gateways, and operators there, have written to the store.
extension TokenKeeper {
    /// Whether the store holds another record than this keeper knows.
    package func isUnknown(_ revision: TokenRevision) -> Bool { revision != context.published.revision }

    /// Applies an entry of the store. A token that it withdraws is not handed out from now on, as with ``withdrawNow(_:)``.
    ///
    /// - Returns: Whether it withdraws the token.
    @discardableResult
    package func notice(_ entry: TokenEntry) -> Bool {
        let takesAway = state.withLock { state -> Bool? in
            guard isUnknown(entry.revision), state.ending == nil else { return nil }
            let isLater = entry.revision > context.published.revision
            let takesAway = isLater && (entry.token?.isRevoked ?? true) && state.machine.held != nil
            if takesAway {
                state.machine.beginClear()
                publish(&state)
            }
            let isLatest = state.change.map { $0.entry.revision <= entry.revision } ?? true
            state.change = RemoteChange(
                entry: isLatest ? entry : state.change?.entry ?? entry,
                hasTakenAway: takesAway || state.change?.hasTakenAway ?? false
            )
            return takesAway
        }
        guard let takesAway else { return false }
        wake()
        return takesAway
    }

    /// Reads what others may have written, before the authorization server is asked to revoke the token.
    func readRemoteChange(_ renewer: inout TokenRenewer) async {
        guard context.store.isShared, renewer.isOpen, let entry = try? await context.store.load(context.key)
        else {
            return
        }
        await apply(entry, &renewer)
    }

    private func apply(_ entry: TokenEntry, _ renewer: inout TokenRenewer) async {
        switch await renewer.apply(entry, after: highestGeneration) {
        case .nothing: break
        case .adopted(let fresh): install(fresh)
        case .withdrawn: forgetWithdrawn(&renewer)
        }
    }

    /// - Returns: Whether there was any.
    private func applyRemoteChange(_ renewer: inout TokenRenewer) async -> Bool {
        guard renewer.followsStore, let change = nextRemoteChange(&renewer) else { return false }
        await apply(change.entry, &renewer)
        if change.hasTakenAway { resume() }
        return true
    }

    /// An entry that replaced our write comes first. A change may be one of the keeper's own writes.
    private func nextRemoteChange(_ renewer: inout TokenRenewer) -> RemoteChange? {
        if let entry = renewer.takeOvertaking() { return RemoteChange(entry: entry, hasTakenAway: false) }
        return state.withLock { $0.change.take() }
    }

    /// Reads from the store what the status shows if no gateway runs the keeper. It uses and records nothing.
    package func loadForDisplay() async {
        var renewer = TokenRenewer(context: context)
        do throws(TokenStoreError) {
            try await renewer.loadRecord(highestGeneration: highestGeneration)
        } catch {
            let failure = renewer.unreadable(error)
            return decide { _ = $0.clear(leaving: failure) }
        }
        if let record = renewer.record, !record.isRevoked, !(record.isRejected && renewer.obstacle != nil) {
            install(renewer.fresh(record))
            showUncertainty(of: renewer)
            _ = stop(forRefusalIn: renewer, at: context.clock.now().monotonic)
        } else {
            leave(&renewer)
        }
    }

    /// The token was withdrawn at another gateway.
    private func forgetWithdrawn(_ renewer: inout TokenRenewer) {
        leave(&renewer)
        dropDescendants()
    }
}

/// A refresh token that the server has refused when another gateway, or an earlier run of this one, sent it.
extension TokenKeeper {
    /// Asks for a login if the record says that the refresh token was refused. The server is not called.
    func followRefusal(_ renewer: TokenRenewer) async {
        let now = context.clock.now().monotonic
        guard let (failure, waiters) = stop(forRefusalIn: renewer, at: now) else { return }
        for waiter in waiters { waiter(.failure(failure.problem)) }
        context.logger.warning(
            "The authorization server refused this refresh token earlier; it is not sent again",
            metadata: [
                "gateway.credential": "\(name)", "gateway.error": "\(failure.problem.cause?.code ?? "none")",
                "gateway.problem": "\(failure.problem.kind.rawValue)",
            ]
        )
        await renewer.noteLogin(failure)
        if isGone(after: failure, at: now) { dropDescendants() }
    }

    /// - Returns: Why a login is needed from now on, and the waiting requests; nil if nothing has changed.
    private func stop(forRefusalIn renewer: TokenRenewer, at now: MonotonicTime) -> (TokenFailure, [Done])? {
        guard let refusal = renewer.record?.knownRefusal else { return nil }
        let failure = context.advised(refusal.failure)
        return decide { $0.stop(forRefusal: failure, at: now) }.map { (failure, $0.waiters) }
    }
}

/// Tokens that are made from this one: they are forgotten together with it.
extension TokenKeeper {
    /// From now on, the token of `child` is forgotten when this token is revoked, cleared or refused for good, and also when a
    /// person replaces this token, because the new one may belong to another account.
    package func adopt(_ child: TokenKeeper) {
        state.withLock { state in
            state.children.removeAll { $0.keeper == nil }
            state.children.append(Child(keeper: child))
        }
    }

    /// The keepers whose tokens are made from this one, directly or through another.
    var descendants: [TokenKeeper] {
        // Each keeper is asked without its parent's lock.
        state.withLock { $0.children.compactMap(\.keeper) }.flatMap { [$0] + $0.descendants }
    }

    /// None of their tokens is handed out from now on. They are removed from the store when the commands are carried out.
    @discardableResult
    func dropDescendants() -> [OperatorCommand] {
        descendants.map { child in
            let command = OperatorCommand(.drop)
            child.decide { $0.clear() }
            if child.enqueue(command) { child.wake(.command) } else { command.finish(.failure(child.busyProblem)) }
            return command
        }
    }

    /// Drops them for an operator, who waits until this is done.
    func dropDescendantsForOperator() {
        let commands = dropDescendants()
        state.withLock { $0.drops += commands }
    }

    /// Takes the drops of the command that is being carried out.
    func takeDrops() -> [OperatorCommand] {
        state.withLock { state in
            defer { state.drops = [] }
            return state.drops
        }
    }
}

/// The status that operators see.
extension TokenKeeper {
    /// A missing login is reported before the first request asks for the token.
    package func outlook(at now: MonotonicTime) -> CredentialAnswer {
        let answer = current(at: now)
        guard case .wait = answer, read({ $0.state(at: now) }) == .empty, let missing = context.missingLogin else {
            return answer
        }
        return .unavailable(missing)
    }

    package func status(at now: Moment) -> TokenStatus {
        var (state, held, failure, unresolved, generation) = read {
            (
                $0.state(at: now.monotonic), $0.held, $0.lastFailure?.problem, $0.failing(at: now.monotonic),
                $0.generation
            )
        }
        // No request has needed the token yet. The first one that does gets this problem.
        if state == .empty, let missing = context.missingLogin { (state, failure) = (.loginRequired, missing) }
        var status = TokenStatus(
            credential: name,
            strategy: strategy,
            subject: context.subject,
            state: state,
            generation: held?.generation ?? generation,
            isRenewable: isRenewable
        )
        if let held {
            status.obtainedAt = held.token.obtainedAt.rfc3339
            status.expiresAt = held.token.expiresAt?.rfc3339
            status.remainingSeconds = held.credential.expiresAt.map { ($0 - now.monotonic).secondsLeft }
            if held.lacksRefreshToken { status.lacksRefreshToken = true }
            if let end = held.lacksRefreshToken ? held.token.expiresAt : held.token.refreshTokenExpiresAt {
                status.renewalExpiresAt = end.rfc3339
                status.renewalRemainingSeconds = (end - now.wall).secondsLeft
            }
            if held.isLive(at: now.monotonic) {
                status.renewsAt = held.renewAt.map { (now.wall + ($0 - now.monotonic)).rfc3339 }
            }
        }
        let budgets = rejections?.emptyBudgets(at: now.monotonic, limit: Self.shownBudgets) ?? []
        if !budgets.isEmpty {
            status.emptyBudgets = budgets.map { budget in
                let fillsAt = now.wall + (budget.fillsAt - now.monotonic)
                return TokenStatus.EmptyBudget(client: budget.client, fillsAt: fillsAt.rfc3339)
            }
        }
        let missing = self.state.withLock { $0.missingScopes.names(at: now.monotonic) }
        if !missing.isEmpty { status.missingScopes = missing }
        if let added = held?.token.addedScopes, !added.isEmpty { status.addedScopes = added }
        status.canLogIn = context.grant.login != nil
        status.perSubjectCredential = perSubjectCredential
        status.parent = context.parent?.name
        status.lastError = (failure ?? unresolved?.failure.problem)?.detail
        status.failing = unresolved.map { failing($0, at: now) }
        status.authorityError = unresolved?.failure.authorityError
        if state == .locked {
            status.action = GatewayCommand.line("token", "unlock", name)
        } else if let problem = failure, status.needsPerson {
            status.action = problem.command ?? unresolved?.failure.remedy ?? action(for: problem.recovery)
        } else if state == .rotationUncertain, failure == nil, read({ $0.isIdle }) {
            // The record comes from a backup: its refresh token is not sent by itself.
            status.action = context.loginCommand ?? context.importCommand
        }
        if status.isServed, status.action == nil, status.failing == nil, let scopes = status.missingScopes {
            status.action = context.loginCommand(with: scopes)
        }
        return status
    }

    /// How many clients with an empty budget the status names.
    private static let shownBudgets = 8

    private func failing(_ unresolved: UnresolvedFailure, at now: Moment) -> TokenStatus.Failing {
        let commands = TokenStatus.Failing.Commands(
            login: context.loginCommand,
            refresh: context.refreshCommand,
            importing: context.importCommand
        )
        let requests = state.withLock { $0.withheldRequests }
        var failing = TokenStatus.Failing(unresolved, at: now, commands: commands, failedRequests: requests)
        failing.since = wallTime(of: unresolved.since, at: now).rfc3339
        return failing
    }

    /// The time of the first failure. It is kept, so that each status shows the same time: converting between the two clocks would
    /// vary by a few milliseconds.
    private func wallTime(of failingSince: MonotonicTime, at now: Moment) -> UnixTime {
        state.withLock { state in
            if let known = state.failingSince, known.monotonic == failingSince { return known.wall }
            let wall = now.wall + (failingSince - now.monotonic)
            state.failingSince = Moment(monotonic: failingSince, wall: wall)
            return wall
        }
    }

    private func action(for recovery: ProblemRecovery) -> String {
        switch recovery {
        case .reauthorize: "Give the credential a new token: \(context.importCommand)"
        case .fixConfiguration: "Correct the credential, then run: \(context.refreshCommand)"
        case .retryLater, .fixRequest, .askOperator: "See the log; authgateway token refresh tries again."
        }
    }

    /// When the parts of this credential's token expire that only a person can replace.
    package func expirations(at now: Moment) -> [Expiration] {
        guard let held else { return [] }
        let token = held.token
        var expirations: [Expiration] = []
        if !isRenewable, let end = token.expiresAt {
            let action = context.manualRenewal?.problem.command ?? context.importCommand
            let start = token.obtainedAt
            expirations.append(Expiration(.token, of: name, from: start, to: end, at: now.wall, action: action))
        }
        let loginEnd = held.lacksRefreshToken ? token.expiresAt : token.refreshTokenExpiresAt
        if let command = context.loginCommand, let end = loginEnd {
            let start = token.refreshTokenObtainedAt ?? token.obtainedAt
            expirations.append(Expiration(.login, of: name, from: start, to: end, at: now.wall, action: command))
        }
        return expirations
    }
}

/// The kinds of work of a keeper.
enum KeeperWork: Hashable, Sendable {
    /// ``TokenKeeper/work()``.
    case turn(WorkUrgency)
    /// ``TokenKeeper/writeBufferedEvents()``.
    case auditEvents
}

/// Events of the request path that wait for the audit log, so that requests need not wait for it.
struct AuditBuffer: Sendable {
    /// How many events may wait.
    static let limit = 1024

    private var waiting: [TokenEvent] = []
    private var firstUses = FirstUses()
    private var withheld = EventBudget()

    /// See ``FirstUses/isFirst(generation:route:)``.
    mutating func isFirstUse(of generation: Int, on route: String) -> Bool {
        firstUses.isFirst(generation: generation, route: route)
    }

    /// Spends the budget for one event of a request without a token: see ``EventBudget/spend(at:)``.
    mutating func spendForWithheld(at now: MonotonicTime) -> Int? { withheld.spend(at: now) }

    enum Addition {
        /// Dropped, because too many events wait.
        case lost
        /// No other event waits, so the writer has to be told.
        case first
        case behindOthers
    }

    mutating func add(_ event: TokenEvent) -> Addition {
        guard waiting.count < Self.limit else { return .lost }
        waiting.append(event)
        return waiting.count == 1 ? .first : .behindOthers
    }

    mutating func take() -> [TokenEvent] {
        defer { waiting = [] }
        return waiting
    }
}

extension GatewayProblem {
    /// A reload has replaced the keeper of the credential.
    static func changed(_ credential: String) -> GatewayProblem {
        let detail = "The credential \(credential) was changed or removed while the request waited; send it again."
        return GatewayProblem(.draining, detail, retryAfter: .seconds(1))
    }
}
