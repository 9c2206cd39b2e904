import GatewayCore
import Synchronization

/// The plan that is served at the moment, with the sources of its credentials. A reload replaces both at once.
final class LivePlan: Sendable {
    struct State: Sendable {
        let plan: Plan
        let sources: CredentialSources
        let expirations: PlanExpirations
        /// Why the configuration on disk is not the one that is served; nil when it is.
        var refusal: String?

        init(plan: Plan, sources: CredentialSources) {
            self.plan = plan
            self.sources = sources
            expirations = PlanExpirations(plan)
        }
    }

    private let current: Mutex<State>

    init(plan: Plan, sources: CredentialSources) { current = Mutex(State(plan: plan, sources: sources)) }

    var state: State { current.withLock { $0 } }
    var plan: Plan { current.withLock { $0.plan } }
    var sources: CredentialSources { current.withLock { $0.sources } }

    func replace(with plan: Plan, sources: CredentialSources) {
        let state = State(plan: plan, sources: sources)
        current.withLock { $0 = state }
    }

    func refuse(because reason: String) { current.withLock { $0.refusal = reason } }
}
