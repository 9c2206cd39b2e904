import GatewayCore
import Logging
import ServiceLifecycle
import Synchronization

/// The background work: one thing at a time until shutdown.
extension TokenKeeper {
    /// Returns at graceful shutdown once the call under way has ended, or soon after the task was cancelled.
    package func run() async throws {
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.writeNotes() }
                var worker = TokenRenewer(setup: setup)
                while !doorbell.isClosed, !Task.isCancelled { await turn(&worker) }
                close()
                await storeWhatIsLeft(&worker)
            }
            await writeWaitingNotes()
        } onGracefulShutdown: {
            self.doorbell.close()
        }
    }

    /// Stops like a shutdown: a call under way ends, a live token is still handed out to requests that began before.
    package func retire() {
        isRetired.store(true, ordering: .relaxed)
        doorbell.close()
    }

    /// Refuses the requests that wait, and accepts no more.
    package func close() {
        doorbell.close()
        let (waiters, stopped) = decide { $0.stop() }
        let problem = stopProblem(stopped)
        for waiter in waiters { waiter(.failure(problem)) }
        let orders = orders.withLock { orders in
            defer { orders = [] }
            return orders
        }
        for order in orders { order.finish(.failure(problem)) }
        noteBell.close()
    }

    /// What to say of a keeper that has stopped.
    func stopProblem(_ problem: GatewayProblem) -> GatewayProblem {
        guard isRetired.load(ordering: .relaxed) else { return problem }
        let detail = "The credential \(name) was changed or removed while the request waited; send it again."
        return GatewayProblem(.draining, detail, retryAfter: .seconds(1))
    }

    /// The last chance to store what the store has not taken yet: the next keeper of this token begins with what is
    /// stored.
    private func storeWhatIsLeft(_ worker: inout TokenRenewer) async {
        await storeRejection(&worker)
        if worker.saveIsDue != nil { await worker.saveAgain() }
    }

    /// Beside the loop, so that a note does not wait for the authority.
    private func writeNotes() async {
        while !noteBell.isClosed {
            await writeWaitingNotes()
            await noteBell.wait(atMost: nil, on: setup.clock)
        }
    }

    private func writeWaitingNotes() async {
        while true {
            let batch = notes.withLock { notes in
                defer { notes = [] }
                return notes
            }
            guard !batch.isEmpty else { return }
            for event in batch { await setup.note(event) }
        }
    }

    private func turn(_ worker: inout TokenRenewer) async {
        if let order = nextOrder() { return await carryOut(order, &worker) }
        if await storeRejection(&worker) { return }
        let now = setup.clock.now()
        switch decide({ $0.next(at: now.monotonic) }) {
        case .call(let call):
            // One that came since has to outlive the call, however long that takes.
            await storeRejection(&worker)
            if await isGranted(call) { await make(call, &worker) }
        case .storm(let waiters, let problem, let call):
            for waiter in waiters { waiter(.failure(problem)) }
            await reportStorm(problem, call)
        case .expiringSoon(let held):
            await setup.note(announcement(.expiringSoon, of: held))
        case .expired(let held):
            var event = announcement(.expired, of: held)
            event.outcome = .failed
            if !isRenewable { event.errorCode = ProblemKind.staticTokenExpired.rawValue }
            await setup.note(event)
        case .sleep(let until):
            guard let due = worker.saveIsDue else { return await sleep(until: until, at: now.monotonic) }
            guard due > now.monotonic else { return await worker.saveAgain() }
            await sleep(until: min(due, until ?? due), at: now.monotonic)
        }
    }

    /// - Returns: Whether there was one.
    @discardableResult
    private func storeRejection(_ worker: inout TokenRenewer) async -> Bool {
        guard let generation = rejection.withLock({ $0.take() }) else { return false }
        await worker.storeRejection(of: generation)
        return true
    }

    private func sleep(until: MonotonicTime?, at now: MonotonicTime) async {
        await doorbell.wait(atMost: until.map { $0 - now }, on: setup.clock)
    }

    func make(_ call: TokenCall, _ worker: inout TokenRenewer) async {
        switch await perform(call, by: &worker) {
        case .obtained(let fresh):
            use(fresh, obtainedBy: call)
        case .nothing:
            decide { $0.foundNothing(by: call) }
        case .failed(let refusal):
            let failure = setup.advised(refusal)
            let (now, jitter) = (setup.clock.now().monotonic, jitter())
            let refused = decide { $0.failed(failure, by: call, at: now, jitter: jitter) }
            for waiter in refused?.waiters ?? [] { waiter(.failure(refused?.problem ?? failure.problem)) }
            if isGone(after: failure, at: now) { dropDescendants() }
        }
        showUncertainty(of: worker)
    }

    func perform(_ call: TokenCall, by worker: inout TokenRenewer) async -> TokenRenewer.End {
        let generation = look { $0.generation }
        return await worker.perform(call, after: generation) { self.look { $0.waiterCount } }
    }

    func use(_ fresh: FreshToken, obtainedBy call: TokenCall) {
        setup.family?.expect(fresh.token, renewedBy: setup.policy)
        let (now, jitter) = (setup.clock.now(), jitter())
        release(decide { $0.obtained(fresh, by: call, at: now, jitter: jitter) })
    }

    /// Makes the status say what the worker knows of the refresh token.
    func showUncertainty(of worker: TokenRenewer) {
        let isUncertain = worker.isUncertain
        decide { $0.isRotationUncertain = isUncertain }
    }

    /// Whether a failure leaves nothing that could be used, until a person has brought another token.
    private func isGone(after failure: TokenFailure, at now: MonotonicTime) -> Bool {
        if failure.clearsToken { return true }
        guard case .loginRequired = failure.class, look({ $0.generation }) > 0 else { return false }
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
        var event = setup.event(name, generation: held.generation)
        event.expiresAt = held.token.expiresAt
        return event
    }

    private func reportStorm(_ problem: GatewayProblem, _ call: TokenCall) async {
        setup.metrics.storm()
        setup.logger.error(
            "Too many token requests; slowed down to one a minute",
            metadata: ["gateway.credential": "\(name)", "gateway.trigger": "\(call.trigger.rawValue)"]
        )
        var event = setup.event(.renewalFailed, trigger: call.trigger)
        event.demand = call.demand
        event.outcome = .failed
        event.errorCode = problem.kind.rawValue
        event.detail = ["reason": "too_many_calls"]
        await setup.note(event)
    }
}
