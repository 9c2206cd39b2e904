import GatewayCore
import Logging
import Synchronization

/// What the keepers of one credential share whose subjects requests name. Their loops ask it; no request waits for it.
package final class SubjectCallLimit: Sendable {
    /// The credential.
    package let name: String
    private let limit: Int
    private let calls: Mutex<SubjectCallBudget>
    /// All subjects share one password. What refused it for one of them is not asked for another: directories lock accounts.
    private let passwordRefusal = Mutex<TokenFailure?>(nil)

    /// - Parameter limit: How many keepers there are at most.
    package init(name: String, limit: Int) {
        self.name = name
        self.limit = limit
        calls = Mutex(SubjectCallBudget(members: limit))
    }

    func spend(for trigger: TokenEvent.Trigger, at now: MonotonicTime) -> SubjectCallBudget.SpendResult {
        calls.withLock { $0.spend(for: trigger, at: now) }
    }

    /// Takes that a subject has got this token.
    func expect(_ token: TokenSet, renewedBy policy: RenewalPolicy) {
        calls.withLock { $0.expect(token, renewedBy: policy) }
        passwordRefusal.withLock { $0 = nil }
    }

    /// Takes why a subject has got no token. Another status than 401 may be about that subject alone.
    func heed(_ failure: TokenFailure) {
        guard failure.isRefusedPassword, failure.problem.cause?.httpStatus == 401 else { return }
        passwordRefusal.withLock { $0 = failure }
    }

    /// Why no call is to be made, until an operator's call for one of the subjects has brought a token.
    var refusal: TokenFailure? { passwordRefusal.withLock { $0 } }

    var failure: TokenFailure {
        TokenFailure(
            tooManyCalls: "The subjects of \(name) caused more token requests within an hour than \(limit) of them may"
                + " (unique_id.at_most). Those who have no token get none for now. Who names so many of them?"
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
        guard case .spent(let isNews) = limit.spend(for: call.trigger, at: now) else { return true }
        let failure = limit.failure
        refuse(call, failure, at: now)
        context.metrics.storm()
        if isNews { await report(failure.problem, of: limit, call) }
        return false
    }

    private func refuse(_ call: TokenCall, _ failure: TokenFailure, at now: MonotonicTime) {
        for waiter in decide({ $0.slowDown(call, by: failure, at: now) }) { waiter(.failure(failure.problem)) }
    }

    /// Once for all of them: every further subject would be another line.
    private func report(_ problem: GatewayProblem, of limit: SubjectCallLimit, _ call: TokenCall) async {
        context.logger.error(
            "Too many token requests for the subjects of a credential; those without a token get none for now",
            metadata: ["gateway.credential": "\(limit.name)", "gateway.trigger": "\(call.trigger.rawValue)"]
        )
        var event = TokenEvent(
            at: context.clock.now().wall,
            name: call.trigger == .aheadOfExpiry ? .renewalFailed : .acquisitionFailed,
            credential: limit.name,
            strategy: strategy,
            trigger: call.trigger
        )
        event.demand = call.demand
        event.outcome = .failed
        event.errorCode = problem.kind.rawValue
        event.detail = ["reason": "too_many_calls"]
        await context.note(event)
    }
}
