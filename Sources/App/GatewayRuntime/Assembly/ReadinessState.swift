import GatewayCore
import Synchronization

/// Where the gateway is in its life; written by the data plane's service, read by `/readyz`.
final class ReadinessState: Sendable {
    private let current = Mutex(Readiness.Phase.starting)

    var phase: Readiness.Phase { current.withLock { $0 } }

    func enter(_ phase: Readiness.Phase) { current.withLock { $0 = phase } }
}
