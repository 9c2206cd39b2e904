import GatewayCore
import GatewayFiles
import GatewayTokens

/// A credential that is locked as a whole, because its name means no single token.
enum WholeCredential {
    /// With a token for each subject or scope. A lock is for those that it has, and for all that it could get.
    case perSubject(PerSubjectKeepers)
    /// With none: what the configuration holds is sent.
    case fixed(FixedCredential)

    var name: String {
        switch self {
        case .perSubject(let members): members.name
        case .fixed(let credential): credential.name
        }
    }

    /// All that are locked with it, its own name first.
    var names: [String] {
        switch self {
        case .perSubject(let members): [members.name]
        case .fixed(let credential): credential.names
        }
    }

    fileprivate var strategy: String {
        switch self {
        case .perSubject(let members): members.strategy
        case .fixed(let credential): credential.source.strategy
        }
    }

    fileprivate func status(_ locks: CredentialLocks, at now: Moment) -> TokenStatus {
        switch self {
        case .perSubject(let members): members.status(isLocked: locks.contains(members.name))
        case .fixed(let credential): credential.status(at: now)
        }
    }

    fileprivate var lockedWords: String {
        switch self {
        case .perSubject: "\(name) is locked: none of its tokens is injected, fetched or renewed."
        case .fixed: "\(name) is locked: it is not injected.\(others("are locked"))"
        }
    }

    /// - Parameter done: What happened to the credentials with the same secret, such as `are locked`.
    fileprivate func others(_ done: String) -> String {
        otherNames.map { " These have the same secret and \(done), too: \($0)." } ?? ""
    }

    /// The other credentials with the same secret, as text; nil if there are none.
    fileprivate var otherNames: String? {
        let others = names.dropFirst()
        guard !others.isEmpty else { return nil }
        let shown = others.prefix(20).joined(separator: ", ")
        return others.count > 20 ? "\(shown) and \(others.count - 20) more" : shown
    }
}

/// What operators do to a credential as a whole.
extension TokenOperations {
    /// - Returns: nil for what needs one token.
    func perform(
        _ operation: TokenOperation,
        onWhole credential: WholeCredential
    ) async -> Result<OperationReport, GatewayProblem>? {
        switch (operation, credential) {
        case (.lock, _): await lock(credential)
        case (.unlock, _): await unlock(credential)
        case (.revoke, .perSubject(let members)): await perform(operation, onEachOf: members, "revoked")
        case (.clear, .perSubject(let members)): await perform(operation, onEachOf: members, "cleared")
        case (.refresh, _), (.import, _), (.revoke, .fixed), (.clear, .fixed): nil
        }
    }

    private func lock(_ credential: WholeCredential) async -> Result<OperationReport, GatewayProblem> {
        let (name, before) = (credential.name, withdrawals)
        // Whichever sources are made from now on begin locked; those that serve by now are locked here.
        for name in credential.names { locks.hold(name) }
        follow(credential.names)
        let silent = await withdraw(withdrawn(since: before))
        let event = event(.locked, credential)
        let settled = await settleLock(of: name, recording: { [audit] in await audit.recordSoon(event) })
        let report = settled.map { note in
            OperationReport(message: credential.lockedWords + note, token: status(of: successor(of: credential)))
        }
        return Self.addingWarning(of: silent, report)
    }

    private func unlock(_ credential: WholeCredential) async -> Result<OperationReport, GatewayProblem> {
        let name = credential.name
        do throws(AuditError) {
            try await audit.record(event(.unlocked, credential))
        } catch {
            guard onAuditFailure != .block else {
                let detail = "\(name) stays locked, because that it is unlocked cannot be recorded: \(error.reason)."
                return .failure(GatewayProblem(.auditUnavailable, detail))
            }
        }
        do throws(StateError) {
            try await locks.unlock(credential.names)
        } catch {
            var failed = event(.unlocked, credential)
            failed.outcome = .failed
            try? await audit.record(failed)
            return .failure(GatewayProblem(.internalError, "\(error.description). \(name) stays locked."))
        }
        follow(credential.names)
        let message = "\(name) is unlocked.\(credential.others("are unlocked"))"
        return .success(OperationReport(message: message, token: status(of: successor(of: credential))))
    }

    /// Locks or unlocks the credentials of these names as `locks` says by now: those that were served when the operator asked, and
    /// those that are served since a reload.
    private func follow(_ names: [String]) {
        let serving = live.state
        for (plan, sources) in [(keepers.plan, keepers.sources), (serving.plan, serving.sources)] {
            _ = sources.follow(locks, as: plan.credentials, changed: Set(names))
        }
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
            return .success(OperationReport(message: message, token: status(of: .perSubject(members))))
        }
        let detail =
            "\(problems.count) of \(present.count) tokens of \(name) were not \(done). The first: \(first.detail)"
        let isRevocation = if case .revoke = operation { true } else { false }
        let command = isRevocation ? GatewayCommand.line("token", "clear", name) : nil
        var problem = GatewayProblem(first.kind, detail, command: command)
        problem.hasTakenAway = problems.count < present.count || problems.contains(where: \.hasTakenAway)
        return .failure(problem)
    }

    private func successor(of credential: WholeCredential) -> WholeCredential {
        let state = live.state
        return KeeperLookup(plan: state.plan, sources: state.sources).whole(named: credential.name) ?? credential
    }

    private func event(_ name: TokenEvent.Name, _ credential: WholeCredential) -> TokenEvent {
        TokenEvent(
            at: clock.now().wall,
            name: name,
            credential: credential.name,
            strategy: credential.strategy,
            trigger: .operator,
            detail: credential.otherNames.map { ["same_secret": $0] } ?? [:]
        )
    }

    private func status(of credential: WholeCredential) -> TokenStatus { credential.status(locks, at: clock.now()) }
}
