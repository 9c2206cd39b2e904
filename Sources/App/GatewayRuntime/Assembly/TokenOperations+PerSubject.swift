import GatewayCore
import GatewayTokenKeeper

/// What operators do to a credential with a token for each subject or scope: to the tokens that it has, and with a lock to all that
/// it could get.
extension TokenOperations {
    /// - Returns: nil for what needs one token.
    func perform(
        _ operation: TokenOperation,
        onAll members: PerSubjectKeepers
    ) async -> Result<OperationReport, GatewayProblem>? {
        switch operation {
        case .lock: await lock(members)
        case .unlock: await unlock(members)
        case .revoke: await perform(operation, onEachOf: members, "revoked")
        case .clear: await perform(operation, onEachOf: members, "cleared")
        case .refresh, .import: nil
        }
    }

    private func lock(_ members: PerSubjectKeepers) async -> Result<OperationReport, GatewayProblem> {
        let (name, before) = (members.name, withdrawals)
        // Whichever keepers are made from now on begin locked; those that serve by now are locked here.
        locks.hold(name)
        members.lock()
        let serving = successor(of: members)
        serving.lock()
        let silent = await withdraw(withdrawn(since: before))
        let event = event(.locked, members)
        let settled = await settleLock(of: name, recording: { [audit] in await audit.recordSoon(event) })
        let report = settled.map { note in
            let message = "\(name) is locked: none of its tokens is injected, fetched or renewed.\(note)"
            return OperationReport(message: message, token: status(of: serving))
        }
        return Self.telling(of: silent, report)
    }

    private func unlock(_ members: PerSubjectKeepers) async -> Result<OperationReport, GatewayProblem> {
        let name = members.name
        do throws(AuditError) {
            try await audit.record(event(.unlocked, members))
        } catch {
            guard onAuditFailure != .block else {
                let detail = "\(name) stays locked, because that it is unlocked cannot be recorded: \(error.reason)."
                return .failure(GatewayProblem(.auditUnavailable, detail))
            }
        }
        do throws(StateError) {
            try await locks.unlock([name])
        } catch {
            var failed = event(.unlocked, members)
            failed.outcome = .failed
            try? await audit.record(failed)
            return .failure(GatewayProblem(.internalError, "\(error.description). \(name) stays locked."))
        }
        let serving = successor(of: members)
        serving.follow(locks)
        return .success(OperationReport(message: "\(name) is unlocked.", token: status(of: serving)))
    }

    /// - Parameter done: `revoked`.
    private func perform(
        _ operation: TokenOperation,
        onEachOf members: PerSubjectKeepers,
        _ done: String
    ) async -> Result<OperationReport, GatewayProblem> {
        let (name, present) = (members.name, members.keepers)
        var problems: [GatewayProblem] = []
        for keeper in present {
            if case .failure(let problem) = await perform(operation, on: keeper.name) { problems.append(problem) }
        }
        guard let first = problems.first else {
            let message =
                present.isEmpty
                ? "No request has needed a token of \(name) lately. `token list` shows the tokens in use."
                : "Of \(name), \(present.count.counted("token")) \(present.count == 1 ? "was" : "were") \(done)."
            return .success(OperationReport(message: message, token: status(of: members)))
        }
        let detail =
            "\(problems.count) of \(present.count) tokens of \(name) were not \(done). The first: \(first.detail)"
        let isRevocation = if case .revoke = operation { true } else { false }
        let command = isRevocation ? GatewayCommand.line("token", "clear", name) : nil
        var problem = GatewayProblem(first.kind, detail, command: command)
        problem.hasTakenAway = problems.count < present.count || problems.contains(where: \.hasTakenAway)
        return .failure(problem)
    }

    private func successor(of members: PerSubjectKeepers) -> PerSubjectKeepers {
        let state = live.state
        return KeeperLookup(plan: state.plan, sources: state.sources).perSubjectKeepers(named: members.name) ?? members
    }

    private func event(_ name: TokenEvent.Name, _ members: PerSubjectKeepers) -> TokenEvent {
        TokenEvent(
            at: clock.now().wall,
            name: name,
            credential: members.name,
            strategy: members.strategy,
            trigger: .operator
        )
    }

    private func status(of members: PerSubjectKeepers) -> TokenStatus {
        members.status(isLocked: locks.contains(members.name))
    }
}
