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
        let fingerprint: PlanFingerprint
        /// Why the configuration on disk is not the one that is served; nil when it is.
        var refusal: String?

        init(
            plan: Plan,
            sources: CredentialSources,
            loadedAt: UnixTime,
            digest: @escaping @Sendable (PlanDefinitions) -> String
        ) {
            self.plan = plan
            self.sources = sources
            self.loadedAt = loadedAt
            fingerprint = PlanFingerprint(of: plan, digest: digest)
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
        current = Mutex(State(plan: plan, sources: sources, loadedAt: now, digest: digest))
    }

    /// Without a digest: nothing compares it with another plan.
    package init(plan: Plan, sources: CredentialSources, at now: UnixTime) {
        digest = { _ in "" }
        current = Mutex(State(plan: plan, sources: sources, loadedAt: now, digest: digest))
    }

    package var state: State { current.withLock { $0 } }
    package var plan: Plan { current.withLock { $0.plan } }
    package var sources: CredentialSources { current.withLock { $0.sources } }

    func replace(with plan: Plan, sources: CredentialSources, at now: UnixTime) {
        let state = State(plan: plan, sources: sources, loadedAt: now, digest: digest)
        current.withLock { $0 = state }
        replaced.continuation.yield()
    }

    /// An element after each reload; several may be one. For one task.
    var replacements: AsyncStream<Void> { replaced.stream }

    func refuse(because reason: String) { current.withLock { $0.refusal = reason } }
}

/// Tells one configuration of an installation from another.
///
/// Created on first use: with many routes that takes as long as the rest of a reload.
final class PlanFingerprint: Sendable {
    private let plan: Plan
    private let digest: @Sendable (PlanDefinitions) -> String
    private let made = Mutex<String?>(nil)

    init(of plan: Plan, digest: @escaping @Sendable (PlanDefinitions) -> String) {
        self.plan = plan
        self.digest = digest
    }

    var text: String {
        if let text = made.withLock({ $0 }) { return text }
        // Outside of the lock, because it takes a while. Whoever comes meanwhile makes the same one.
        let text = digest(PlanDefinitions(plan))
        made.withLock { $0 = text }
        return text
    }
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

/// How a served plan is written and compared, with marks in place of secrets.
extension ServedPlan {
    /// 64 hexadecimal digits.
    package static func newKey() -> String {
        Hexadecimal.random(bytes: 32)
    }

    package init(_ definitions: PlanDefinitions, key: String) {
        self.init(digest: definitions.digest(Self.mark(key: key)), key: key)
    }

    /// What ``PlanDefinitions/digest(_:)`` takes.
    static func mark(key: String) -> ([UInt8]) -> String {
        let secret = SymmetricKey(data: Array(key.utf8))
        return { Hexadecimal.text(of: HMAC<SHA256>.authenticationCode(for: $0, using: secret)) }
    }

    /// What is to be added, changed, kept and dropped on the way to `plan`.
    package func changes(to plan: Plan) -> [PlanChange] {
        PlanChange.between(digest, ServedPlan(PlanDefinitions(plan), key: key).digest)
    }
}
