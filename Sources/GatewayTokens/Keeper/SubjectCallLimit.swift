import GatewayEvents
import GatewayHTTP
import Logging
import Synchronization

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

    /// Takes that the authority has given a subject a token.
    func passwordWorked() { password.withLock { $0.worked() } }

    /// See ``SharedPassword/failed(_:hadToken:)``.
    func failed(_ failure: TokenFailure, hadToken: Bool) {
        password.withLock { $0.failed(failure, hadToken: hadToken) }
    }

    /// Why no call is to be made, until an operator's call for one of the subjects has brought a token.
    var refusal: TokenFailure? { password.withLock { $0.refusal } }

    var failure: TokenFailure {
        TokenFailure(
            tooManyCalls: "The subjects of \(name) caused more token requests within an hour than \(limit) of them may"
                + " (unique_id.at_most). Those who have no token get none for now. Find out which client names so many subjects."
        )
    }
}

extension TokenKeeper {
    /// Whether the subjects of the credential have a call left for this one, and their password was not refused. If not, every
    /// waiting request is refused.
    func isGranted(_ call: TokenCall) async -> Bool {
        guard let limit = context.callLimit, !call.isFirstLook else { return true }
        let now = context.clock.now().monotonic
        if let refusal = limit.refusal {
            refuse(call, refusal, at: now)
            return false
        }
        guard case .spent(let isNews) = limit.spend(for: call, isLook: false, at: now) else { return true }
        let failure = limit.failure
        refuse(call, failure, at: now)
        await context.report(failure.problem, of: limit, call, isNews: isNews)
        return false
    }

    private func refuse(_ call: TokenCall, _ failure: TokenFailure, at now: MonotonicTime) {
        for waiter in decide({ $0.slowDown(call, by: failure, at: now) }) { waiter(.failure(failure.problem)) }
    }
}

extension KeeperContext {
    /// What is found in the store is a row of the audit log, and a subject that made room is looked for again.
    ///
    /// - Returns: Why the subjects of the credential have no look left; nil when they have.
    func refusal(ofLookFor call: TokenCall) async -> TokenFailure? {
        guard let limit = callLimit, call.trigger != .operator else { return nil }
        guard case .spent(let isNews) = limit.spend(for: call, isLook: true, at: clock.now().monotonic) else {
            return nil
        }
        let failure = limit.failure
        await report(failure.problem, of: limit, call, isNews: isNews)
        return failure
    }

    /// Written once for all of them: every further subject would be another line.
    fileprivate func report(
        _ problem: GatewayProblem,
        of limit: SubjectCallLimit,
        _ call: TokenCall,
        isNews: Bool
    ) async {
        metrics.storm()
        guard isNews else { return }
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
