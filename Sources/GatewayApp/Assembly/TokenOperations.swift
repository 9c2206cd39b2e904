import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// Carries out what operators do to credentials: locks, and what their keepers do with a token.
struct TokenOperations {
    /// The plan that is served now; an operation may take longer than a reload.
    let live: LivePlan
    /// What was served when the operator asked.
    let keepers: KeeperLookup
    let locks: CredentialLocks
    /// Lock, clear and revoke end the phantoms.
    let captures: CaptureStore
    let audit: any AuditLog
    let onAuditFailure: AuditPlan.OnFailure
    let clock: any GatewayClock
    /// No gateway runs: the keepers do not, and the store is all there is.
    let isOffline: Bool
    /// Ends what is under way with credentials of these sources; returns the numbers of the workers that did not answer in time.
    let withdraw: @Sendable ([any CredentialSource]) async -> [Int]

    func perform(_ operation: TokenOperation, on name: String) async -> Result<OperationReport, GatewayProblem> {
        if let members = keepers.members(named: name) {
            switch operation {
            case .revoke: return await perform(operation, onEachOf: members, "revoked")
            case .clear: return await perform(operation, onEachOf: members, "cleared")
            // These need one token.
            case .refresh, .import, .login, .drop: break
            }
        }
        return await carryOut(on: name) { keeper in
            keeper.withdrawNow(operation)
            return keeper
        } then: { keeper in
            switch operation {
            case .clear, .revoke: await captures.end([keeper.key])
            case .refresh, .import, .login, .drop: break
            }
            return isOffline ? await keeper.performAlone(operation) : await keeper.perform(operation)
        }
    }

    /// Stops the use of a credential, over restarts too.
    func lock(_ name: String) async -> Result<OperationReport, GatewayProblem> {
        if let whole = keepers.whole(named: name) { return await lock(whole) }
        return await carryOut(on: name) { found in
            // Whichever keeper is made from now on begins locked; the one that serves by now is locked here.
            locks.hold(name)
            let serving = successor(of: found, name)
            serving.lock()
            return serving
        } then: { keeper in
            await captures.end([keeper.key])
            return await settleLock(of: name, recording: { await keeper.recordLock() }).map { note in
                let message = "\(keeper.name) is locked: it is neither injected nor renewed.\(note)"
                return OperationReport(message: message, token: keeper.status(at: clock.now()))
            }
        }
    }

    /// Lets a locked credential be used again.
    func unlock(_ name: String) async -> Result<OperationReport, GatewayProblem> {
        if let whole = keepers.whole(named: name) { return await unlock(whole) }
        return await carryOut(on: name) {
            $0
        } then: {
            await unlock(name, $0)
        }
    }

    /// Answers once nothing is under way any more with what the operation took away.
    ///
    /// - Parameters:
    ///   - withdrawNow: Takes away what can be taken away at once. Its use is ended before anything waits for the disk or for an
    ///     authority. Returns the keeper that carries out the rest.
    ///   - rest: Carries out the rest.
    private func carryOut(
        on name: String,
        withdrawing withdrawNow: (TokenKeeper) -> TokenKeeper,
        then rest: (TokenKeeper) async -> Result<OperationReport, GatewayProblem>
    ) async -> Result<OperationReport, GatewayProblem> {
        let before = withdrawals
        let keeper: TokenKeeper
        switch keepers.keeper(of: name).map(withdrawNow) {
        case .success(let found): keeper = found
        case .failure(let problem): return .failure(problem)
        }
        let between = withdrawals
        var silent = await withdraw(withdrawn(since: before))
        let result = await rest(keeper)
        silent += await withdraw(withdrawn(since: between))
        return Self.addingWarning(of: silent, result)
    }

    /// - Parameter silent: The numbers of the workers that did not answer in time.
    private static func addingWarning(
        of silent: [Int],
        _ result: Result<OperationReport, GatewayProblem>
    ) -> Result<OperationReport, GatewayProblem> {
        guard let warning = ProxyServer.warning(of: silent, that: "it has stopped using the token") else {
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

    private var withdrawals: [ObjectIdentifier: Int] {
        let all = (live.state.sources.withdrawable + keepers.sources.withdrawable).map {
            (ObjectIdentifier($0), $0.timesWithdrawn)
        }
        return Dictionary(all) { first, _ in first }
    }

    /// Sources whose token or secret was taken away meanwhile, the ones that serve by now first. One that was made since has lost
    /// nothing of its own, but may stand for one that had to make room while its token was in use.
    private func withdrawn(since before: [ObjectIdentifier: Int]) -> [any CredentialSource] {
        (live.state.sources.withdrawable + keepers.sources.withdrawable).filter { source in
            source.timesWithdrawn != before[ObjectIdentifier(source)] ?? 0
        }
    }

    /// Records a lock that holds here already, and tells other gateways of it: both at a time, since an operator who locks is in
    /// a hurry. What takes longer than the limit goes on.
    ///
    /// - Returns: What to say beside that it is locked: nothing, or a sentence after a space.
    private func settleLock(
        of name: String,
        recording record: @escaping @Sendable () async -> AuditError?
    ) async -> Result<String, GatewayProblem> {
        let (recorded, failure) = await SideBySide.results {
            await Deadline.value(within: CredentialLocks.tellLimit, of: record)
        } and: {
            await lockFailure(of: name)
        }
        var note = ""
        if let unrecorded = recorded ?? Self.unconfirmed { note = " \(unrecorded.lateRecord)" }
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

/// A credential that is locked as a whole, because its name means no single token.
private enum WholeCredential {
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
        if let error = await audit.refusal(recording: event(.unlocked, credential), onAuditFailure) {
            return .failure(error.unlockProblem(of: name))
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

/// Finds the keeper of a token by the name that an operator or a login gives: `box`, or `app-user[42]` for a subject.
struct KeeperLookup {
    let plan: Plan
    let sources: CredentialSources

    /// The keeper of the token, or why there is none.
    func keeper(of credential: String) -> Result<TokenKeeper, GatewayProblem> {
        if let index = plan.credentials.firstIndex(where: { $0.name == credential }) {
            return sources.keeper(of: index).map { .success($0) } ?? .failure(withoutToken(credential, index))
        }
        guard let (keepers, subject) = member(named: credential) else { return .failure(unknown(credential)) }
        return keepers.keeper(for: subject, by: .operator)
    }

    /// Reads `app-user[42]`, whether or not a request has named that subject yet.
    func member(named name: String) -> (PerSubjectKeepers, subject: String)? {
        guard let open = name.firstIndex(of: "["), name.last == "]" else { return nil }
        guard let keepers = sources.perSubjectKeepers.values.first(where: { $0.name == name[..<open] }) else {
            return nil
        }
        return (keepers, String(name[name.index(after: open)...].dropLast()))
    }

    /// Reads `app-user`, which stands for its tokens for every subject.
    fileprivate func members(named name: String) -> PerSubjectKeepers? {
        sources.perSubjectKeepers.values.first { $0.name == name }
    }

    /// Reads a name that means no single token: `app-user`, or `openai`, which has none.
    fileprivate func whole(named name: String) -> WholeCredential? {
        members(named: name).map { .perSubject($0) } ?? sources.fixed(named: name).map { .fixed($0) }
    }

    /// The names under which the token of this keeper is known.
    func names(of keeper: TokenKeeper) -> [String] {
        if sources.perSubjectKeepers.values.contains(where: { $0.name == keeper.perSubjectCredential }) {
            return [keeper.name]
        }
        return plan.credentials.indices.filter { index in
            sources.keeper(of: index) === keeper
        }.map { plan.credentials[$0].name }
    }

    /// Why a credential that there is has no token of its own.
    private func withoutToken(_ name: String, _ index: Int) -> GatewayProblem {
        guard let keepers = sources.perSubjectKeepers[index] else {
            guard sources.sources[index] != nil else {
                return GatewayProblem(.noRoute, "The credential \(name) injects nothing, so it cannot be locked.")
            }
            let detail =
                "The credential \(name) is static: it comes from the configuration, so there is no token to "
                + "renew, revoke or print. It can be locked and unlocked."
            return GatewayProblem(.noRoute, detail)
        }
        let detail =
            switch keepers.naming {
            case .field(let field):
                "The credential \(name) has a token for each subject that \(field) names: \(name)[SUBJECT]."
            case .challenge:
                "The credential \(name) has a token for each scope that an upstream asks for; token list shows them."
            }
        return GatewayProblem(.noRoute, detail)
    }

    private func unknown(_ name: String) -> GatewayProblem {
        let names = plan.credentials.indices.filter {
            sources.sources[$0] != nil || sources.perSubjectKeepers[$0] != nil
        }.map {
            plan.credentials[$0].name
        }
        let known =
            names.isEmpty
            ? "the configuration has no credential" : "the configuration has \(names.joined(separator: ", "))"
        let hint = Suggestion.hint(for: name, in: names)
        return GatewayProblem(
            .noRoute,
            "There is no credential \(LogText.clean(name))\(hint.isEmpty ? "; \(known)." : hint)"
        )
    }
}
