package import GatewayEvents
package import GatewayHTTP
import Synchronization

/// Commands of operators: how they are queued and carried out.
extension TokenKeeper {
    /// How long an operator waits for a command, including the calls before it.
    static let commandDeadline: Duration = .seconds(50)

    package func perform(_ operation: TokenOperation) async -> Result<OperationReport, GatewayProblem> {
        withdrawNow(operation)
        return report(await settled(carriedOut(OperatorCommand(operation))))
    }

    /// The part of a withdrawal that needs neither a turn nor the store: the token is not handed out from now on.
    ///
    /// After a `clear`, requests wait until ``perform(_:)`` has carried it out, so it must follow.
    package func withdrawNow(_ operation: TokenOperation) {
        if case .clear = operation { beginClear() }
    }

    /// Records that an operator has locked the credential.
    ///
    /// - Returns: Why it is not recorded yet; nil if it is.
    package func recordLock() async -> AuditError? {
        await context.note(context.event(.locked, trigger: .operator))
    }

    /// Records that an operator unlocks the credential. The event must be committed first.
    ///
    /// - Returns: Why the credential stays locked; nil if it may be unlocked.
    package func recordUnlock() async -> GatewayProblem? {
        await context.obstacle(to: context.event(.unlocked, trigger: .operator)).map { $0.unlockProblem(of: name) }
    }

    /// Records that the credential stayed locked after all.
    package func recordFailedUnlock() async {
        var event = context.event(.unlocked, trigger: .operator)
        event.outcome = .failed
        await context.note(event)
    }

    /// Takes the token from a person's login, instead of the current one.
    package func logIn(with token: TokenSet) async -> Result<TokenStatus, GatewayProblem> {
        await perform(.login(token)).map(\.token)
    }

    private func report(_ outcome: OperatorCommand.Outcome) -> Result<OperationReport, GatewayProblem> {
        outcome.map { OperationReport(message: $0, token: status(at: context.clock.now())) }
    }

    private func carriedOut(_ command: OperatorCommand) async -> OperatorCommand.Completion {
        guard enqueue(command) else {
            // The command will not be carried out, so requests need not wait for it.
            if case .clear = command.operation { resume() }
            wake(.command)
            return OperatorCommand.Completion(outcome: .failure(busyProblem))
        }
        wake(.command)
        return await end(of: command)
    }

    var busyProblem: GatewayProblem {
        let detail = "The credential \(name) accepts no commands now: the gateway is busy or shutting down."
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

    /// Carries out an operation while no gateway runs the keeper.
    package func performAlone(_ operation: TokenOperation) async -> Result<OperationReport, GatewayProblem> {
        runOffline()
        withdrawNow(operation)
        var renewer = TokenRenewer(context: context)
        let command = OperatorCommand(operation)
        await carryOut(command, &renewer)
        await dropAlone()
        return report(await settled(command.end()))
    }

    private func expire(_ command: OperatorCommand) async {
        do {
            try await context.clock.sleep(for: Self.commandDeadline)
        } catch {
            // Cancelled, because the command ended in time.
            return
        }
        let seconds = Self.commandDeadline.wholeMilliseconds / 1000
        let what =
            command.hasBegun
            ? "is still running after \(seconds) s; the audit log will have its result"
            : "did not start within \(seconds) s, and "
                + (command.operation.isWithdrawal ? "runs as soon as it can" : "was dropped")
        let detail = "The command for the credential \(name) \(what)."
        command.finish(.failure(GatewayProblem(.tokenEndpointTimeout, detail)))
    }

    func carryOut(_ command: OperatorCommand, _ renewer: inout TokenRenewer) async {
        guard command.begin() else { return }
        let outcome = await using(&renewer) { renewer in
            let outcome = await self.outcome(of: command.operation, &renewer)
            return self.isAlone ? await self.stored(outcome, &renewer) : outcome
        }
        let drops = takeDrops()
        command.finish(outcome.addingWarning(of: renewer.takeUnrecorded()), dropping: drops)
        if isAlone, !drops.isEmpty { await dropAlone() }
    }

    /// Without a running gateway, a command has succeeded only if its result is stored: nothing else remains of it.
    private func stored(
        _ outcome: OperatorCommand.Outcome,
        _ renewer: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        let isDone = if case .success = outcome { true } else { false }
        guard let loss = await renewer.settle(removing: isDone) else { return outcome }
        guard case .failure(var problem) = outcome else { return .failure(loss) }
        problem.detail += " \(loss.detail)"
        return .failure(problem)
    }

    private func outcome(
        of operation: TokenOperation,
        _ renewer: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        switch operation {
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
        // The earlier refresh token is kept with the new one.
        if isIncomplete {
            try? await renewer.loadRecord(highestGeneration: highestGeneration)
            await readRemoteChange(&renewer)
        }
        switch await renewer.take(token, as: .loginCompleted, after: highestGeneration) {
        case .failure(let failure): return .failure(failure.problem)
        case .success(let fresh): install(fresh)
        }
        dropDescendantsForOperator()
        guard isIncomplete, let call = beginRefresh() else { return .success("\(name) is logged in.") }
        await make(call, &renewer)
        if let failure = lastFailure {
            return failure.mayPass ? .success("\(name) is logged in.") : .failure(failure.operatorProblem)
        }
        let known = [renewer.record?.token.refreshToken, renewer.record?.previousRefreshToken]
        guard known.contains(token.refreshToken) || isPostponed else {
            let detail =
                "The answer to the login had no usable access token, and the authorization server refused the refresh token in it."
                + " The earlier login of \(name) stays in use."
            return .failure(GatewayProblem(.loginFailed, detail))
        }
        return .success("\(name) is logged in.")
    }

    private func refresh(_ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        // A credential that cannot be renewed must not lose its current token because of a refusal.
        if !context.grant.isRenewable {
            let attempt = context.attempt(holding: held?.token)
            if case .impossible(let failure) = context.grant.firstStep(of: attempt) { return .failure(failure.problem) }
        }
        guard let call = beginRefresh() else { return .failure(.locked(name)) }
        await make(call, &renewer)
        if let failure = lastFailure { return .failure(failure.operatorProblem) }
        if isPostponed {
            return .success(
                "Another gateway is renewing the token of \(name), which is used here as soon as it is stored."
            )
        }
        return .success("\(name) has a new token.")
    }

    /// Waits until everything that the command has dropped is forgotten.
    func settled(_ completion: OperatorCommand.Completion) async -> OperatorCommand.Outcome {
        var outcome = completion.outcome
        for command in completion.drops {
            guard case .failure(let problem) = await end(of: command).outcome, case .success = outcome else { continue }
            outcome = .failure(problem)
        }
        return outcome
    }

    /// Forgets the dropped tokens if no gateway runs their keepers.
    private func dropAlone() async {
        for child in descendants {
            var renewer = TokenRenewer(context: child.context)
            while let command = child.nextCommand() { await child.carryOut(command, &renewer) }
        }
    }
}

extension OperatorCommand.Outcome {
    /// Adds to the sentence that the event is not in the audit log yet.
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

/// Commands that end with the token forgotten: `clear` and `revoke`.
extension TokenKeeper {
    func clear(_ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        forget()
        let problem = await renewer.clear(after: highestGeneration)
        leave(&renewer)
        if let problem { return .failure(problem) }
        return .success(
            "\(name) is cleared: its token is forgotten here, and the authorization server was not told. \(sequel)"
        )
    }

    /// What happens next, once there is no token.
    private var sequel: String {
        if lockedProblem != nil { return "It stays locked." }
        return lastFailure.map(\.problem.detail) ?? "The next request gets a new one."
    }

    func revoke(_ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        do throws(TokenStoreError) {
            try await renewer.loadRecord(highestGeneration: highestGeneration)
        } catch {
            return .failure(renewer.unreadable(error).problem)
        }
        await readRemoteChange(&renewer)
        switch renewer.revocation {
        case .nothing:
            dropDescendantsForOperator()
            return .success("\(name) has no token, so there is nothing to revoke.")
        case .impossible(let problem): return .failure(problem)
        case .starts(let starts):
            suspend()
            let (problem, isForgotten) = await renewer.revoke(starts)
            if isForgotten {
                leave(&renewer)
                dropDescendantsForOperator()
            } else {
                resume()
            }
            let told = isForgotten ? "The tokens are forgotten here anyway." : "The token is kept and still used."
            guard var problem else {
                return .success("\(name) is revoked at the authorization server and forgotten. \(sequel)")
            }
            problem.detail += " \(told)"
            problem.hasTakenAway = isForgotten
            return .failure(problem)
        }
    }
}

/// The command `import`: takes a token from an operator, and refreshes it if that is possible.
extension TokenKeeper {
    func take(_ imported: ImportedToken, _ renewer: inout TokenRenewer) async -> OperatorCommand.Outcome {
        let now = context.clock.now()
        guard imported.access != nil || context.grant.rotatesRefreshToken else {
            let detail = "access_token is missing: \(name) cannot get one with a refresh token."
            return .failure(GatewayProblem(.requestRefused, detail))
        }
        let token = context.grant.completing(TokenSet(imported, at: now.wall))
        if let end = token.expiresAt, end <= now.wall {
            return .failure(GatewayProblem(.requestRefused, "The token has expired already, at \(end.rfc3339)."))
        }
        // A record that cannot be read is simply replaced.
        try? await renewer.loadRecord(highestGeneration: highestGeneration)
        // Another gateway may have spent the refresh token that this one knows.
        await readRemoteChange(&renewer)
        let earlier = renewer.earlier
        let fresh: FreshToken
        switch await renewer.take(token, as: .imported, after: highestGeneration) {
        case .failure(let failure): return .failure(failure.problem)
        case .success(let taken): fresh = taken
        }
        guard context.grant.rotatesRefreshToken, token.refreshToken != nil else {
            install(fresh)
            return .success(note(untried: nil))
        }
        return await refreshImported(fresh, replacing: earlier, &renewer)
    }

    /// Refreshes an imported token before it is used.
    private func refreshImported(
        _ imported: FreshToken,
        replacing earlier: TokenRenewer.Earlier,
        _ renewer: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        guard let call = beginImport(generation: imported.generation) else {
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
        case .held:
            install(imported)
            return .success(note(untried: "Another gateway tries it now."))
        case .withdrawn:
            leave(&renewer)
            let detail = "What was imported for \(name) was removed or replaced by another gateway at the same time."
            return .failure(GatewayProblem(.tokenTemporarilyUnavailable, detail))
        case .failed(let refusal):
            return await importFailed(refusal, of: imported, replacing: earlier, by: call, &renewer)
        }
    }

    private func importFailed(
        _ refusal: TokenFailure,
        of imported: FreshToken,
        replacing earlier: TokenRenewer.Earlier,
        by call: TokenCall,
        _ renewer: inout TokenRenewer
    ) async -> OperatorCommand.Outcome {
        // A token of another gateway that was adopted during the call stays.
        let isRestored = renewer.record.map { $0.generation == imported.generation } ?? true
        let left = isRestored ? earlier.record : renewer.record
        let kept = left.flatMap { $0.isRevoked ? nil : renewer.fresh($0) }
        // With an earlier token, no login is needed. A refused import is not retried automatically.
        let failure = kept == nil && refusal.class.asksForLogin ? context.advised(refusal) : refusal
        switch failImport(failure, of: imported, replacing: kept, by: call) {
        case .postponed(let ended):
            release(ended)
            return .success(note(untried: "It could not be tried yet: \(failure.problem.detail)"))
        case .refused(let ended):
            release(ended)
            if isRestored { await renewer.restore(earlier, inPlaceOf: imported.token) }
            if left?.isRevoked ?? true {
                leave(&renewer)
            } else {
                await followRefusal(renewer)
            }
            await noteRefusedImport(imported, failure)
        case .ignored:
            break
        }
        var problem = failure.operatorProblem
        let addition = kept == nil ? "" : ", and the earlier token is kept"
        problem.detail = "Nothing was imported\(addition). \(problem.detail)"
        if failure.mayPass {
            problem.detail +=
                " The authorization server may have seen the imported refresh token; import it again, or a new one."
        }
        return .failure(problem)
    }

    /// Records the refusal, since the audit log has an event that the token was imported.
    private func noteRefusedImport(_ imported: FreshToken, _ failure: TokenFailure) async {
        var event = context.event(.imported, generation: imported.generation, trigger: .operator)
        event.outcome = .failed
        event.errorCode = failure.problem.cause?.code
        await context.note(event)
    }

    private func note(untried reason: String?) -> String {
        ["\(name) uses the imported token.", reason].compactMap(\.self).joined(separator: " ")
    }
}

extension TokenSet {
    /// Without an access token, it cannot be used before it was renewed.
    fileprivate init(_ imported: ImportedToken, at now: UnixTime) {
        self.init(
            access: imported.access ?? Secret(""),
            refreshToken: imported.refreshToken,
            obtainedAt: now,
            expiresAt: imported.expiresAt ?? imported.lifetime.map { now + $0 }
        )
    }
}

/// An operator's command. The keeper carries it out between calls and answers it once.
final class OperatorCommand: Sendable {
    /// A sentence for the operator, or the problem.
    typealias Outcome = Result<String, GatewayProblem>

    struct Completion: Sendable {
        var outcome: Outcome
        /// The commands of descendants that must end before the operator gets an answer.
        var drops: [OperatorCommand] = []
    }

    let operation: TokenOperation
    private let completion = Promise<Completion>()
    private let begun = Atomic(false)

    init(_ operation: TokenOperation) { self.operation = operation }

    var hasBegun: Bool { begun.load(ordering: .relaxed) }

    /// - Returns: false if its caller has stopped waiting.
    func begin() -> Bool {
        guard operation.isWithdrawal || !completion.isKept else { return false }
        begun.store(true, ordering: .relaxed)
        return true
    }

    func finish(_ outcome: Outcome, dropping drops: [OperatorCommand] = []) {
        completion.keep(Completion(outcome: outcome, drops: drops))
    }

    func end() async -> Completion { await completion.value() }
}
