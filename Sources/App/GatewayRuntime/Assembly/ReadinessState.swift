import Synchronization

/// Where the gateway is in its life; written by the data plane's service, read by `/readyz`.
final class ReadinessState: Sendable {
    enum Phase: Sendable {
        case starting
        case serving
        case draining
    }

    private let current = Mutex(Phase.starting)

    var phase: Phase { current.withLock { $0 } }

    func enter(_ phase: Phase) { current.withLock { $0 = phase } }
}
