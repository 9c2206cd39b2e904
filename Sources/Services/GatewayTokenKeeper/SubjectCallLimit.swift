import GatewayCore
import Logging
import Synchronization

/// What the keepers of one credential share whose subjects requests name. Their loops ask it; no request waits for it.
package final class SubjectCallLimit: Sendable {
    /// The credential.
    package let name: String
    private let limit: Int
    private let calls: Mutex<SubjectCallBudget>

    /// - Parameter limit: How many keepers there are at most.
    package init(name: String, limit: Int) {
        self.name = name
        self.limit = limit
        calls = Mutex(SubjectCallBudget(members: limit))
    }

    func spend(for trigger: TokenEvent.Trigger, at now: MonotonicTime) -> SubjectCallBudget.SpendResult {
        calls.withLock { $0.spend(for: trigger, at: now) }
    }

    func expect(_ token: TokenSet, renewedBy policy: RenewalPolicy) {
        calls.withLock { $0.expect(token, renewedBy: policy) }
    }

    var failure: TokenFailure {
        TokenFailure(
            tooManyCalls: "The subjects of \(name) caused more token requests within an hour than \(limit) of them may"
                + " (unique_id.at_most). Those who have no token get none for now. Who names so many of them?"
        )
    }
}

extension TokenKeeper {
    /// Whether the subjects of the credential have a call left for this one. If not, every waiting request is refused.
    func isGranted(_ call: TokenCall) async -> Bool {
        guard let limit = context.callLimit, !call.isFirstLook else { return true }
        let now = context.clock.now().monotonic
        guard case .spent(let isNews) = limit.spend(for: call.trigger, at: now) else { return true }
        let failure = limit.failure
        for waiter in decide({ $0.slowDown(call, by: failure, at: now) }) { waiter(.failure(failure.problem)) }
        context.metrics.storm()
        if isNews { await report(failure.problem, of: limit, call) }
        return false
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
