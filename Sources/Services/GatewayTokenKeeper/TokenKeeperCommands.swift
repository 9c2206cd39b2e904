package import GatewayCore
import Synchronization

extension TokenKeeper {
    /// How long an operator waits for a command, the calls before it included.
    package static let commandDeadline: Duration = .seconds(50)

    package func perform(_ operation: TokenOperation) async -> Result<OperationReport, GatewayProblem> {
        // At once, before the command's turn comes.
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

    private func carriedOut(_ command: OperatorCommand) async -> OperatorCommand.Outcome {
        guard enqueue(command) else { return .failure(busyProblem) }
        wake()
        return await end(of: command)
    }

    var busyProblem: GatewayProblem {
        let detail = "The credential \(name) takes no commands now: the gateway is busy or shutting down."
        return GatewayProblem(.draining, detail)
    }

    func end(of command: OperatorCommand) async -> OperatorCommand.Outcome {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.expire(command) }
            let outcome = await command.end()
            group.cancelAll()
            return outcome
        }
    }

    /// Carries out an operation while nobody runs the keeper.
    package func performAlone(_ operation: TokenOperation) async -> Result<OperationReport, GatewayProblem> {
        if case .lock = operation { lock() }
        var renewer = TokenRenewer(setup: setup)
        let command = OperatorCommand(.operation(operation))
        await carryOut(command, &renewer)
        await dropAlone()
        return report(await settled(command.end()))
    }

    /// Takes from the store what there is to show while nobody runs the keeper; uses and records nothing.
    package func look() async {
        var renewer = TokenRenewer(setup: setup)
        do throws(TokenStoreError) {
            try await renewer.loadRecord(highestGeneration: look { $0.generation })
        } catch {
            let failure = renewer.unreadable(error)
            return decide { _ = $0.clear(leaving: failure) }
        }
        let isUncertain = renewer.record?.attempt != nil
        if let record = renewer.record, !record.isRevoked, !(record.isRejected && renewer.obstacle != nil) {
            install(renewer.fresh(record))
            decide { $0.isRotationUncertain = isUncertain }
        } else {
            leave(&renewer)
        }
    }

    /// Locked from the start on, because it was when the gateway stopped.
    package func lock() {
        let (waiters, problem) = decide { $0.lock() }
        for waiter in waiters { waiter(.failure(problem)) }
    }

    package func unlock() {
        decide { $0.unlock() }
        wake()
    }

    func enqueue(_ command: OperatorCommand) -> Bool {
        commands.withLock { commands in
            guard commands.count < Self.commandLimit, !isStopping.load(ordering: .acquiring) else { return false }
            commands.append(command)
            return true
        }
    }

    private func expire(_ command: OperatorCommand) async {
        do {
            try await setup.clock.sleep(for: Self.commandDeadline)
        } catch {
            // Done in time.
            return
        }
        let what =
            command.hasBegun
            ? "is still under way after \(Self.commandDeadline.wholeMilliseconds / 1000) s; the audit log will tell its end"
            : "did not get its turn within \(Self.commandDeadline.wholeMilliseconds / 1000) s, and was dropped"
        let detail = "The command for the credential \(name) \(what)."
        command.finish(.failure(GatewayProblem(.tokenEndpointTimeout, detail)))
    }

    func nextCommand() -> OperatorCommand? { commands.withLock { $0.isEmpty ? nil : $0.removeFirst() } }

    func carryOut(_ command: OperatorCommand, _ renewer: inout TokenRenewer) async {
        guard command.begin() else { return }
        switch command.kind {
        case .operation(let operation): command.finish(await outcome(of: operation, &renewer))
        case .login(let token): command.finish(await logIn(with: token, &renewer))
        case .drop: command.finish(await clear(&renewer))
        }
    }

    private func outcome(of operation: TokenOperation, _ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        switch operation {
        case .refresh: return await refresh(&renewer).map { "\(name) has a new token." }
        case .revoke: return await revoke(&renewer)
        case .clear:
            let outcome = await clear(&renewer)
            dropDescendantsForOperator()
            return outcome
        case .import(let token):
            let outcome = await take(token, &renewer)
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

    private func logIn(with token: TokenSet, _ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        switch await renewer.take(token, as: .loginCompleted, after: look { $0.generation }) {
        case .failure(let failure): return .failure(failure.problem)
        case .success(let fresh): install(fresh)
        }
        dropDescendantsForOperator()
        return .success("\(name) is logged in.")
    }

    // MARK: Refresh

    private func refresh(_ renewer: inout TokenRenewer) async -> Result<Void, GatewayProblem> {
        // What no person can renew must not lose the token it still has to a refusal.
        if !setup.grant.isRenewable {
            let attempt = setup.attempt(holding: look { $0.held?.token })
            if case .impossible(let failure) = setup.grant.firstStep(of: attempt) { return .failure(failure.problem) }
        }
        guard let call = decide({ $0.refresh() }) else { return .failure(look { $0.lockedProblem }) }
        await make(call, &renewer)
        if let failure = look({ $0.lastFailure }) { return .failure(failure.problem) }
        return .success(())
    }

    // MARK: Clear

    private func clear(_ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        decide { $0.clear() }
        let problem = await renewer.clear(after: look { $0.generation })
        leave(&renewer)
        if let problem { return .failure(problem) }
        return .success("\(name) is cleared: its token is forgotten here, and the authority was not told. \(sequel)")
    }

    /// Says at once when only a person can go on.
    private func leave(_ renewer: inout TokenRenewer) {
        let isSeeded = renewer.record == nil && setup.grant.seed(at: setup.clock.now()) != nil
        guard !isSeeded, let failure = renewer.obstacle.map(setup.advised) else { return decide { $0.clear() } }
        for waiter in decide({ $0.clear(leaving: failure) }) { waiter(.failure(failure.problem)) }
    }

    /// What follows when there is no token any more.
    private var sequel: String {
        let (isLocked, failure) = look { ($0.isLocked, $0.lastFailure) }
        if isLocked { return "It stays locked." }
        return failure.map(\.problem.detail) ?? "The next request gets a new one."
    }

    // MARK: Revoke

    private func revoke(_ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        do throws(TokenStoreError) {
            try await renewer.loadRecord(highestGeneration: look { $0.generation })
        } catch {
            return .failure(renewer.unreadable(error).problem)
        }
        switch renewer.revocation {
        case .nothing:
            dropDescendantsForOperator()
            return .success("\(name) holds no token: there is nothing to revoke.")
        case .impossible(let problem): return .failure(problem)
        case .request(let request, let attempt):
            decide { $0.suspend() }
            let (problem, isForgotten) = await renewer.revoke(by: request, in: attempt)
            if isForgotten {
                leave(&renewer)
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

    private func take(_ imported: ImportedToken, _ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        let now = setup.clock.now()
        guard imported.access != nil || setup.grant.rotates else {
            let detail = "access_token is missing: \(name) cannot get one for a refresh token."
            return .failure(GatewayProblem(.requestRefused, detail))
        }
        let token = setup.grant.completing(TokenSet(imported, at: now.wall))
        if let end = token.expiresAt, end <= now.wall {
            return .failure(GatewayProblem(.requestRefused, "The token has expired already, at \(end.rfc3339)."))
        }
        // A record that cannot be read is replaced.
        try? await renewer.loadRecord(highestGeneration: look { $0.generation })
        let earlier = renewer.record
        let fresh: FreshToken
        switch await renewer.take(token, as: .imported, after: look { $0.generation }) {
        case .failure(let failure): return .failure(failure.problem)
        case .success(let taken): fresh = taken
        }
        guard setup.grant.rotates, token.renewal != nil else {
            install(fresh)
            return .success(note(untried: nil))
        }
        return await refreshImported(fresh, replacing: earlier, &renewer)
    }

    /// Refreshes an imported token before it is used.
    private func refreshImported(
        _ imported: FreshToken,
        replacing earlier: StoredToken?,
        _ renewer: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        guard let call = decide({ $0.beginImport(generation: imported.generation) }) else {
            install(imported)
            return .success(note(untried: "It was not tried because the credential is locked."))
        }
        switch await perform(call, by: &renewer) {
        case .obtained(let refreshed):
            use(refreshed, obtainedBy: call)
            return .success("\(name) has a new token: what was imported was renewed at once, and works.")
        case .nothing:
            install(imported)
            return .success(note(untried: nil))
        case .failed(let refusal):
            return await importFailed(refusal, of: imported, replacing: earlier, by: call, &renewer)
        }
    }

    private func importFailed(
        _ refusal: TokenFailure,
        of imported: FreshToken,
        replacing earlier: StoredToken?,
        by call: TokenCall,
        _ renewer: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        let kept = earlier.flatMap { $0.isRevoked ? nil : renewer.fresh($0) }
        // With an earlier token nobody has to log in.
        let failure = kept == nil ? setup.advised(refusal) : refusal
        let (now, jitter) = (setup.clock.now(), jitter())
        let outcome = decide {
            $0.importFailed(failure, of: imported, replacing: kept, by: call, at: now, jitter: jitter)
        }
        switch outcome {
        case .postponed(let ended):
            release(ended)
            showUncertainty(of: renewer)
            return .success(note(untried: "It could not be tried yet: \(failure.problem.detail)"))
        case .refused(let ended):
            release(ended)
            await restore(earlier, &renewer)
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
    private func restore(_ earlier: StoredToken?, _ renewer: inout TokenRenewer) async {
        await renewer.restore(earlier)
        if earlier?.isRevoked ?? true { leave(&renewer) } else { showUncertainty(of: renewer) }
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
            renewal: imported.renewal,
            obtainedAt: now,
            expiresAt: imported.expiresAt ?? imported.lifetime.map { now + $0 }
        )
    }
}
