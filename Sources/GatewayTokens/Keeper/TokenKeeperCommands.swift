package import GatewayEvents
package import GatewayHTTP
import Synchronization

extension TokenKeeper {
    /// How long an operator waits for a command, the calls before it included.
    package static let commandDeadline: Duration = .seconds(50)

    package func perform(_ operation: TokenOperation) async -> Result<OperationReport, GatewayProblem> {
        withdrawNow(operation)
        return report(await outcome(of: operation) { await settled(carriedOut(OperatorCommand($0))) })
    }

    /// What needs no turn, nor anything on the disk: from now on the token is not handed out.
    ///
    /// Requests wait until ``perform(_:)`` has carried out a `clear`, so it must follow.
    package func withdrawNow(_ operation: TokenOperation) {
        switch operation {
        case .lock: lock()
        case .clear: decide { $0.beginClear() }
        case .refresh, .revoke, .import, .unlock: break
        }
    }

    /// - Parameter inTurn: Carries out what has to be done between two calls.
    private func outcome(
        of operation: TokenOperation,
        _ inTurn: (OperatorCommand.Kind) async -> OperatorCommand.Outcome
    ) async -> OperatorCommand.Outcome {
        switch operation {
        case .lock:
            let outcome = OperatorCommand.Outcome.success("\(name) is locked: it is neither injected nor renewed.")
            return outcome.addingWarning(of: await recordLock())
        case .unlock:
            if let problem = await recordUnlock() { return .failure(problem) }
            unlock()
            return .success("\(name) is unlocked.")
        case .refresh: return await inTurn(.refresh)
        case .revoke: return await inTurn(.revoke)
        case .clear: return await inTurn(.clear)
        case .import(let token): return await inTurn(.import(token))
        }
    }

    /// Records that an operator has locked the credential.
    ///
    /// - Returns: Why that is not recorded yet.
    package func recordLock() async -> AuditError? {
        await context.note(context.event(.locked, trigger: .operator))
    }

    /// Records that an operator unlocks the credential, which must be committed before it is.
    ///
    /// - Returns: Why it stays locked.
    package func recordUnlock() async -> GatewayProblem? {
        await context.obstacle(to: context.event(.unlocked, trigger: .operator)).map { error in
            let detail = "\(name) stays locked, because that it is unlocked cannot be recorded: \(error.reason)."
            return GatewayProblem(.auditUnavailable, detail)
        }
    }

    /// Records that the credential stayed locked after all.
    package func recordFailedUnlock() async {
        var event = context.event(.unlocked, trigger: .operator)
        event.outcome = .failed
        await context.note(event)
    }

    /// Takes what a person's login has just brought, in the place of any other.
    package func logIn(with token: TokenSet) async -> Result<TokenStatus, GatewayProblem> {
        report(await settled(carriedOut(OperatorCommand(.login(token))))).map(\.token)
    }

    private func report(_ outcome: OperatorCommand.Outcome) -> Result<OperationReport, GatewayProblem> {
        outcome.map { OperationReport(message: $0, token: status(at: context.clock.now())) }
    }

    private func carriedOut(_ command: OperatorCommand) async -> OperatorCommand.Completion {
        guard enqueue(command) else {
            // No turn comes for which requests could wait.
            if case .clear = command.kind { resume() }
            wake(.command)
            return OperatorCommand.Completion(outcome: .failure(busyProblem))
        }
        wake(.command)
        return await end(of: command)
    }

    var busyProblem: GatewayProblem {
        let detail = "The credential \(name) takes no commands now: the gateway is busy or shutting down."
        return GatewayProblem(.draining, detail)
    }

    func end(of command: OperatorCommand) async -> OperatorCommand.Completion {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.expire(command) }
            let completion = await command.end()
            group.cancelAll()
            return completion
        }
    }

    /// Lets messages promise nothing that only a running gateway does.
    package func runOffline() { isAlone.store(true, ordering: .relaxed) }

    /// Carries out an operation while no gateway runs the keeper.
    package func performAlone(_ operation: TokenOperation) async -> Result<OperationReport, GatewayProblem> {
        runOffline()
        withdrawNow(operation)
        return report(await outcome(of: operation) { await carryOutAlone($0) })
    }

    private func carryOutAlone(_ kind: OperatorCommand.Kind) async -> OperatorCommand.Outcome {
        var renewer = TokenRenewer(context: context)
        let command = OperatorCommand(kind)
        await carryOut(command, &renewer)
        await dropAlone()
        return await settled(command.end())
    }

    /// Takes from the store what can be shown while no gateway runs the keeper; uses and records nothing.
    package func look() async {
        var renewer = TokenRenewer(context: context)
        do throws(TokenStoreError) {
            try await renewer.loadRecord(highestGeneration: look { $0.generation })
        } catch {
            let failure = renewer.unreadable(error)
            return decide { _ = $0.clear(leaving: failure) }
        }
        let isUncertain = context.isUncertain(renewer.record) && !context.grant.canAcquireAnew
        if let record = renewer.record, !record.isRevoked, !(record.isRejected && renewer.obstacle != nil) {
            install(renewer.fresh(record))
            decide { $0.show(isRotationUncertain: isUncertain) }
            _ = stop(forRefusalIn: renewer, at: context.clock.now().monotonic)
        } else {
            leave(&renewer)
        }
    }

    /// Refuses the requests that wait. Does not record it: the caller does where a person asked for it.
    package func lock() {
        let (waiters, problem) = decide { $0.lock() }
        for waiter in waiters { waiter(.failure(problem)) }
    }

    /// A reload has left the credential as it is: what failed for a reason of the configuration may be tried again.
    package func reloaded() {
        let sendsSecrets = context.grant.sendsSecrets
        if decide({ $0.reloaded(sendsSecrets: sendsSecrets) }) { wake() }
    }

    package func unlock() {
        decide { $0.unlock() }
        wake()
    }

    func enqueue(_ command: OperatorCommand) -> Bool {
        commands.withLock { commands in
            // A right is taken away however many commands wait.
            let limit = command.kind.isWithdrawal ? 2 * Self.commandLimit : Self.commandLimit
            guard commands.count < limit, !isStopping.load(ordering: .acquiring) else { return false }
            commands.append(command)
            return true
        }
    }

    private func expire(_ command: OperatorCommand) async {
        do {
            try await context.clock.sleep(for: Self.commandDeadline)
        } catch {
            // Done in time.
            return
        }
        let seconds = Self.commandDeadline.wholeMilliseconds / 1000
        let what =
            command.hasBegun
            ? "is still under way after \(seconds) s; the audit log will tell its end"
            : "did not get its turn within \(seconds) s, and "
                + (command.kind.isWithdrawal ? "is carried out as soon as it does" : "was dropped")
        let detail = "The command for the credential \(name) \(what)."
        command.finish(.failure(GatewayProblem(.tokenEndpointTimeout, detail)))
    }

    func nextCommand() -> OperatorCommand? { commands.withLock { $0.isEmpty ? nil : $0.removeFirst() } }

    func carryOut(_ command: OperatorCommand, _ renewer: inout TokenRenewer) async {
        guard command.begin() else { return }
        let outcome = await outcome(of: command.kind, &renewer).addingWarning(of: renewer.unrecorded.take())
        command.finish(outcome, dropping: takeDrops())
    }

    private func outcome(
        of command: OperatorCommand.Kind,
        _ renewer: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        switch command {
        case .login(let token): return await logIn(with: token, &renewer)
        case .drop: return await clear(&renewer)
        case .refresh: return await refresh(&renewer)
        case .revoke: return await revoke(&renewer)
        case .clear:
            let outcome = await clear(&renewer)
            dropDescendantsForOperator()
            return outcome
        case .import(let token):
            let outcome = await take(token, &renewer)
            if case .success = outcome { dropDescendantsForOperator() }
            return outcome
        }
    }

    private func logIn(with token: TokenSet, _ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        let isIncomplete = token.access.isEmpty
        // The earlier refresh token is kept beside the new one.
        if isIncomplete {
            try? await renewer.loadRecord(highestGeneration: look { $0.generation })
            await readNews(&renewer)
        }
        switch await renewer.take(token, as: .loginCompleted, after: look { $0.generation }) {
        case .failure(let failure): return .failure(failure.problem)
        case .success(let fresh): install(fresh)
        }
        dropDescendantsForOperator()
        guard isIncomplete, let call = decide({ $0.refresh() }) else { return .success("\(name) is logged in.") }
        await make(call, &renewer)
        if let failure = look({ $0.lastFailure }) {
            return failure.mayPass ? .success("\(name) is logged in.") : .failure(failure.operatorProblem)
        }
        let known = [renewer.record?.token.refreshToken, renewer.record?.previousRefreshToken]
        guard known.contains(token.refreshToken) || look({ $0.isPostponed }) else {
            let detail =
                "The answer to the login had no usable access token, and the authority refused the refresh token in it."
                + " The earlier login of \(name) is used on."
            return .failure(GatewayProblem(.loginFailed, detail))
        }
        return .success("\(name) is logged in.")
    }

    private func refresh(_ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        // What no person can renew must not lose the token it still has to a refusal.
        if !context.grant.isRenewable {
            let attempt = context.attempt(holding: look { $0.held?.token })
            if case .impossible(let failure) = context.grant.firstStep(of: attempt) { return .failure(failure.problem) }
        }
        guard let call = decide({ $0.refresh() }) else { return .failure(look { $0.lockedProblem }) }
        await make(call, &renewer)
        if let failure = look({ $0.lastFailure }) { return .failure(failure.operatorProblem) }
        if look({ $0.isPostponed }) {
            return .success(
                "Another gateway is renewing the token of \(name), which is used here as soon as it is stored."
            )
        }
        return .success("\(name) has a new token.")
    }
}

extension OperatorCommand.Outcome {
    /// The same, and that it is not in the audit log yet.
    fileprivate func addingWarning(of error: AuditError?) -> Self {
        guard let error else { return self }
        let note = " \(error.lateRecord)"
        return map { $0 + note }.mapError { problem in
            var problem = problem
            problem.detail += note
            return problem
        }
    }
}
