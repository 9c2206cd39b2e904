import GatewayHTTP
import GatewayTokens
import NIOCore
package import NIOPosix
import Synchronization

/// What an event loop keeps over reloads: its connections, its numbering, and the configuration that new requests take.
final class Worker {
    let number: Int
    let loop: any EventLoop
    let clock: LoopClock
    let buffers = SpareBuffers()
    let spareParts = SpareStreamParts()
    let deadlines: DeadlineQueue
    let flushes: FlushQueue
    let upstreams = SharedUpstreams()
    private var unfinishedHeads: UnfinishedHeads<any ClientConnection>
    /// Has the worker of a number call ``endOldHeads()``.
    private var ask: (Int) -> Void = { _ in }
    /// Has all workers call ``closeIdle()``.
    private(set) var freeIdle: @Sendable () -> Void = {}
    /// nil before the first and after the last.
    private(set) var current: WorkerConfiguration?
    private var requests: UInt64 = 0
    private var traceNumbers = TraceNumbers(seed: .random(in: .min ... .max))
    private var connections: [ObjectIdentifier: any ClientConnection] = [:]
    private var tunnels: [ObjectIdentifier: ConnectTunnel] = [:]
    /// Connections through a proxy that is sent a login, which may be locked or replaced.
    private var throughProxies: [ObjectIdentifier: (channel: any Channel, parent: ParentHop)] = [:]
    /// Connections whose host is not known yet.
    private var hellos: [ObjectIdentifier: TLSHello] = [:]
    private var date = (second: Int64.min, line: [UInt8]())
    private var endingTunnels: [ObjectIdentifier: EndingTunnel] = [:]

    /// - Parameter turns: nil if the turns of the loops are not counted.
    init(number: Int, loop: any EventLoop, turns: LoopTurns? = nil, shared: ProxyShared) {
        self.number = number
        self.loop = loop
        clock = LoopClock(shared.clock, turns?.count(of: loop))
        unfinishedHeads = UnfinishedHeads(worker: number, memory: shared.state.headMemory)
        deadlines = DeadlineQueue(loop: loop)
        flushes = FlushQueue(loop: loop)
        current = WorkerConfiguration(worker: self, shared: shared, replacing: nil)
    }

    /// How the worker reaches the others: ``ask`` and ``freeIdle``.
    func join(ask: @escaping (Int) -> Void, freeIdle: @escaping @Sendable () -> Void) {
        self.ask = ask
        self.freeIdle = freeIdle
    }

    /// From now on requests are served by `shared`; one under way finishes on what it began with,
    /// unless its right was withdrawn.
    func replace(with shared: ProxyShared) {
        guard let old = current else { return }
        current = WorkerConfiguration(worker: self, shared: shared, replacing: old)
        let reload = ReloadInProgress(to: shared)
        for connection in Array(connections.values) { connection.followReload(reload) }
        endTunnels { reload.ends($0.exchange) }
        for tunnel in Array(tunnels.values) { tunnel.followReload(to: shared) }
        endThroughProxies()
        upstreams.followReload { reload.ends($0) }
    }

    /// `Date` with its CRLF, made once a second.
    func dateLine(at time: UnixTime) -> [UInt8] {
        let second = time.milliseconds / 1000
        if date.second != second { date = (second, Array("Date: \(time.httpDate)\r\n".utf8)) }
        return date.line
    }

    // MARK: Numbers

    /// The number of a new request, among those of this worker.
    func nextRequestNumber() -> UInt64 {
        requests &+= 1
        return requests
    }

    func beginTrace(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ sampling: TraceSampling
    ) -> RequestTrace {
        RequestTrace(head, bytes, sampling, &traceNumbers)
    }

    // MARK: Connections

    func register(_ connection: any ClientConnection) { connections[ObjectIdentifier(connection)] = connection }
    func unregister(_ connection: any ClientConnection) { connections[ObjectIdentifier(connection)] = nil }
    func register(_ tunnel: ConnectTunnel) { tunnels[ObjectIdentifier(tunnel)] = tunnel }
    func unregister(_ tunnel: ConnectTunnel) { tunnels[ObjectIdentifier(tunnel)] = nil }
    func register(_ hello: TLSHello) { hellos[ObjectIdentifier(hello)] = hello }
    func unregister(_ hello: TLSHello) { hellos[ObjectIdentifier(hello)] = nil }
    /// Closes the connection when the login of its proxy is locked, or when a reload replaces it.
    ///
    /// - Throws: ``ParentFailure`` when that has happened.
    func register(_ channel: any Channel, through parent: ParentHop) throws {
        guard parent.login != nil else { return }
        if let problem = problem(with: parent) { throw ParentFailure(problem: problem) }
        let id = ObjectIdentifier(channel)
        throughProxies[id] = (channel, parent)
        channel.closeFuture.assumeIsolated().whenComplete { [weak self] _ in self?.throughProxies[id] = nil }
    }

    /// Why nothing may be sent to that proxy now. A request that came before a reload may ask.
    ///
    /// - Parameter server: Where no route leads to it.
    func problem(with parent: ParentHop, to server: TunnelDestination? = nil) -> GatewayProblem? {
        if let problem = parent.lockedProblem { return problem }
        guard current?.shared.sendsLogin(of: parent) ?? true else { return parent.replaced }
        return server?.refusalByProxy
    }

    private func endThroughProxies() {
        for connection in Array(throughProxies.values) where problem(with: connection.parent) != nil {
            SocketWriter.closeAtOnce(connection.channel)
        }
    }

    func isRegistered(_ hello: TLSHello) -> Bool { hellos[ObjectIdentifier(hello)] != nil }

    // MARK: Tunnels whose client has left

    func finish(_ tunnel: EndingTunnel) {
        let id = ObjectIdentifier(tunnel.upstream)
        endingTunnels[id] = tunnel
        tunnel.upstream.finishTunnel { [weak self] in self?.endingTunnels[id] = nil }
    }

    private func endTunnels(where isOver: (EndingTunnel) -> Bool) {
        for tunnel in endingTunnels.values.filter(isOver) { tunnel.upstream.abandon(isCut: true) }
    }

    // MARK: Unfinished heads

    /// A head has come in part.
    ///
    /// - Parameter bytes: What the connection holds for it.
    fileprivate func beginHead(_ connection: any ClientConnection, bytes: Int) -> UnfinishedHead.Place {
        unfinishedHeads.begin(
            connection,
            bytes: bytes,
            at: current?.shared.clock.monotonic() ?? MonotonicTime(nanoseconds: 0)
        )
    }

    fileprivate func growHead(_ place: UnfinishedHead.Place, by bytes: Int) {
        unfinishedHeads.grow(place, by: bytes)
    }

    fileprivate func endHead(_ place: UnfinishedHead.Place) {
        unfinishedHeads.end(place)
        headsChanged()
    }

    private func headsChanged() {
        guard let state = current?.shared.state else { return }
        state.memoryTrim.changed(to: state.headMemory.bytes)
    }

    /// Ends the oldest heads while all of them together have more than `limits.head_memory`.
    func endOldHeads() {
        while true {
            switch unfinishedHeads.demand() {
            case .nothing: return headsChanged()
            case .ask(let worker): return ask(worker)
            case .end(let connection): connection.refuseForHeadMemory()
            }
        }
    }

    /// Closes the connections of these listeners once their current requests have finished.
    func drain(acceptedBy listeners: Set<Int>) {
        for connection in Array(connections.values) where listeners.contains(connection.listenerNumber) {
            connection.drain()
        }
        for tunnel in Array(tunnels.values) where listeners.contains(tunnel.listenerNumber) { tunnel.cut() }
        for hello in Array(hellos.values) where listeners.contains(hello.listenerNumber) { hello.close() }
    }

    /// Ends exchanges that go with one of these credentials.
    func withdraw(_ withdrawn: WithdrawnCredentials) {
        for connection in Array(connections.values) { connection.endIfWithdrawn(withdrawn) }
        endTunnels { $0.exchange.isOver(by: withdrawn) }
        endThroughProxies()
        if let now = current?.shared.clock.monotonic() { upstreams.endIfWithdrawn(withdrawn, at: now) }
    }

    /// Closes idle upstream connections.
    func closeIdle() { current?.closeIdle() }

    func beginDraining() {
        for connection in Array(connections.values) { connection.drain() }
        for hello in Array(hellos.values) { hello.close() }
        closeIdle()
    }

    func closeAll() {
        for connection in Array(connections.values) { connection.stop() }
        for tunnel in Array(tunnels.values) { tunnel.cut() }
        for hello in Array(hellos.values) { hello.close() }
        closeIdle()
        current = nil
    }
}

/// A client's connection as its ``Worker`` sees it: what can come to all connections of an event loop.
protocol ClientConnection: AnyObject {
    /// Tells which listener accepted the connection.
    var listenerNumber: Int { get }
    /// A reload has come, which decides about the requests that began before it.
    func followReload(_ reload: ReloadInProgress)
    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials)
    /// Finishes what is under way, and closes.
    func drain()
    /// The gateway ends, whatever is under way.
    func stop()
    /// Newer heads need the memory of this connection's unfinished head (`limits.head_memory`), which no longer counts.
    func refuseForHeadMemory()
}

/// What a connection's unfinished head holds of `limits.head_memory`.
struct UnfinishedHead {
    typealias Place = UnfinishedHeads<any ClientConnection>.Place

    private var place: Place?
    private var bytes = 0

    /// Call ``Worker/endOldHeads()`` afterwards.
    ///
    /// - Parameter bytes: What the connection holds for the head now.
    mutating func count(_ bytes: Int, of connection: any ClientConnection, in worker: Worker) {
        if let place {
            worker.growHead(place, by: bytes - self.bytes)
        } else {
            place = worker.beginHead(connection, bytes: bytes)
        }
        self.bytes = bytes
    }

    mutating func release(in worker: Worker) {
        guard let place = place.take() else { return }
        worker.endHead(place)
    }

    /// The worker has ended it.
    mutating func forget() { place = nil }
}

/// The connections of an event loop to upstreams that carry many exchanges at one time, in whatever pool.
final class SharedUpstreams {
    private var connections: [ObjectIdentifier: HTTP2UpstreamConnection] = [:]

    func add(_ connection: HTTP2UpstreamConnection) { connections[ObjectIdentifier(connection)] = connection }
    func remove(_ connection: HTTP2UpstreamConnection) { connections[ObjectIdentifier(connection)] = nil }

    /// The exchanges that go with these credentials have ended.
    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials, at now: MonotonicTime) {
        for connection in Array(connections.values) { connection.endIfWithdrawn(withdrawn, at: now) }
    }

    /// A reload has come, and has ended exchanges.
    ///
    /// - Parameter isOver: Whether it takes a right away.
    func followReload(_ isOver: (SentRight) -> Bool) {
        for connection in Array(connections.values) { connection.followReload(isOver) }
    }
}

/// Counts the turns of the loops of a group: in each a loop serves all sockets that are ready, and then its tasks.
package final class LoopTurns: NIOEventLoopMetricsDelegate {
    /// The turns of one loop, which alone writes them.
    final class Count: Sendable {
        /// The identity of the loop; 0 while it has none.
        private let loop = Atomic<UInt>(0)
        private let ended = Atomic<UInt64>(0)
        private let end = Atomic<UInt64>(0)

        /// The number of the turn that is under way.
        var turn: UInt64 { ended.load(ordering: .relaxed) }
        /// When the turn before it ended.
        var lastEnd: NIODeadline { .uptimeNanoseconds(end.load(ordering: .relaxed)) }

        /// - Returns: Whether it is that loop's. It becomes so if it was no loop's.
        fileprivate func belongs(to id: UInt) -> Bool {
            let known = loop.load(ordering: .relaxed)
            guard known == 0 else { return known == id }
            let (isTaken, other) = loop.compareExchange(expected: 0, desired: id, ordering: .relaxed)
            return isTaken || other == id
        }

        fileprivate func turnEnded(at time: NIODeadline) {
            end.store(time.uptimeNanoseconds, ordering: .relaxed)
            ended.add(1, ordering: .relaxed)
        }
    }

    private let counts: [Count]

    /// - Parameter loops: How many loops the group has.
    package init(loops: Int) { counts = (0..<loops).map { _ in Count() } }

    package func processedTick(info: NIOEventLoopTickInfo) {
        count(UInt(bitPattern: info.eventLoopID))?.turnEnded(at: info.endTime)
    }

    /// nil for a loop of another group.
    func count(of loop: any EventLoop) -> Count? { count(UInt(bitPattern: ObjectIdentifier(loop))) }

    private func count(_ id: UInt) -> Count? {
        for count in counts where count.belongs(to: id) { return count }
        return nil
    }
}
