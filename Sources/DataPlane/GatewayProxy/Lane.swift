import GatewayCore
import Logging
import NIOCore
import Synchronization

/// What every event loop shares: immutable but for a few counters.
final class ProxyShared: Sendable {
    let routes: [ServedRoute]
    let admission: Admission
    let limits: Limits
    let clock: any GatewayClock
    let observer: any ExchangeObserver
    let logger: Logger
    /// In `Via`, `Proxy-Status` and challenges; its suffix makes a loop through this very gateway visible.
    let viaName: String
    let viaLine: [UInt8]
    let responseWriter: ResponseWriter
    /// One for each distinct upstream, and which of them a route uses.
    let targets: [UpstreamTarget]
    let targetOfRoute: [Int]
    let pendingPerRoute: Int
    let idPrefix: String
    private let connections = Atomic<Int>(0)
    private let draining = Atomic<Bool>(false)

    static let name = "authgateway"

    init(
        configuration: ProxyConfiguration,
        lanes: Int,
        clock: any GatewayClock,
        observer: any ExchangeObserver,
        logger: Logger
    ) throws {
        let now = clock.now().monotonic
        let served = configuration.routes.enumerated().map { ServedRoute(index: $0, route: $1, now: now) }
        routes = served
        admission = Admission(
            routes: configuration.routes.map(\.plan),
            slots: served.map { Admission.Slots(fields: $0.ownedNames, query: $0.querySlot) },
            access: configuration.access,
            sha256: configuration.sha256
        )
        limits = configuration.limits
        self.clock = clock
        self.observer = observer
        self.logger = logger
        var generator = SystemRandomNumberGenerator()
        let random = generator.next()
        idPrefix = String(random & 0xFF_FFFF, radix: 36)
        viaName = "\(Self.name)-\(String(random >> 32, radix: 16))"
        viaLine = Array("Via: 1.1 \(viaName)\r\n".utf8)
        responseWriter = ResponseWriter(
            viaLine: viaLine,
            proxyStatusPrefix: Array("Proxy-Status: \(Self.name); received-status=".utf8)
        )
        pendingPerRoute = max(1, configuration.limits.pendingPerRoute / lanes)
        (targets, targetOfRoute) = try Self.targets(of: configuration.routes.map(\.plan))
    }

    var isDraining: Bool { draining.load(ordering: .relaxed) }
    func beginDraining() { draining.store(true, ordering: .relaxed) }

    var connectionCount: Int { connections.load(ordering: .relaxed) }

    /// - Returns: Whether the new connection is within `limits.connections`.
    func connectionOpened() -> Bool { connections.add(1, ordering: .relaxed).newValue <= limits.connections }
    func connectionClosed() { connections.subtract(1, ordering: .relaxed) }

    private static func targets(of routes: [RoutePlan]) throws -> ([UpstreamTarget], [Int]) {
        var targets: [UpstreamTarget] = []
        var known: [UpstreamTarget.Key: Int] = [:]
        var indices: [Int] = []
        for route in routes {
            let key = UpstreamTarget.Key(origin: route.upstream, tls: route.tls)
            if let index = known[key] {
                indices.append(index)
            } else {
                known[key] = targets.count
                indices.append(targets.count)
                targets.append(try UpstreamTarget(route))
            }
        }
        return (targets, indices)
    }
}

/// One event loop's share of the data plane. Everything in it belongs to that loop.
final class Lane {
    let loop: any EventLoop
    let shared: ProxyShared
    private let number: Int
    private let pools: [UpstreamPool]
    private var blocks: [InjectedBlock?]
    private var pending: [Int]
    private var requests: UInt64 = 0
    private var connections: [ObjectIdentifier: DownstreamHandler] = [:]

    init(number: Int, loop: any EventLoop, shared: ProxyShared) {
        self.number = number
        self.loop = loop
        self.shared = shared
        pools = shared.targets.map { UpstreamPool(target: $0, loop: loop, limits: shared.limits) }
        blocks = Array(repeating: nil, count: shared.routes.count)
        pending = Array(repeating: 0, count: shared.routes.count)
    }

    func pool(for route: Int) -> UpstreamPool { pools[shared.targetOfRoute[route]] }

    /// At most 15 bytes, so that it lives without the heap.
    func nextRequestID() -> String {
        requests &+= 1
        return "\(shared.idPrefix)\(number)-\(String(requests, radix: 36))"
    }

    /// The block of a route, built once for each generation and loop.
    func block(for route: ServedRoute, _ credential: Credential?) -> InjectedBlock {
        if let block = blocks[route.index], block.credential === credential { return block }
        let block = InjectedBlock(route: route, credential: credential)
        blocks[route.index] = block
        return block
    }

    /// Whether this is the first use of a generation on a route and loop; the source drops repeats from other loops.
    func isFirstUse(_ credential: Credential, route: ServedRoute) -> Bool {
        guard let block = blocks[route.index] else { return true }
        return block.credential !== credential
    }

    // MARK: Waiting requests

    func beginWaiting(_ route: Int) -> Bool {
        guard pending[route] < shared.pendingPerRoute else { return false }
        pending[route] += 1
        return true
    }

    func endWaiting(_ route: Int) { pending[route] -= 1 }

    // MARK: Connections

    func register(_ connection: DownstreamHandler) { connections[ObjectIdentifier(connection)] = connection }
    func unregister(_ connection: DownstreamHandler) { connections[ObjectIdentifier(connection)] = nil }
    var connectionCount: Int { connections.count }

    func beginDraining() {
        for connection in Array(connections.values) { connection.drain() }
        for pool in pools { pool.closeIdle() }
    }

    func closeAll() {
        for connection in Array(connections.values) { connection.closeNow() }
        for pool in pools { pool.closeIdle() }
    }
}
