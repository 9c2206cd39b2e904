import GatewayCore
import GatewayFiles
import GatewayProxy
import GatewayTokens

/// Carries out what operators do to tokens: lock, unlock, refresh, revoke, clear and import.
struct TokenOperations {
    /// What is served by now, for what takes longer than a reload.
    let live: LivePlan
    /// What was served when the operator asked.
    let keepers: KeeperLookup
    let locks: CredentialLocks
    let audit: any AuditLog
    let onAuditFailure: AuditPlan.OnFailure
    let clock: any GatewayClock
    /// No gateway runs: the keepers do not, and the store is all there is.
    let isOffline: Bool
    /// Ends what is under way with credentials of these sources; returns the numbers of the workers that did not answer in time.
    let withdraw: @Sendable ([any CredentialSource]) async -> [Int]

    /// Answers once nothing is under way any more with what the operation took away.
    ///
    /// What can be taken away at once is, and its use is ended, before anything waits for the disk or for an authority.
    func perform(_ operation: TokenOperation, on name: String) async -> Result<OperationReport, GatewayProblem> {
        if let whole = keepers.whole(named: name), let report = await perform(operation, onWhole: whole) {
            return report
        }
        let before = withdrawals
        let keeper: TokenKeeper
        switch withdrawNow(operation, from: name) {
        case .success(let found): keeper = found
        case .failure(let problem): return .failure(problem)
        }
        let between = withdrawals
        var silent = await withdraw(withdrawn(since: before))
        let result = await carryOut(operation, keeper, name)
        silent += await withdraw(withdrawn(since: between))
        return Self.addingWarning(of: silent, result)
    }

    /// - Parameter silent: The numbers of the workers that did not answer in time.
    static func addingWarning(
        of silent: [Int],
        _ result: Result<OperationReport, GatewayProblem>
    ) -> Result<OperationReport, GatewayProblem> {
        guard let warning = ProxyServer.warning(of: silent, that: "it has ended all use of the token") else {
            return result
        }
        return result.map { report in
            var report = report
            report.message += " \(warning)"
            return report
        }.mapError { problem in
            var problem = problem
            problem.detail += " \(warning)"
            return problem
        }
    }

    var withdrawals: [ObjectIdentifier: Int] {
        let all = (live.state.sources.withdrawable + keepers.sources.withdrawable).map {
            (ObjectIdentifier($0), $0.timesWithdrawn)
        }
        return Dictionary(all) { first, _ in first }
    }

    /// - Returns: The keeper that carries out the rest.
    private func withdrawNow(_ operation: TokenOperation, from name: String) -> Result<TokenKeeper, GatewayProblem> {
        keepers.keeper(of: name).map { found in
            guard case .lock = operation else {
                found.withdrawNow(operation)
                return found
            }
            // Whichever keeper is made from now on begins locked; the one that serves by now is locked here.
            locks.hold(name)
            let serving = successor(of: found, name)
            serving.withdrawNow(operation)
            return serving
        }
    }

    /// Those whose token or secret was taken away meanwhile, the ones that serve by now first. One that was made since has lost
    /// nothing of its own, but may stand for one that had to make room while its token was in use.
    func withdrawn(since before: [ObjectIdentifier: Int]) -> [any CredentialSource] {
        (live.state.sources.withdrawable + keepers.sources.withdrawable).filter { source in
            source.timesWithdrawn != before[ObjectIdentifier(source)] ?? 0
        }
    }

    private func carryOut(
        _ operation: TokenOperation,
        _ keeper: TokenKeeper,
        _ name: String
    ) async -> Result<OperationReport, GatewayProblem> {
        switch operation {
        case .lock: await lock(name, keeper)
        case .unlock: await unlock(name, keeper)
        case .refresh, .revoke, .clear, .import: await carryOut(operation, keeper)
        }
    }

    private func carryOut(
        _ operation: TokenOperation,
        _ keeper: TokenKeeper
    ) async -> Result<OperationReport, GatewayProblem> {
        isOffline ? await keeper.performAlone(operation) : await keeper.perform(operation)
    }

    private func lock(_ name: String, _ keeper: TokenKeeper) async -> Result<OperationReport, GatewayProblem> {
        await settleLock(of: name, recording: { await keeper.recordLock() }).map { note in
            let message = "\(keeper.name) is locked: it is neither injected nor renewed.\(note)"
            return OperationReport(message: message, token: keeper.status(at: clock.now()))
        }
    }

    /// Records a lock that holds here already, and tells other gateways of it: both at a time, since an operator who locks is in
    /// a hurry. What takes longer than the limit goes on.
    ///
    /// - Returns: What to say beside that it is locked: nothing, or a sentence after a space.
    func settleLock(
        of name: String,
        recording record: @escaping @Sendable () async -> AuditError?
    ) async -> Result<String, GatewayProblem> {
        async let recorded = Deadline.value(within: CredentialLocks.tellLimit, of: record)
        let failure = await lockFailure(of: name)
        var note = ""
        if let unrecorded = await recorded ?? Self.unconfirmed { note = " \(unrecorded.lateRecord)" }
        guard let failure else { return .success(note) }
        var problem = GatewayProblem(.internalError, failure.detail(of: name) + note)
        // The others are named as those that do not know it yet, where they do not.
        problem.hasTakenAway = failure.others == nil
        return .failure(problem)
    }

    private static let unconfirmed: AuditError? = AuditError(
        "the audit log did not confirm it within \(CredentialLocks.tellLimit.secondsRoundedUp) s"
    )

    private func lockFailure(of name: String) async -> LockFailure? {
        do throws(LockFailure) {
            try await locks.lock(name)
            return nil
        } catch {
            return error
        }
    }

    private func unlock(_ name: String, _ keeper: TokenKeeper) async -> Result<OperationReport, GatewayProblem> {
        if let all = keeper.perSubjectCredential, locks.contains(all) {
            let detail = "\(name) stays locked, because an operator has locked the credential \(all)."
            return .failure(GatewayProblem(.locked, detail, command: GatewayCommand.line("token", "unlock", all)))
        }
        if let problem = await keeper.recordUnlock() { return .failure(problem) }
        let names = keepers.names(of: keeper)
        do throws(StateError) {
            try await locks.unlock(names)
        } catch {
            await keeper.recordFailedUnlock()
            follow(names, name, keeper)
            return .failure(GatewayProblem(.internalError, "\(error.description). \(name) stays locked."))
        }
        let serving = follow(names, name, keeper)
        return .success(OperationReport(message: "\(name) is unlocked.", token: serving.status(at: clock.now())))
    }

    /// Makes the keeper that serves by now as locked as its names are: another operator may have locked one meanwhile.
    @discardableResult
    private func follow(_ names: [String], _ name: String, _ keeper: TokenKeeper) -> TokenKeeper {
        let serving = successor(of: keeper, name)
        let all = names + [keeper.perSubjectCredential].compactMap(\.self)
        locks.decide(all) { serving.change(isLocked: $0) }
        return serving
    }

    private func successor(of keeper: TokenKeeper, _ name: String) -> TokenKeeper {
        let state = live.state
        return (try? KeeperLookup(plan: state.plan, sources: state.sources).keeper(of: name).get()) ?? keeper
    }
}
