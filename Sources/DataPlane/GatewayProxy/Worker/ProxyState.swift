import GatewayCore
import Logging
import Synchronization

/// What outlives every reload: who is connected, how requests are numbered, what the gateway calls itself.
final class ProxyState: Sendable {
    let clock: any GatewayClock
    let observer: any ExchangeObserver
    let logger: Logger
    /// In `Via`, `Proxy-Status` and challenges; its suffix makes a loop through this very gateway visible.
    let viaName: String
    /// Tells the request ids of this run from those of another.
    let run: UInt32
    private let connections = Atomic<Int>(0)
    private let draining = Atomic<Bool>(false)

    init(clock: any GatewayClock, observer: any ExchangeObserver, logger: Logger) {
        self.clock = clock
        self.observer = observer
        self.logger = logger
        var generator = SystemRandomNumberGenerator()
        let random = generator.next()
        run = UInt32(random & 0xFF_FFFF)
        viaName = "\(ProxyShared.name)-\(String(random >> 32, radix: 16))"
    }

    var isDraining: Bool { draining.load(ordering: .relaxed) }
    func beginDraining() { draining.store(true, ordering: .relaxed) }

    var connectionCount: Int { connections.load(ordering: .relaxed) }

    /// - Returns: How many connections there are with the new one.
    func connectionOpened() -> Int { connections.add(1, ordering: .relaxed).newValue }
    func connectionClosed() { connections.subtract(1, ordering: .relaxed) }
}
