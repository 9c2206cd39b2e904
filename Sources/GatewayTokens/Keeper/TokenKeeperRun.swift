import GatewayEvents
package import GatewayHTTP
import Logging
import ServiceLifecycle
import Synchronization

/// The background work: one thing at a time until shutdown.
extension TokenKeeper {
    /// Runs this keeper alone. Returns at graceful shutdown once the call under way has ended, or soon after the task was
    /// cancelled.
    package func run() async throws {
        let turns = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let notes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        onSignal { work in
            if work == .notes { notes.continuation.yield() } else { turns.continuation.yield() }
        }
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                // Beside the turns, so that a note does not wait for the authority.
                group.addTask { for await _ in notes.stream { await self.writeNotes() } }
                while !isEnding {
                    let due = await work()
                    if !isEnding { await sleep(until: due, or: turns.stream) }
                }
                await finish()
                notes.continuation.finish()
            }
        } onGracefulShutdown: {
            self.stop()
        }
    }

    /// - Parameter answer: Told what there is to do, on any thread; must return at once. What came before is told, too.
    package func onSignal(_ answer: (@Sendable (KeeperWork) -> Void)?) { signal.set(answer) }

    /// Whether ``finish()`` is the next thing to do.
    package var isEnding: Bool { isStopping.load(ordering: .acquiring) || Task.isCancelled }

    /// Does what is due, one thing after the other. Must not be called again before it has returned.
    ///
    /// - Returns: When there is something to do again; nil when it will say so.
    package func work() async -> MonotonicTime? {
        var renewer = renewer.withLock { $0 }
        defer { self.renewer.withLock { [renewer] in $0 = renewer } }
        while !isEnding {
            if case .rest(let due) = await turn(&renewer) { return due }
        }
        return nil
    }

    /// Stops like a shutdown: a call under way ends, a live token is still handed out to requests that began before.
    package func retire() {
        isRetired.store(true, ordering: .relaxed)
        stop()
    }

    /// Makes its runner look for something to do.
    func wake(_ urgency: WorkUrgency = .background) { signal.send(.turn(urgency)) }

    /// It takes no more commands. Who runs it has to call ``finish()``.
    package func stop() {
        isStopping.store(true, ordering: .releasing)
        wake(.command)
    }

    /// The end of a run: refuses what waits, and stores what the store has not taken yet.
    package func finish() async {
        close()
        var renewer = renewer.withLock { $0 }
        await storeWhatIsLeft(&renewer)
        self.renewer.withLock { [renewer] in $0 = renewer }
        await writeNotes()
    }

    /// Refuses the requests that wait, and accepts no more.
    package func close() {
        isStopping.store(true, ordering: .releasing)
        let (waiters, stopped) = decide { $0.stop() }
        let problem = stopProblem(stopped)
        for waiter in waiters { waiter(.failure(problem)) }
        let commands = commands.withLock { commands in
            defer { commands = [] }
            return commands
        }
        for command in commands { command.finish(.failure(problem)) }
    }

    /// What to say of a keeper that has stopped.
    func stopProblem(_ problem: GatewayProblem) -> GatewayProblem {
        guard isRetired.load(ordering: .relaxed) else { return problem }
        let detail = "The credential \(name) was changed or removed while the request waited; send it again."
        return GatewayProblem(.draining, detail, retryAfter: .seconds(1))
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
    package func writeNotes() async {
        while true {
            let batch = notes.take()
            guard !batch.isEmpty else { return }
            for event in batch {
                // At the end, each of the others would wait as long.
                if await context.note(event) != nil, isStopping.load(ordering: .acquiring) { return }
            }
        }
    }

    private enum TurnEnd {
        case again
        /// Until then, or until it is woken.
        case rest(until: MonotonicTime?)
    }

    private func turn(_ renewer: inout TokenRenewer) async -> TurnEnd {
        if let command = nextCommand() {
            await carryOut(command, &renewer)
            return .again
        }
        if await storeRejection(&renewer) { return .again }
        if await applyNews(&renewer) { return .again }
        await followRefusal(renewer)
        let now = context.clock.now()
        switch decide({ $0.next(at: now.monotonic) }) {
        case .call(let call):
            // One that came since has to outlive the call, however long that takes.
            await storeRejection(&renewer)
            if await isGranted(call) { await make(call, &renewer) }
        case .storm(let waiters, let problem, let call):
            for waiter in waiters { waiter(.failure(problem)) }
            await reportStorm(problem, call)
        case .expiringSoon(let held):
            await context.note(announcement(.expiringSoon, of: held))
        case .expired(let held):
            var event = announcement(.expired, of: held)
            event.outcome = .failed
            if !isRenewable { event.errorCode = ProblemKind.staticTokenExpired.rawValue }
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
        guard let generation = rejection.withLock({ $0.take() }) else { return false }
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
        showUncertainty(of: renewer)
    }

    private func advised(_ failure: TokenFailure) -> TokenFailure {
        failure.class == .terminal && isAlone.load(ordering: .relaxed) ? failure : context.advised(failure)
    }

    func perform(_ call: TokenCall, by renewer: inout TokenRenewer) async -> TokenRenewer.End {
        let generation = look { $0.generation }
        return await renewer.perform(call, after: generation) { self.look { $0.waiterCount } }
    }

    func use(_ fresh: FreshToken, obtainedBy call: TokenCall) {
        context.callLimit?.expect(fresh.token, renewedBy: context.policy)
        let (now, jitter) = (context.clock.now(), jitter())
        let outcome = decide { $0.obtained(fresh, by: call, at: now, jitter: jitter) }
        if case .ignored = outcome { return }
        rejections?.replaced(by: fresh.generation, isOwn: !fresh.isAdopted, at: now.monotonic)
        release(outcome)
    }

    /// Makes the status say what the renewer knows of the refresh token.
    func showUncertainty(of renewer: TokenRenewer) {
        let isUncertain = renewer.isUncertain && !context.grant.canAcquireAnew
        decide { $0.show(isRotationUncertain: isUncertain) }
    }

    /// Whether a failure leaves nothing that could be used, until a person has brought another token.
    func isGone(after failure: TokenFailure, at now: MonotonicTime) -> Bool {
        if failure.clearsToken { return true }
        guard failure.class.asksForLogin, look({ $0.generation }) > 0 else { return false }
        return look { $0.servable }?.isUsable(at: now) != true
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
