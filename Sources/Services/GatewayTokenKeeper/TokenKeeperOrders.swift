package import GatewayCore
import Synchronization

extension TokenKeeper {
    /// How long an operator waits for an order, the calls before it included.
    package static let orderDeadline: Duration = .seconds(50)

    package func perform(_ operation: TokenOperation) async -> Result<OperationReport, GatewayProblem> {
        // At once, before the order's turn comes.
        if case .lock = operation { lock() }
        return report(await settled(carriedOut(OperatorCommand(.operation(operation)))))
    }

    /// Takes what a person's login has just brought, in the place of any other.
    package func logIn(with token: TokenSet) async -> Result<TokenStatus, GatewayProblem> {
        report(await settled(carriedOut(OperatorCommand(.login(token))))).map(\.token)
    }

    private func report(_ outcome: OperatorCommand.Outcome) -> Result<OperationReport, GatewayProblem> {
        outcome.map { OperationReport(message: $0, token: status(at: setup.clock.now())) }
    }

    private func carriedOut(_ order: OperatorCommand) async -> OperatorCommand.Outcome {
        guard enqueue(order) else { return .failure(busyProblem) }
        doorbell.ring()
        return await end(of: order)
    }

    var busyProblem: GatewayProblem {
        let detail = "The credential \(name) takes no orders now: the gateway is busy or shutting down."
        return GatewayProblem(.draining, detail)
    }

    func end(of order: OperatorCommand) async -> OperatorCommand.Outcome {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.expire(order) }
            let outcome = await order.end()
            group.cancelAll()
            return outcome
        }
    }

    /// Carries out an operation while nobody runs the keeper.
    package func performAlone(_ operation: TokenOperation) async -> Result<OperationReport, GatewayProblem> {
        if case .lock = operation { lock() }
        var worker = TokenRenewer(setup: setup)
        let order = OperatorCommand(.operation(operation))
        await carryOut(order, &worker)
        await dropAlone()
        return report(await settled(order.end()))
    }

    /// Takes from the store what there is to show while nobody runs the keeper; uses and records nothing.
    package func look() async {
        var worker = TokenRenewer(setup: setup)
        do throws(TokenStoreError) {
            try await worker.loadRecord(highestGeneration: look { $0.generation })
        } catch {
            let failure = worker.unreadable(error)
            return decide { _ = $0.clear(leaving: failure) }
        }
        let isUncertain = worker.record?.attempt != nil
        if let record = worker.record, !record.isRevoked, !(record.isRejected && worker.obstacle != nil) {
            install(worker.fresh(record))
            decide { $0.isRotationUncertain = isUncertain }
        } else {
            leave(&worker)
        }
    }

    /// Locked from the start on, because it was when the gateway stopped.
    package func lock() {
        let (waiters, problem) = decide { $0.lock() }
        for waiter in waiters { waiter(.failure(problem)) }
    }

    package func unlock() {
        decide { $0.unlock() }
        doorbell.ring()
    }

    func enqueue(_ order: OperatorCommand) -> Bool {
        orders.withLock { orders in
            guard orders.count < Self.orderLimit, !doorbell.isClosed else { return false }
            orders.append(order)
            return true
        }
    }

    private func expire(_ order: OperatorCommand) async {
        do {
            try await setup.clock.sleep(for: Self.orderDeadline)
        } catch {
            // Done in time.
            return
        }
        let what =
            order.hasBegun
            ? "is still under way after \(Self.orderDeadline.wholeMilliseconds / 1000) s; the audit log will tell its end"
            : "did not get its turn within \(Self.orderDeadline.wholeMilliseconds / 1000) s, and was dropped"
        order.finish(.failure(GatewayProblem(.tokenEndpointTimeout, "The order for the credential \(name) \(what).")))
    }

    func nextOrder() -> OperatorCommand? { orders.withLock { $0.isEmpty ? nil : $0.removeFirst() } }

    func carryOut(_ order: OperatorCommand, _ worker: inout TokenRenewer) async {
        guard order.begin() else { return }
        switch order.kind {
        case .operation(let operation): order.finish(await outcome(of: operation, &worker))
        case .login(let token): order.finish(await logIn(with: token, &worker))
        case .drop: order.finish(await clear(&worker))
        }
    }

    private func outcome(of operation: TokenOperation, _ worker: inout TokenRenewer) async -> OperatorCommand.Outcome {
        switch operation {
        case .refresh: return await refresh(&worker).map { "\(name) has a new token." }
        case .revoke: return await revoke(&worker)
        case .clear:
            let outcome = await clear(&worker)
            dropDescendantsForOperator()
            return outcome
        case .import(let token):
            let outcome = await take(token, &worker)
            if case .success = outcome { dropDescendantsForOperator() }
            return outcome
        case .lock:
            await setup.note(setup.event(.locked, trigger: .operator))
            return .success("\(name) is locked: it is neither injected nor renewed.")
        case .unlock:
            unlock()
            await setup.note(setup.event(.unlocked, trigger: .operator))
            return .success("\(name) is unlocked.")
        }
    }

    private func logIn(with token: TokenSet, _ worker: inout TokenRenewer) async -> OperatorCommand.Outcome {
        switch await worker.take(token, as: .loginCompleted, after: look { $0.generation }) {
        case .failure(let failure): return .failure(failure.problem)
        case .success(let fresh): install(fresh)
        }
        dropDescendantsForOperator()
        return .success("\(name) is logged in.")
    }

    // MARK: Refresh

    private func refresh(_ worker: inout TokenRenewer) async -> Result<Void, GatewayProblem> {
        // What no person can renew must not lose the token it still has to a refusal.
        if !setup.grant.isRenewable {
            let attempt = setup.attempt(holding: look { $0.held?.token })
            if case .impossible(let failure) = setup.grant.firstStep(of: attempt) { return .failure(failure.problem) }
        }
        guard let call = decide({ $0.refresh() }) else { return .failure(look { $0.lockedProblem }) }
        await make(call, &worker)
        if let failure = look({ $0.lastFailure }) { return .failure(failure.problem) }
        return .success(())
    }

    // MARK: Clear

    private func clear(_ worker: inout TokenRenewer) async -> OperatorCommand.Outcome {
        decide { $0.clear() }
        let problem = await worker.clear(after: look { $0.generation })
        leave(&worker)
        if let problem { return .failure(problem) }
        return .success("\(name) is cleared: its token is forgotten here, and the authority was not told. \(sequel)")
    }

    /// Says at once when only a person can go on.
    private func leave(_ worker: inout TokenRenewer) {
        let isSeeded = worker.record == nil && setup.grant.seed(at: setup.clock.now()) != nil
        guard !isSeeded, let failure = worker.obstacle.map(setup.advised) else { return decide { $0.clear() } }
        for waiter in decide({ $0.clear(leaving: failure) }) { waiter(.failure(failure.problem)) }
    }

    /// What follows when there is no token any more.
    private var sequel: String {
        let (isLocked, failure) = look { ($0.isLocked, $0.lastFailure) }
        if isLocked { return "It stays locked." }
        return failure.map(\.problem.detail) ?? "The next request gets a new one."
    }

    // MARK: Revoke

    private func revoke(_ worker: inout TokenRenewer) async -> OperatorCommand.Outcome {
        do throws(TokenStoreError) {
            try await worker.loadRecord(highestGeneration: look { $0.generation })
        } catch {
            return .failure(worker.unreadable(error).problem)
        }
        switch worker.revocation {
        case .nothing:
            dropDescendantsForOperator()
            return .success("\(name) holds no token: there is nothing to revoke.")
        case .impossible(let problem): return .failure(problem)
        case .request(let request, let attempt):
            decide { $0.suspend() }
            let (problem, isForgotten) = await worker.revoke(by: request, in: attempt)
            if isForgotten {
                leave(&worker)
                dropDescendantsForOperator()
            } else {
                resume()
            }
            let told = isForgotten ? "The tokens are forgotten here all the same." : "The token is kept and still used."
            guard var problem else { return .success("\(name) is revoked at the authority and forgotten. \(sequel)") }
            problem.detail += " \(told)"
            return .failure(problem)
        }
    }

    private func resume() {
        release(decide { $0.resume(at: setup.clock.now().monotonic) })
    }

    // MARK: Import

    private func take(_ imported: ImportedToken, _ worker: inout TokenRenewer) async -> OperatorCommand.Outcome {
        let now = setup.clock.now()
        guard imported.access != nil || setup.grant.rotatesRefreshToken else {
            let detail = "access_token is missing: \(name) cannot get one for a refresh token."
            return .failure(GatewayProblem(.requestRefused, detail))
        }
        let token = setup.grant.completing(TokenSet(imported, at: now.wall))
        if let end = token.expiresAt, end <= now.wall {
            return .failure(GatewayProblem(.requestRefused, "The token has expired already, at \(end.rfc3339)."))
        }
        // A record that cannot be read is replaced.
        try? await worker.loadRecord(highestGeneration: look { $0.generation })
        let earlier = worker.record
        let fresh: FreshToken
        switch await worker.take(token, as: .imported, after: look { $0.generation }) {
        case .failure(let failure): return .failure(failure.problem)
        case .success(let taken): fresh = taken
        }
        guard setup.grant.rotatesRefreshToken, token.refreshToken != nil else {
            install(fresh)
            return .success(note(untried: nil))
        }
        return await refreshImported(fresh, replacing: earlier, &worker)
    }

    /// Refreshes an imported token before it is used.
    private func refreshImported(
        _ imported: FreshToken,
        replacing earlier: StoredToken?,
        _ worker: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        guard let call = decide({ $0.beginImport(generation: imported.generation) }) else {
            install(imported)
            return .success(note(untried: "It was not tried because the credential is locked."))
        }
        switch await perform(call, by: &worker) {
        case .obtained(let refreshed):
            use(refreshed, obtainedBy: call)
            return .success("\(name) has a new token: what was imported was renewed at once, and works.")
        case .nothing:
            install(imported)
            return .success(note(untried: nil))
        case .failed(let refusal):
            return await importFailed(refusal, of: imported, replacing: earlier, by: call, &worker)
        }
    }

    private func importFailed(
        _ refusal: TokenFailure,
        of imported: FreshToken,
        replacing earlier: StoredToken?,
        by call: TokenCall,
        _ worker: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        let kept = earlier.flatMap { $0.isRevoked ? nil : worker.fresh($0) }
        // With an earlier token nobody has to log in.
        let failure = kept == nil ? setup.advised(refusal) : refusal
        let (now, jitter) = (setup.clock.now(), jitter())
        let outcome = decide {
            $0.importFailed(failure, of: imported, replacing: kept, by: call, at: now, jitter: jitter)
        }
        switch outcome {
        case .postponed(let ended):
            release(ended)
            showUncertainty(of: worker)
            return .success(note(untried: "It could not be tried yet: \(failure.problem.detail)"))
        case .refused(let ended):
            release(ended)
            await restore(earlier, &worker)
            await noteRefusedImport(imported, failure)
        case .ignored:
            break
        }
        var problem = failure.problem
        let addition = kept == nil ? "" : ", and the earlier token is kept"
        problem.detail = "Nothing was imported\(addition). \(problem.detail)"
        if case .transient = failure.class {
            problem.detail += " The authority may have seen the imported refresh token; import it again, or a new one."
        }
        return .failure(problem)
    }

    /// The audit log has said that the token was imported.
    private func noteRefusedImport(_ imported: FreshToken, _ failure: TokenFailure) async {
        var event = setup.event(.imported, generation: imported.generation, trigger: .operator)
        event.outcome = .failed
        event.errorCode = failure.problem.cause?.code
        await setup.note(event)
    }

    /// Puts back into the store what it held before the import.
    private func restore(_ earlier: StoredToken?, _ worker: inout TokenRenewer) async {
        await worker.restore(earlier)
        if earlier?.isRevoked ?? true { leave(&worker) } else { showUncertainty(of: worker) }
    }

    private func note(untried reason: String?) -> String {
        ["\(name) uses the imported token.", reason].compactMap(\.self).joined(separator: " ")
    }

    private func install(_ fresh: FreshToken) {
        let (now, jitter) = (setup.clock.now(), jitter())
        release(decide { $0.import(fresh, at: now, jitter: jitter) })
    }
}

extension TokenSet {
    /// Without an access token it is one that cannot be used before it was renewed.
    fileprivate init(_ imported: ImportedToken, at now: UnixTime) {
        self.init(
            access: imported.access ?? Secret(""),
            refreshToken: imported.refreshToken,
            obtainedAt: now,
            expiresAt: imported.expiresAt ?? imported.lifetime.map { now + $0 }
        )
    }
}
