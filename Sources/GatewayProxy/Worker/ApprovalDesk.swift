import GatewayHTTP
import Synchronization

/// The requests of all workers that wait for an operator's approval: ``HeldRequests``, and how each is told what was decided.
final class ApprovalDesk: Sendable {
    /// Called on any thread, once for each verdict.
    typealias OnVerdict = @Sendable (HeldRequests.Verdict) -> Void

    private struct State {
        var requests = HeldRequests()
        /// By the ID of the request.
        var callbacks: [String: OnVerdict] = [:]
    }

    private let state = Mutex(State())
    private let clock: any GatewayClock
    private let observer: any ExchangeObserver

    init(clock: any GatewayClock, observer: any ExchangeObserver) {
        self.clock = clock
        self.observer = observer
    }

    /// Lets a request wait, until ``release(_:as:)`` or ``leave(_:because:)``.
    func hold(_ request: HeldRequest, _ onVerdict: @escaping OnVerdict) throws(GatewayProblem) {
        let refusal = state.withLock { state in
            let refusal = state.requests.hold(request)
            if refusal == nil { state.callbacks[request.id] = onVerdict }
            return refusal
        }
        if let refusal { throw refusal.problem() }
        observer.held(request, .held)
    }

    var waiting: [HeldRequest] {
        let now = clock.monotonic()
        return state.withLock { $0.requests.waiting(at: now) }
    }

    /// - Parameter approver: Who approves it; nil denies it.
    /// - Returns: nil if no such request waits.
    func decide(_ id: String, approver: String?) -> HeldRequest? {
        let now = clock.monotonic()
        let (request, onVerdict) = state.withLock { state -> (HeldRequest?, OnVerdict?) in
            guard let request = state.requests.decide(id, approver: approver, at: now) else { return (nil, nil) }
            return (request, state.callbacks[id])
        }
        onVerdict?(approver == nil ? .denied : .approved)
        return request
    }

    /// - Parameter subject: What would be sent.
    /// - Returns: Whether exactly that is approved, for this one time.
    func release(_ request: HeldRequest, as subject: HeldRequest.Subject) -> Bool {
        let now = clock.monotonic()
        let approver = state.withLock { state in
            let approver = state.requests.release(request.id, subject, at: now)
            if approver != nil { state.callbacks[request.id] = nil }
            return approver
        }
        guard let approver else { return false }
        observer.held(request, .released(approvedBy: approver))
        return true
    }

    /// The request ends before it was sent.
    ///
    /// - Parameter problem: What it ended with; nil if its client has left.
    func leave(_ id: String, because problem: ProblemKind?) {
        let left = state.withLock { state in
            state.callbacks[id] = nil
            return state.requests.leave(id)
        }
        guard let left else { return }
        let reason = problem?.rawValue ?? "client-left"
        observer.held(left, problem == .approvalRequired ? .expired : .dropped(reason: reason))
    }

    /// The gateway stops.
    func close() {
        let callbacks = state.withLock { state in
            state.requests.close()
            return Array(state.callbacks.values)
        }
        for onVerdict in callbacks { onVerdict(.stopped) }
    }
}
