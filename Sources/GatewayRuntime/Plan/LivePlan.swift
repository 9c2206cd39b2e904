import GatewayCore
import Synchronization

/// The plan that is served at the moment, with the sources of its credentials. A reload replaces both at once.
final class LivePlan: Sendable {
    struct State: Sendable {
        let plan: Plan
        let sources: CredentialSources
        let expirations: PlanExpirations
        /// When it was taken into use.
        let loadedAt: UnixTime
        /// Tells one configuration of this installation from another.
        let digest: String
        /// Why the configuration on disk is not the one that is served; nil when it is.
        var refusal: String?

        init(plan: Plan, sources: CredentialSources, loadedAt: UnixTime, digest: String) {
            self.plan = plan
            self.sources = sources
            self.loadedAt = loadedAt
            self.digest = digest
            expirations = PlanExpirations(plan)
        }
    }

    private let current: Mutex<State>

    private let digest: @Sendable (PlanDefinitions) -> String
    private let replaced = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    init(
        plan: Plan,
        sources: CredentialSources,
        at now: UnixTime,
        digest: @escaping @Sendable (PlanDefinitions) -> String
    ) {
        self.digest = digest
        let text = digest(PlanDefinitions(plan))
        current = Mutex(State(plan: plan, sources: sources, loadedAt: now, digest: text))
    }

    /// Without a digest: nothing compares it with another plan.
    init(plan: Plan, sources: CredentialSources, at now: UnixTime) {
        digest = { _ in "" }
        current = Mutex(State(plan: plan, sources: sources, loadedAt: now, digest: ""))
    }

    var state: State { current.withLock { $0 } }
    var plan: Plan { current.withLock { $0.plan } }
    var sources: CredentialSources { current.withLock { $0.sources } }

    func replace(with plan: Plan, _ definitions: PlanDefinitions, sources: CredentialSources, at now: UnixTime) {
        let state = State(plan: plan, sources: sources, loadedAt: now, digest: digest(definitions))
        current.withLock { $0 = state }
        replaced.continuation.yield()
    }

    /// An element after each reload; several may be one. For one task.
    var replacements: AsyncStream<Void> { replaced.stream }

    func refuse(because reason: String) { current.withLock { $0.refusal = reason } }
}
