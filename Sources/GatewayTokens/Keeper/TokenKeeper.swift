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
///        │ none, or not usable      │             │   the next step ──▶ store, authority, audit log  │
///        │                          │             └──────▲───────────────────────────┬───────────────┘
///        ▼                          ▼                    │ what to do                ▼ what came of it
///     ╔═ one lock ═══════════════════════════════════════╧═══════════════════════════════════════════╗
///     ║ State: machine (TokenLifecycle); commands, changes, audit buffer; renewer between turns      ║
///     ╚══╤═══════════════════════════╤═══════════════════════════════════════════════════════════════╝
///        ▼ decide(_:) publishes      ▼ afterwards, without the lock
///     published credential        waiting requests are answered, the runner and other keepers are told
///
/// The lock is held while deciding and never while calling out: not to waiting requests, the runner or another keeper. Readers
/// on the request path take what ``decide(_:)`` has published, without that lock.
///
/// ``work()`` does everything that waits (store, authority, audit log), one thing after the other. A token is therefore never
/// requested twice at a time. Between its turns a keeper has no task: ``run()`` or ``KeeperSupervisor`` calls ``work()`` when
/// it is due or asks for it.
package final class TokenKeeper: CredentialSource, Service {
    typealias Done = @Sendable (Result<Credential, GatewayProblem>) -> Void
    typealias Machine = TokenLifecycle<Done>

    /// How long a call to the authority may take, whatever `limits.credential_timeout` says: it has to end before the lease of the
    /// token's record does (20 s), and a stop waits for it.
    package static let callDeadline: Duration = TokenRequest.longestCall
    /// How many commands of operators may wait to be carried out.
    static let commandLimit = 64

    let context: KeeperContext
    let jitter: @Sendable () -> Double
    private let state: Mutex<State>
    package let rejections: RejectionRecord? = RejectionRecord()

    /// - Parameters:
    ///   - trigger: `startup`, `reload` for a credential that came with one, `demand` for one that a request named.
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
    /// The credential whose requests name the subject; nil for one that the configuration names.
    package var perSubjectCredential: String? { context.callLimit?.name }
    package var strategy: String { context.strategyKind }
    /// Which token it keeps.
    package var key: CredentialKey { context.key }
    package var grantKey: CredentialKey? { context.key }
    /// The first server that it asks for tokens; nil where none is named.
    package var authority: Origin? { context.grant.authorityEndpoints.first?.origin }
    package var isRenewable: Bool { context.isRenewable }
    package var tokenPlace: String? { context.grant.tokenPlace }
    /// Whether a renewal needs the store, because it spends what the next one needs.
    package var rotatesRefreshToken: Bool { context.grant.rotatesRefreshToken }
    /// How a person logs in for this token; nil when no login exists for it.
    package var login: (any LoginFlow)? { context.grant.login }

    // MARK: State

    private struct State: ~Copyable {
        var machine: Machine
        /// nil during a turn, which has it to itself.
        var renewer: TokenRenewer?
        /// Why it takes no more commands, and ends with the turn under way; nil while it goes on.
        var ending: Ending?
        /// No gateway runs, so nothing is tried again by itself.
        var isAlone = false

        /// Who runs the keeper.
        var runner: (@Sendable (KeeperWork) -> Void)?
        /// What came before there was a runner.
        var unheard: Set<KeeperWork> = []

        var commands: [OperatorCommand] = []
        /// What the command under way has dropped: see ``OperatorCommand/Completion/drops``.
        var drops: [OperatorCommand] = []
        /// The generation whose rejection has yet to be stored.
        var rejection: Int?
        /// What somebody else has written to the store and the loop has yet to apply.
        var change: RemoteChange?
        var children: [Child] = []

        var auditBuffer = AuditBuffer()
        /// Requests that got no token since the last call that brought one.
        var withheldRequests = 0
        /// When the first call failed, as the status said it first.
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

    /// What another gateway, or an operator there, has written to the store.
    struct RemoteChange {
        let entry: TokenEntry
        /// Requests wait until it is applied.
        let hasTakenAway: Bool
    }

    /// A keeper whose token is made from that of another one, which does not keep it alive.
    private struct Child {
        weak var keeper: TokenKeeper?
    }

    /// Decides, and publishes what readers are given from now on.
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

    /// No call is under way and no request waits, so the keeper can be dropped.
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

    /// Asks for the next token although the one of this generation may be live: see ``wait(for:_:)``.
    func waitForSuccessor(of generation: Int, for demand: CredentialRequest, _ done: @escaping Done) -> CredentialTicket
    {
        ask(done) { $0.needSuccessor(of: generation, by: done, ticket: $1, for: demand, at: $2) }
    }

    /// Puts the caller among those who wait, or answers at once.
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
        waiter?(.failure(GatewayProblem(.requestTimeout, "The request did not wait for the credential \(name).")))
    }

    package func rejected(generation: Int, by demand: CredentialRequest) {
        let outcome = state.withLock { state in
            let outcome = state.machine.rejected(generation: generation, by: demand)
            // Before anybody can be given the call that follows from it: see `turn`.
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
            // Each request that cannot be served is one.
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
        detail: [String: String] = [:]
    ) {
        var event = context.event(name, generation: generation)
        event.demand = demand
        event.detail = detail
        event.detail["engine"] = demand.engine
        switch state.withLock({ $0.auditBuffer.add(event) }) {
        case .lost: context.metrics.noteDropped()
        case .first: signal(.auditEvents)
        // Whoever was told of the first goes on until none waits.
        case .behindOthers: break
        }
    }
}

/// The background work: one thing at a time until shutdown.
extension TokenKeeper {
    /// Runs this keeper alone. Returns at graceful shutdown once the call under way has ended, or soon after the task was
    /// cancelled.
    package func run() async throws {
        let turns = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let auditEvents = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        onSignal { work in
            if work == .auditEvents { auditEvents.continuation.yield() } else { turns.continuation.yield() }
        }
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                // Beside the turns, so that an event does not wait for the authorization server.
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

    /// - Parameter runner: Told what there is to do, on any thread; must return at once. What came before is told, too. nil: what
    ///   comes waits for the next one.
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

    /// Whether ``finish()`` is the next thing to do.
    package var isEnding: Bool { isStopping || Task.isCancelled }

    private var isStopping: Bool { state.withLock { $0.ending != nil } }

    /// Does what is due, one thing after the other. Must not be called again before it has returned.
    ///
    /// - Returns: When there is something to do again; nil when it will say so.
    package func work() async -> MonotonicTime? {
        var renewer = takeRenewer()
        defer { putBack(renewer) }
        while !isEnding {
            if case .rest(let due) = await using(&renewer, turn) { return due }
        }
        return nil
    }

    /// Stops like a shutdown: a call under way ends, a live token is still handed out to requests that began before.
    package func retire() {
        state.withLock { $0.ending = .retired }
        wake(.command)
    }

    /// Makes its runner look for something to do.
    func wake(_ urgency: WorkUrgency = .background) { signal(.turn(urgency)) }

    /// Makes the keeper take no more commands. Its runner has to call ``finish()``.
    package func stop() {
        state.withLock { $0.ending = $0.ending ?? .shutdown }
        wake(.command)
    }

    /// The end of a run: refuses what waits, and stores what the store has not taken yet. ``work()`` must have returned.
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

    /// Refuses the requests that wait, and accepts no more.
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

    /// What to say of a keeper that has stopped.
    private func stopProblem(_ problem: GatewayProblem) -> GatewayProblem {
        guard state.withLock({ $0.ending == .retired }) else { return problem }
        return .changed(name)
    }

    /// The last chance to store what the store has not taken yet: the next keeper of this token begins with what is
    /// stored.
    private func storeWhatIsLeft(_ renewer: inout TokenRenewer) async {
        await storeRejection(&renewer)
        if renewer.pendingWrite != .none { await renewer.saveAgain() }
        await renewer.endLease()
    }

    /// Writes the events of the request path that wait.
    ///
    /// Several calls may run at a time, as at the end of a run. Each event is written by one of them, in no certain order.
    func writeBufferedEvents() async {
        while true {
            let batch = state.withLock { $0.auditBuffer.take() }
            guard !batch.isEmpty else { return }
            for event in batch {
                // At shutdown, each of the remaining events would wait as long as this one did.
                if await context.note(event) != nil, isStopping { return }
            }
        }
    }

    private enum TurnEnd {
        case again
        /// Nothing to do until this time, or until the keeper is woken.
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
            // Stored before the call: a rejection that came since must outlive the process, however long the call takes.
            await storeRejection(&renewer)
            if await isGranted(call) { await make(call, &renewer) }
        case .storm(let waiters, let problem, let call):
            for waiter in waiters { waiter(.failure(problem)) }
            await reportStorm(problem, call)
        case .expiringSoon(let held):
            warn("Ends soon", about: held)
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
            guard let due = renewer.pendingWrite.due else { return .rest(until: until) }
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

    /// Returns when it is woken, when `until` has come (nil: never), or when the task is cancelled.
    private func sleep(until: MonotonicTime?, or wakeUps: AsyncStream<Void>) async {
        await withTaskGroup(of: Void.self) { group in
            if let until {
                group.addTask {
                    do {
                        try await self.context.clock.sleep(for: until - self.context.clock.now().monotonic)
                        self.wake()
                    } catch {
                        // Cancelled: it was woken before.
                    }
                }
            }
            var iterator = wakeUps.makeAsyncIterator()
            _ = await iterator.next()
            group.cancelAll()
        }
    }
}

/// Calls to the authority, and what comes of them.
extension TokenKeeper {
    /// Whether the subjects of the credential have a call left for this one, and their password was not refused. If not, every
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

    /// Takes a token that no call has brought: from an operator, or from the store.
    func install(_ fresh: FreshToken) {
        let (now, jitter) = (context.clock.now(), jitter())
        let outcome = decide { $0.import(fresh, at: now, jitter: jitter) }
        rejections?.replaced(by: fresh.generation, isOwn: false, at: now.monotonic)
        release(outcome)
    }

    /// Works with the renewer. Afterwards the status shows what that has found out about the refresh token.
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

    /// Whether a failure leaves nothing that could be used, until a person has brought another token.
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
            "Too many token requests; slowed down to one a minute",
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

/// Single steps under the lock, for operators, reloads and the files beside this one, which do not see the machine.
extension TokenKeeper {
    /// The highest generation there has been.
    var highestGeneration: Int { read { $0.generation } }
    var held: HeldToken? { read { $0.held } }
    /// The token, unless it must not be given to anybody.
    var servable: HeldToken? { read { $0.servable == nil ? nil : $0.held } }
    /// Why there is no new token at the moment; nil when nothing is wrong.
    var lastFailure: TokenFailure? { read { $0.lastFailure } }
    /// Whether another gateway is renewing the token.
    var isPostponed: Bool { read { $0.isPostponed } }

    /// nil unless an operator has locked it.
    package var lockedProblem: GatewayProblem? { read { $0.isLocked ? $0.lockedProblem : nil } }

    /// Refuses the requests that wait. Does not record it: the caller does where a person asked for it.
    package func lock() {
        change(isLocked: true)()
    }

    /// A reload has left the credential as it is: what failed for a reason of the configuration may be tried again.
    package func reloaded() {
        let sendsSecrets = context.grant.sendsSecrets
        if decide({ $0.reloaded(sendsSecrets: sendsSecrets) }) { wake() }
    }

    package func unlock() {
        change(isLocked: false)()
    }

    /// Locks or unlocks for a caller that decides under a lock of its own.
    ///
    /// - Returns: The rest, to be done after that lock: it refuses the requests that wait, or wakes the keeper.
    package func change(isLocked: Bool) -> @Sendable () -> Void {
        guard isLocked else {
            decide { $0.unlock() }
            return { self.wake() }
        }
        let (waiters, problem) = decide { $0.lock() }
        return { for waiter in waiters { waiter(.failure(problem)) } }
    }

    /// Locks or unlocks as the store says. Does not record it: see ``SharedUnlocks`` for what is.
    ///
    /// - Returns: See ``change(isLocked:)``; nil if it is so already.
    package func follow(isLocked: Bool) -> (@Sendable () -> Void)? {
        read { $0.isLocked } == isLocked ? nil : change(isLocked: isLocked)
    }

    /// The store works again: a call that failed for its sake is made now.
    func storeReturned() {
        if decide({ $0.storeReturned() }) { wake() }
    }

    /// Begins a call for an operator; nil while locked, or while another call is under way.
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

    /// Forgets the token before the turn of a `clear`. Requests wait until then.
    func beginClear() { decide { $0.beginClear() } }

    /// Forgets the token and any refusal. Requests that wait cause a new call.
    func forget() { decide { $0.clear() } }

    /// Says at once when only a person can go on.
    func leave(_ renewer: inout TokenRenewer) {
        let isSeeded = renewer.record == nil && context.grant.seed(at: context.clock.now()) != nil
        guard !isSeeded, let failure = renewer.obstacle.map(context.advised) else { return decide { $0.clear() } }
        for waiter in decide({ $0.clear(leaving: failure) }) { waiter(.failure(failure.problem)) }
    }

    /// Hands out nothing until ``resume()``. Requests wait.
    func suspend() { decide { $0.suspend() } }

    func resume() {
        let now = context.clock.now().monotonic
        release(decide { $0.resume(at: now) })
    }
}

/// Commands of operators that wait for their turn.
extension TokenKeeper {
    func enqueue(_ command: OperatorCommand) -> Bool {
        // A right is taken away however many commands wait.
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

    /// Lets messages promise nothing that only a running gateway does, such as to store later what the store did not take.
    package func runOffline() { state.withLock { $0.isAlone = true } }

    var isAlone: Bool { state.withLock { $0.isAlone } }
}

/// What other gateways, and operators there, have written to the store.
extension TokenKeeper {
    /// Whether the store holds another record than this keeper knows.
    package func isUnknown(_ revision: TokenRevision) -> Bool { revision != context.published.revision }

    /// Has an entry of the store applied. What it takes away is not handed out from now on, as with ``withdrawNow(_:)``.
    ///
    /// - Returns: Whether it takes the token away.
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

    /// Reads what others may have written, before the authority is told of a token.
    func readRemoteChange(_ renewer: inout TokenRenewer) async {
        guard context.store.isShared, renewer.phase == .open, let entry = try? await context.store.load(context.key)
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
        guard renewer.phase != .unread, let change = nextRemoteChange(&renewer) else { return false }
        await apply(change.entry, &renewer)
        if change.hasTakenAway { resume() }
        return true
    }

    /// What has overtaken a write comes first. A change may be one of the keeper's own writes.
    private func nextRemoteChange(_ renewer: inout TokenRenewer) -> RemoteChange? {
        if let entry = renewer.takeOvertaking() { return RemoteChange(entry: entry, hasTakenAway: false) }
        return state.withLock { $0.change.take() }
    }

    /// Takes from the store what can be shown while no gateway runs the keeper; uses and records nothing.
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

    /// The token was taken away at another gateway.
    private func forgetWithdrawn(_ renewer: inout TokenRenewer) {
        leave(&renewer)
        dropDescendants()
    }
}

/// A refresh token that the authority has refused to another gateway, or to an earlier run of this one.
extension TokenKeeper {
    /// Asks for a login if the record says that the refresh token was refused, and does not ask the authority.
    func followRefusal(_ renewer: TokenRenewer) async {
        let now = context.clock.now().monotonic
        guard let (failure, waiters) = stop(forRefusalIn: renewer, at: now) else { return }
        for waiter in waiters { waiter(.failure(failure.problem)) }
        context.logger.warning(
            "The authority has refused the refresh token before; it is not sent again",
            metadata: [
                "gateway.credential": "\(name)", "gateway.error": "\(failure.problem.cause?.code ?? "none")",
                "gateway.problem": "\(failure.problem.kind.rawValue)",
            ]
        )
        await renewer.noteLogin(failure)
        if isGone(after: failure, at: now) { dropDescendants() }
    }

    /// - Returns: Why a login is needed from now on, and who waits; nil when nothing has changed.
    private func stop(forRefusalIn renewer: TokenRenewer, at now: MonotonicTime) -> (TokenFailure, [Done])? {
        guard let refusal = renewer.record?.knownRefusal else { return nil }
        let failure = context.advised(refusal.failure)
        return decide { $0.stop(forRefusal: failure, at: now) }.map { (failure, $0.waiters) }
    }
}

/// Forgetting what was made from a token, as soon as the token itself is forgotten.
extension TokenKeeper {
    /// From now on the token of `child` ends when this token is revoked, cleared or refused for good. It also ends
    /// when a person replaces this token, because the new token may belong to another account.
    package func adopt(_ child: TokenKeeper) {
        state.withLock { state in
            state.children.removeAll { $0.keeper == nil }
            state.children.append(Child(keeper: child))
        }
    }

    /// The keepers whose tokens are made from this one, directly or through another.
    var descendants: [TokenKeeper] {
        // Each is asked without the lock of the one above it.
        state.withLock { $0.children.compactMap(\.keeper) }.flatMap { [$0] + $0.descendants }
    }

    /// Hands out none of their tokens from now on; their stores forget them when the commands are carried out.
    @discardableResult
    func dropDescendants() -> [OperatorCommand] {
        descendants.map { child in
            let command = OperatorCommand(.drop)
            child.decide { $0.clear() }
            if child.enqueue(command) { child.wake(.command) } else { command.finish(.failure(child.busyProblem)) }
            return command
        }
    }

    /// Drops them on behalf of an operator, who waits until that is done.
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

/// What operators are shown.
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
        // No request has needed it yet; the first one that does gets this problem.
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
            status.remainingSeconds = held.credential.expiresAt.map {
                Int(max(($0 - now.monotonic).wholeMilliseconds / 1000, 0))
            }
            if held.lacksRefreshToken { status.lacksRefreshToken = true }
            if let end = held.lacksRefreshToken ? held.token.expiresAt : held.token.refreshTokenExpiresAt {
                status.renewalExpiresAt = end.rfc3339
                status.renewalRemainingSeconds = Int(max((end - now.wall).wholeMilliseconds / 1000, 0))
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
            // Restored: its refresh token is not sent by itself.
            status.action = context.loginCommand ?? context.importCommand
        }
        return status
    }

    /// How many clients with an empty budget are named.
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

    /// The time of the first failure, the same in each answer: the two clocks are not read at once, and differ by some milliseconds
    /// each time.
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

    /// What of this credential's token only a person can replace, and when that ends.
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

/// What a keeper has to do.
enum KeeperWork: Hashable, Sendable {
    /// ``TokenKeeper/work()``.
    case turn(WorkUrgency)
    /// ``TokenKeeper/writeBufferedEvents()``.
    case auditEvents
}

/// Events of the request path that wait for the audit log, so that no request does.
struct AuditBuffer: Sendable {
    /// How many may wait.
    static let limit = 1024

    private var waiting: [TokenEvent] = []
    private var firstUses = FirstUses()
    private var withheld = EventBudget()

    /// See ``FirstUses/isFirst(generation:route:)``.
    mutating func isFirstUse(of generation: Int, on route: String) -> Bool {
        firstUses.isFirst(generation: generation, route: route)
    }

    /// Asks for room for one event of a request that got no token: see ``EventBudget/spend(at:)``.
    mutating func spendForWithheld(at now: MonotonicTime) -> Int? { withheld.spend(at: now) }

    enum Addition {
        /// Too many wait.
        case lost
        /// None waited before.
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
