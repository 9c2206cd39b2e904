import GatewayCore
import Logging
import NIOCore
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

/// What every event loop shares under one configuration: immutable, replaced whole by a reload.
final class ProxyShared: Sendable {
    let state: ProxyState
    let routes: [ServedRoute]
    let authorizer: RequestAuthorizer
    let limits: Limits
    let timeouts: Timeouts
    let clock: any GatewayClock
    let observer: any ExchangeObserver
    let logger: Logger
    let viaName: String
    /// The end of each request's head.
    let requestEnd: ViaLines
    /// Of answers that the gateway gives by itself; a route has its own for those of its upstream.
    let sendsProxyStatus: Bool
    /// One for each distinct upstream, and which of them a route uses.
    let targets: [UpstreamTarget]
    let targetOfRoute: [Int]
    /// An event loop's part of these limits.
    let pendingPerRoute: Int
    let pendingPerUpstream: Int

    static let name = "authgateway"

    /// - Throws: ``ListenerError`` when a route's TLS settings cannot be used.
    init(configuration: ProxyConfiguration, lanes: Int, state: ProxyState) throws {
        self.state = state
        clock = state.clock
        observer = state.observer
        logger = state.logger
        viaName = state.viaName
        let now = clock.now().monotonic
        sendsProxyStatus = configuration.sendsProxyStatus
        var words: [String: UpstreamWords] = [:]
        let served = configuration.routes.enumerated().map { [viaName, sendsProxyStatus] index, route in
            let authority = route.plan.upstream.authority
            let known = words[authority] ?? UpstreamWords(authority, viaName: viaName, sendsProxyStatus)
            words[authority] = known
            return ServedRoute(index: index, route: route, upstream: known, now: now)
        }
        routes = served
        authorizer = RequestAuthorizer(
            routes: served.map { route in
                RequestAuthorizer.Route(
                    plan: route.plan,
                    places: ClientAuthenticator.Places(fields: route.credentialFields, query: route.querySlot),
                    selection: route.selection
                )
            },
            access: configuration.access,
            viaName: viaName,
            sha256: configuration.sha256
        )
        limits = configuration.limits
        timeouts = Timeouts(configuration.limits)
        requestEnd = ViaLines(name: viaName, then: "\r\n")
        pendingPerRoute = max(1, configuration.limits.pendingPerRoute / lanes)
        pendingPerUpstream = max(1, configuration.limits.pendingPerUpstream / lanes)
        (targets, targetOfRoute) = try Self.targets(of: configuration)
    }

    var isDraining: Bool { state.isDraining }

    /// - Returns: Whether the new connection is within `limits.connections`.
    ///   One that is not takes no place: clients that stay after they were refused would keep everybody out.
    func connectionOpened() -> Bool {
        guard state.connectionOpened() > limits.connections else { return true }
        state.connectionClosed()
        return false
    }
    func connectionClosed() { state.connectionClosed() }

    private static func targets(of configuration: ProxyConfiguration) throws -> ([UpstreamTarget], [Int]) {
        var targets: [UpstreamTarget] = []
        var known: [UpstreamTarget.Key: Int] = [:]
        var indices: [Int] = []
        for route in configuration.routes.map(\.plan) {
            let key = UpstreamTarget.Key(route)
            if let index = known[key] {
                indices.append(index)
            } else {
                known[key] = targets.count
                indices.append(targets.count)
                let budget = ConnectionBudget(most: configuration.limits.connectionsPerUpstream)
                targets.append(try UpstreamTarget(route, key: key, budget: budget, sha256: configuration.sha256))
            }
        }
        return (targets, indices)
    }
}

/// What an event loop keeps over reloads: its connections, its numbering, and the lane that new requests take.
final class LaneSlot {
    let number: Int
    let loop: any EventLoop
    let clock = LoopClock()
    let buffers = SpareBuffers()
    let deadlines: DeadlineQueue
    /// nil before the first and after the last.
    private(set) var current: Lane?
    fileprivate var requests: UInt64 = 0
    fileprivate var connections: [ObjectIdentifier: DownstreamHandler] = [:]

    init(number: Int, loop: any EventLoop, shared: ProxyShared) {
        self.number = number
        self.loop = loop
        deadlines = DeadlineQueue(loop: loop)
        current = Lane(slot: self, shared: shared, replacing: nil)
    }

    /// From now on requests are served by `shared`; one under way finishes on what it began with.
    func replace(with shared: ProxyShared) {
        guard let old = current else { return }
        current = Lane(slot: self, shared: shared, replacing: old)
        for connection in Array(connections.values) { connection.followReloadIfIdle() }
    }

    /// Lets these listeners' connections finish what they are at, and closes them.
    func drain(acceptedBy listeners: Set<Int>) {
        for connection in Array(connections.values) where listeners.contains(connection.listenerNumber) {
            connection.drain()
        }
    }

    /// Ends exchanges whose credential was taken from one of these sources.
    func withdraw(_ sources: Set<ObjectIdentifier>) {
        for connection in Array(connections.values) { connection.endIfWithdrawn(sources) }
    }

    func beginDraining() {
        for connection in Array(connections.values) { connection.drain() }
        current?.closeIdle()
    }

    func closeAll() {
        for connection in Array(connections.values) { connection.stop() }
        current?.closeIdle()
        current = nil
    }
}

/// One event loop's share of the data plane under one configuration. Everything in it belongs to that loop.
final class Lane {
    let slot: LaneSlot
    let shared: ProxyShared
    let loop: any EventLoop
    let clock: LoopClock
    let buffers: SpareBuffers
    /// Copies: what all threads ask of one object, they take turns for.
    let limits: Limits
    let timeouts: Timeouts
    /// A reload has put another one in its place.
    private(set) var isReplaced = false
    /// By index into ``ProxyShared/routes``; with the credential in use, or the last one that was. Without one where nothing is
    /// injected, where none has come yet, and where requests choose their source.
    private(set) var routes: [PreparedRoute]
    /// By index and source, where requests choose one; those of a route are thrown away together when there are too many.
    private var chosen: [Int: [ObjectIdentifier: PreparedRoute]] = [:]
    private static let mostChosen = 256
    private let pools: [UpstreamPool]

    /// - Parameter old: Hands over the connections to upstreams that are reached as before.
    init(slot: LaneSlot, shared: ProxyShared, replacing old: Lane?) {
        self.slot = slot
        self.shared = shared
        loop = slot.loop
        clock = slot.clock
        buffers = slot.buffers
        limits = shared.limits
        timeouts = shared.timeouts
        let kept = old.map { $0.shared.limits == shared.limits ? $0.pools : [] } ?? []
        let byKey = Dictionary(kept.map { ($0.key, $0) }) { first, _ in first }
        let pools = shared.targets.map { byKey[$0.key] ?? UpstreamPool(target: $0, slot: slot, shared: shared) }
        self.pools = pools
        routes = shared.routes.map { route in
            let state = RouteState(route: route, pool: pools[shared.targetOfRoute[route.index]])
            return PreparedRoute(state, credential: nil)
        }
        old?.retire(keeping: pools)
    }

    private func retire(keeping kept: [UpstreamPool]) {
        isReplaced = true
        for pool in pools where !kept.contains(where: { $0 === pool }) { pool.retire() }
    }

    /// The exchange's route with this credential: prepared once for each generation. The source is told of the first use, and
    /// drops repeats from other loops.
    func prepare(_ exchange: ActiveExchange, with credential: Credential?) -> PreparedRoute {
        let index = exchange.route.index
        let source = exchange.chosen.map { ObjectIdentifier($0) }
        let known: PreparedRoute? = if let source { chosen[index]?[source] } else { routes[index] }
        if let known, known.credential === credential { return known }
        let new = PreparedRoute(exchange.state, credential: credential)
        if let source { keep(new, for: source, of: index) } else { routes[index] = new }
        if let credential {
            exchange.source?.note(.injected, generation: credential.generation, by: exchange.demand)
        }
        return new
    }

    private func keep(_ route: PreparedRoute, for source: ObjectIdentifier, of index: Int) {
        if chosen[index]?.count ?? 0 >= Self.mostChosen { chosen[index] = nil }
        chosen[index, default: [:]][source] = route
    }

    func nextRequestID() -> RequestID {
        slot.requests &+= 1
        return .counted(run: shared.state.run, lane: slot.number, number: slot.requests)
    }

    // MARK: Connections

    func register(_ connection: DownstreamHandler) { slot.connections[ObjectIdentifier(connection)] = connection }
    func unregister(_ connection: DownstreamHandler) { slot.connections[ObjectIdentifier(connection)] = nil }

    func closeIdle() {
        for pool in pools { pool.closeIdle() }
    }
}
