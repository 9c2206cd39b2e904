import GatewayEvents
package import GatewayHTTP
import Logging
import Metrics
import Synchronization

/// The keepers of one credential, one for each subject that requests name.
///
/// There are never more than the configuration allows: ``SubjectTable`` says which one is removed for a new one. None is removed
/// while a call is under way or a request waits. Its token stays in the store, and is used again when it comes back.
package final class PerSubjectKeepers: SubjectCredentialResolver {
    package let name: String
    package let strategy: String
    package let grantKey: CredentialKey

    private let grants: any TokenGrants
    private let policy: RenewalPolicy
    private let make: @Sendable (_ name: String, any TokenGrant, SubjectCallLimit) -> TokenKeeper
    private let start: @Sendable (TokenKeeper) -> Void
    private let budget: SubjectCallLimit
    private let members: Mutex<Members>

    private struct Members {
        var table: SubjectTable<TokenKeeper>
        /// A reload has dropped the credential.
        var isRetired = false
        /// An operator has locked the credential, for whichever subject.
        var isLocked = false
    }

    /// What became of a subject that a request named.
    private enum Found {
        case known(TokenKeeper)
        case new(TokenKeeper, dropped: TokenKeeper?, count: Int)
        case full
        case retired
        case locked
    }

    /// - Parameters:
    ///   - make: Makes the keeper of a subject; the name says whose it is: `app-user[42]`. Called while a lock is held, so it
    ///     must not ask anything that takes one.
    ///   - start: Locks a keeper if an operator has locked its name, then runs it. It may have been asked for a token by then,
    ///     and has none before it runs. Called without a lock.
    package init(
        name: String,
        strategy: String,
        grants: any TokenGrants,
        key: CredentialKey,
        policy: RenewalPolicy = RenewalPolicy(),
        make: @escaping @Sendable (_ name: String, any TokenGrant, SubjectCallLimit) -> TokenKeeper,
        start: @escaping @Sendable (TokenKeeper) -> Void
    ) {
        self.name = name
        self.strategy = strategy
        self.grants = grants
        grantKey = key
        self.policy = policy
        budget = SubjectCallLimit(name: name, limit: grants.limit)
        self.make = make
        self.start = start
        members = Mutex(Members(table: SubjectTable(limit: grants.limit)))
        measure(0)
    }

    package var naming: TokenNaming { grants.naming }
    package var isRenewable: Bool { grants.isRenewable && policy.isAutomatic }

    /// The keepers, in the order of their subjects.
    package var keepers: [TokenKeeper] {
        members.withLock { $0.table }.members
    }

    package func source(for subject: String, client: String?) -> Result<any CredentialSource, GatewayProblem> {
        keeper(for: subject, by: .client(client)).map { $0 }
    }

    package func look(for subject: String, client: String?) -> Result<(any CredentialSource)?, GatewayProblem> {
        member(subject).flatMap { keeper in
            guard keeper == nil, let problem = lockedProblem else { return .success(keeper) }
            return .failure(problem)
        }
    }

    package var lockedProblem: GatewayProblem? { members.withLock(\.isLocked) ? .locked(name) : nil }

    /// The subject that a field with these values names. Makes no keeper.
    package func subject(named values: [String]) -> Result<String, GatewayProblem> {
        guard values.count < 2 else { return .failure(repeatedSubject) }
        guard let subject = values.first, !subject.isEmpty else { return .failure(missingSubject) }
        return grants.refusal(of: subject, credential: name).map { .failure($0) } ?? .success(subject)
    }

    /// The keeper of this subject; nil when no request has named it lately. Makes no keeper, and does not count as a use.
    package func member(_ subject: String) -> Result<TokenKeeper?, GatewayProblem> {
        if let problem = grants.refusal(of: subject, credential: name) { return .failure(problem) }
        return .success(members.withLock { $0.table[subject] })
    }

    /// The keeper that there is, or a new one.
    package func keeper(
        for subject: String,
        by asker: SubjectTable<TokenKeeper>.Asker
    ) -> Result<TokenKeeper, GatewayProblem> {
        if let problem = grants.refusal(of: subject, credential: name) { return .failure(problem) }
        switch find(subject, for: asker) {
        case .known(let keeper): return .success(keeper)
        case .new(let keeper, let dropped, let count):
            dropped?.retire()
            start(keeper)
            measure(count)
            return .success(keeper)
        case .full:
            let key = grants.limitKey.map { " (\($0))" } ?? ""
            let detail = "All \(grants.limit) tokens that \(name) may have at a time are in use\(key)."
            return .failure(GatewayProblem(.overloaded, detail, retryAfter: .seconds(1)))
        case .retired:
            return .failure(.changed(name))
        case .locked: return .failure(.locked(name))
        }
    }

    private func find(_ subject: String, for asker: SubjectTable<TokenKeeper>.Asker) -> Found {
        members.withLock { members in
            if members.isLocked, case .client = asker { return .locked }
            guard !members.isRetired else { return members.table[subject].map { .known($0) } ?? .retired }
            let use = members.table.use(
                subject,
                by: asker,
                state: { $0.isIdle ? .idle(hadToken: $0.highestGeneration > 0) : .busy },
                make: { make("\(name)[\(subject)]", grants.grant(for: subject), budget) }
            )
            switch use {
            case .known(let keeper): return .known(keeper)
            case .new(let keeper, let dropped): return .new(keeper, dropped: dropped, count: members.table.count)
            case .full: return .full
            }
        }
    }

    /// Stops all of them like a shutdown; subjects that are named from now on get none.
    package func retire() {
        let keepers = members.withLock { members in
            members.isRetired = true
            return members.table.members
        }
        for keeper in keepers { keeper.retire() }
    }

    /// From now on no client is given a token of any subject. Operators still find the tokens, locked.
    package func lock() {
        let rest = change(isLocked: true)
        rest()
    }

    /// Locks, or unlocks the credential and leaves the tokens that there are as locked as they were, for a caller that decides
    /// under a lock of its own.
    ///
    /// - Returns: The rest, to be done after that lock: see ``TokenKeeper/change(isLocked:)``.
    package func change(isLocked: Bool) -> @Sendable () -> Void {
        let keepers = members.withLock { members in
            members.isLocked = isLocked
            return isLocked ? members.table.members : []
        }
        let rest = keepers.map { $0.change(isLocked: true) }
        return { for refuse in rest { refuse() } }
    }

    private func measure(_ count: Int) {
        let labels = [("credential", name), ("strategy", strategy)]
        Gauge(label: "gateway_token_subjects", dimensions: labels).record(count)
    }
}

/// What the keepers of one credential share whose subjects requests name. Their loops ask it; no request waits for it.
package final class SubjectCallLimit: Sendable {
    /// The credential.
    package let name: String
    private let limit: Int
    private let calls: Mutex<SubjectCallBudget>
    private let password = Mutex(SharedPassword())
    /// Rows for requests that were refused. A budget for each subject would be none: subjects can be invented.
    private let refusals = Mutex(EventBudget())

    /// - Parameter limit: How many keepers there are at most.
    package init(name: String, limit: Int) {
        self.name = name
        self.limit = limit
        calls = Mutex(SubjectCallBudget(members: limit))
    }

    /// - Parameter isLook: Only the store is asked.
    func spend(for call: TokenCall, isLook: Bool, at now: MonotonicTime) -> SubjectCallBudget.SpendResult {
        calls.withLock { $0.spend(for: call.trigger, isLook: isLook, by: call.demand?.client, at: now) }
    }

    /// See ``EventBudget/spend(at:)``.
    func spendRefusal(at now: MonotonicTime) -> Int? { refusals.withLock { $0.spend(at: now) } }

    /// Takes that a subject has got this token.
    func expect(_ token: TokenSet, renewedBy policy: RenewalPolicy) {
        calls.withLock { $0.expect(token, renewedBy: policy) }
    }

    /// Takes that the authorization server has given a subject a token.
    func passwordWorked() { password.withLock { $0.worked() } }

    /// See ``SharedPassword/failed(_:hadToken:)``.
    func failed(_ failure: TokenFailure, hadToken: Bool) {
        password.withLock { $0.failed(failure, hadToken: hadToken) }
    }

    /// Why no call is to be made, until an operator's call for one of the subjects has brought a token.
    var refusal: TokenFailure? { password.withLock { $0.refusal } }

    var failure: TokenFailure {
        TokenFailure(
            tooManyCalls: "The subjects of \(name) caused more token requests within an hour than \(limit) subjects may"
                + " (unique_id.at_most). Subjects without a token get none for now. Find out which client names so many subjects."
        )
    }
}

/// The limit on calls for the subjects of a credential, and what is reported when it is reached.
extension KeeperContext {
    /// What is found in the store is a row of the audit log, and a subject that made room is looked for again.
    ///
    /// - Returns: Why the subjects of the credential have no look left; nil when they have.
    func refusal(ofLookFor call: TokenCall) async -> TokenFailure? {
        guard let limit = callLimit, call.trigger != .operator else { return nil }
        guard case .spent(let isUnreported) = limit.spend(for: call, isLook: true, at: clock.now().monotonic) else {
            return nil
        }
        let failure = limit.failure
        await report(failure.problem, of: limit, call, isUnreported: isUnreported)
        return failure
    }

    /// Written once for all of them: every further subject would be another line.
    func report(
        _ problem: GatewayProblem,
        of limit: SubjectCallLimit,
        _ call: TokenCall,
        isUnreported: Bool
    ) async {
        metrics.storm()
        guard isUnreported else { return }
        logger.error(
            "Too many token requests for the subjects of a credential; those without a token get none for now",
            metadata: [
                "gateway.credential": "\(limit.name)", "gateway.trigger": "\(call.trigger.rawValue)",
                "gateway.client": "\(call.demand?.client ?? "")",
            ]
        )
        var event = TokenEvent(
            at: clock.now().wall,
            name: call.trigger == .aheadOfExpiry ? .renewalFailed : .acquisitionFailed,
            credential: limit.name,
            strategy: strategyKind,
            trigger: call.trigger
        )
        event.demand = call.demand
        event.outcome = .failed
        event.errorCode = problem.kind.rawValue
        event.detail = ["reason": "too_many_calls"]
        await note(event)
    }
}
