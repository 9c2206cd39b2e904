package import GatewayCore
import Synchronization

/// What an operator has ordered; carried out by the keeper's loop, between calls.
struct Order: Sendable {
    enum Kind: Sendable {
        case refresh
        case clear
        case `import`(TokenSet)
        case login(TokenSet)
        case lock
        case unlock
    }

    let kind: Kind
    let done: CheckedContinuation<Result<TokenStatus, GatewayProblem>, Never>
}

extension TokenKeeper {
    /// Renews now, whatever the age of the token.
    package func refresh() async -> Result<TokenStatus, GatewayProblem> { await order(.refresh) }

    /// Forgets the token here and in the store; the authority is not told.
    package func clear() async -> Result<TokenStatus, GatewayProblem> {
        await order(.clear)
    }

    /// Takes this token in the place of any other; when it can be renewed by spending a part of it, that is tried at once.
    package func `import`(_ token: TokenSet) async -> Result<TokenStatus, GatewayProblem> {
        await order(.import(token))
    }

    /// Takes what a person's login has just brought, in the place of any other.
    package func logIn(with token: TokenSet) async -> Result<TokenStatus, GatewayProblem> {
        await order(.login(token))
    }

    /// Stops injecting at once, before it returns; makes no further calls.
    package func lock() async -> Result<TokenStatus, GatewayProblem> {
        let (waiters, problem) = decide { $0.lock() }
        for waiter in waiters { waiter(.failure(problem)) }
        return await order(.lock)
    }

    package func unlock() async -> Result<TokenStatus, GatewayProblem> { await order(.unlock) }

    private func order(_ kind: Order.Kind) async -> Result<TokenStatus, GatewayProblem> {
        await withCheckedContinuation { done in
            let isTaken = orders.withLock { orders in
                guard orders.count < Self.orderLimit, !doorbell.isClosed else { return false }
                orders.append(Order(kind: kind, done: done))
                return true
            }
            guard isTaken else {
                let detail = "The credential \(name) takes no orders now: the gateway is busy or shutting down."
                return done.resume(returning: .failure(GatewayProblem(.draining, detail)))
            }
            doorbell.ring()
        }
    }

    func nextOrder() -> Order? { orders.withLock { $0.isEmpty ? nil : $0.removeFirst() } }

    func carryOut(_ order: Order, _ worker: inout TokenWorker) async {
        switch order.kind {
        case .refresh:
            return order.done.resume(returning: await refresh(&worker))
        case .clear:
            decide { $0.clear() }
            await worker.clear()
        case .import(let token):
            if let problem = await take(token, &worker) { return order.done.resume(returning: .failure(problem)) }
        case .login(let token):
            if let problem = await install(token, as: .loginCompleted, &worker) {
                return order.done.resume(returning: .failure(problem))
            }
        case .lock:
            await setup.note(setup.event(.locked, trigger: .operator))
        case .unlock:
            decide { $0.unlock() }
            await setup.note(setup.event(.unlocked, trigger: .operator))
        }
        order.done.resume(returning: .success(status(at: setup.clock.now())))
    }

    private func refresh(_ worker: inout TokenWorker) async -> Result<TokenStatus, GatewayProblem> {
        // What no person can renew must not lose the token it still has to a refusal.
        if !isRenewable {
            let attempt = setup.attempt(holding: look { $0.held?.token })
            if case .impossible(let failure) = setup.grant.firstStep(of: attempt) { return .failure(failure.problem) }
        }
        guard let call = decide({ $0.refresh() }) else {
            return .failure(GatewayProblem(.locked, "An operator has locked the credential \(name)."))
        }
        await make(call, &worker)
        if let failure = look({ $0.lastFailure }) { return .failure(failure.problem) }
        return .success(status(at: setup.clock.now()))
    }

    private func take(_ token: TokenSet, _ worker: inout TokenWorker) async -> GatewayProblem? {
        if let problem = await install(token, as: .imported, &worker) { return problem }
        guard setup.grant.rotates else { return nil }
        if case .failure(let problem) = await refresh(&worker) { return problem }
        return nil
    }

    private func install(
        _ token: TokenSet,
        as event: TokenEvent.Name,
        _ worker: inout TokenWorker
    ) async -> GatewayProblem? {
        let fresh: FreshToken
        switch await worker.take(token, as: event, generation: look { $0.generation } + 1) {
        case .success(let taken): fresh = taken
        case .failure(let failure): return failure.problem
        }
        let (now, jitter) = (setup.clock.now(), jitter())
        release(decide { $0.import(fresh, at: now, jitter: jitter) })
        return nil
    }
}
