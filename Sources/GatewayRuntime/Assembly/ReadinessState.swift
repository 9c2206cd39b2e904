import GatewayCore
import Synchronization

/// What services know of the gateway, and `/readyz` tells: where it is in its life, and whether other gateways know it.
final class ReadinessState: Sendable {
    private let current = Mutex(Readiness.Phase.starting)
    private let unlistedReason = Mutex<String?>(nil)

    var phase: Readiness.Phase { current.withLock { $0 } }

    func enter(_ phase: Readiness.Phase) { current.withLock { $0 = phase } }

    /// Why the gateways that share the token store do not know this one; nil when they do.
    var unlisted: String? { unlistedReason.withLock { $0 } }

    func note(unlisted reason: String?) { unlistedReason.withLock { $0 = reason } }
}
