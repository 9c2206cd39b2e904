import Crypto
import FoundationEssentials
package import GatewayHTTP
import GatewayTokenStores
import Synchronization

/// The plan that is served at the moment, with the sources of its credentials. A reload replaces both at once.
package final class LivePlan: Sendable {
    package struct State: Sendable {
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

    package init(
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
    package init(plan: Plan, sources: CredentialSources, at now: UnixTime) {
        digest = { _ in "" }
        current = Mutex(State(plan: plan, sources: sources, loadedAt: now, digest: ""))
    }

    package var state: State { current.withLock { $0 } }
    package var plan: Plan { current.withLock { $0.plan } }
    package var sources: CredentialSources { current.withLock { $0.sources } }

    func replace(with plan: Plan, _ definitions: PlanDefinitions, sources: CredentialSources, at now: UnixTime) {
        let state = State(plan: plan, sources: sources, loadedAt: now, digest: digest(definitions))
        current.withLock { $0 = state }
        replaced.continuation.yield()
    }

    /// An element after each reload; several may be one. For one task.
    var replacements: AsyncStream<Void> { replaced.stream }

    func refuse(because reason: String) { current.withLock { $0.refusal = reason } }
}

extension InstallationKey {
    /// Six hexadecimal digits that change with anything in the plan, its secrets included, and tell nothing about them.
    package func digest(of definitions: PlanDefinitions) -> String {
        let marks = definitions.digest { configurationDigest(of: $0) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        // Encoding fails for no plan: all of it is text and numbers.
        let bytes = (try? encoder.encode(marks)).map { Array($0) } ?? []
        return String(configurationDigest(of: bytes).prefix(6))
    }
}

extension ServedPlan {
    /// 64 hexadecimal digits.
    package static func newKey() -> String {
        Hexadecimal.random(bytes: 32)
    }

    package init(_ definitions: PlanDefinitions, key: String) {
        let secret = SymmetricKey(data: Array(key.utf8))
        let digest = definitions.digest { bytes in
            Hexadecimal.text(of: HMAC<SHA256>.authenticationCode(for: bytes, using: secret))
        }
        self.init(digest: digest, key: key)
    }

    /// What is to be added, changed, kept and dropped on the way to `plan`.
    package func changes(to plan: Plan) -> [PlanChange] {
        PlanChange.between(digest, ServedPlan(PlanDefinitions(plan), key: key).digest)
    }
}
