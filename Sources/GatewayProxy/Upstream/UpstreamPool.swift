import GatewayHTTP
import NIOCore

/// The connections of one event loop to one target. A proxied request never changes its thread.
///
/// ``PoolState`` decides everything. This shell holds the connections and the waiting requests. It tells the state what happens and
/// carries out what the state returns.
final class UpstreamPool {
    typealias Done = (Result<any UpstreamStream, GatewayProblem>) -> Void

    let target: UpstreamTarget
    let mayUseHTTP2: Bool
    private let budget: ConnectionBudget
    private let loop: any EventLoop
    private let clock: LoopClock
    private let connectTimeout: Duration
    let deadlines: DeadlineQueue
    let flushes: FlushQueue
    /// All HTTP/2 connections of the event loop, including those of other pools.
    let upstreams: SharedUpstreams
    private let dialer: Dialer
    /// The account of ``state``, which looks up clients by name.
    private let leases: ClientLeases
    /// The client that was looked up last. The next request is usually from the same one.
    private var lastClient: (name: String, client: PoolClient)?
    private var state: PoolState
    /// HTTP/1.1 connections by ``ConnectionID/index``.
    private var connections: [HTTP1UpstreamConnection?] = []
    /// HTTP/2 connections, which carry many requests each, by ``ConnectionID/index``.
    private var sharedConnections: [HTTP2UpstreamConnection?] = []
    /// Why the last attempt to open a connection failed, for the other requests that waited for it.
    private var lastFailure: GatewayProblem?
    /// The upstream's last HTTP/2 connection did not support WebSocket (RFC 8441 section 3).
    private(set) var lacksWebSocket = false
    private var waiting: [WaiterTicket: ConnectionRequest] = [:]
    /// Set while the pool has joined the budget, which keeps the pool alive.
    private var handle: ConnectionBudget.PoolHandle?

    /// - Parameter server: The target, if it has no route.
    init(target: UpstreamTarget, server: TunnelDestination? = nil, worker: Worker, shared: ProxyShared) {
        self.target = target
        mayUseHTTP2 = target.version != .http1
        budget = target.budget
        loop = worker.loop
        clock = worker.clock
        connectTimeout = shared.limits.connectTimeout
        deadlines = worker.deadlines
        flushes = worker.flushes
        upstreams = worker.upstreams
        dialer = Dialer(target: target, server: server, worker: worker, shared: shared)
        var rules = PoolState.Rules(
            maximumWaiters: shared.pendingPerUpstream,
            idleTimeout: shared.limits.idleTimeout
        )
        rules.maximumAge = shared.limits.connectionMaxAge
        rules.opensOneAtATime = mayUseHTTP2
        leases = budget.leases
        state = PoolState(rules, leases)
    }

    var key: UpstreamTarget.Key { target.key }

    /// The target if it has no route, with the address that was dialled last.
    var server: TunnelDestination? { dialer.server }

    private var now: MonotonicTime { MonotonicTime(clock.now) }
    private var situation: PoolSituation { PoolSituation(now: now, othersWait: budget.isWaitedFor) }

    private func connection(_ id: ConnectionID) -> HTTP1UpstreamConnection? {
        id.index < connections.count ? connections[id.index] : nil
    }

    private func sharedConnection(_ id: ConnectionID) -> HTTP2UpstreamConnection? {
        id.index < sharedConnections.count ? sharedConnections[id.index] : nil
    }

    // MARK: Idle connections

    /// A connection that was open a moment ago. It may turn out to be closed on first use. nil while other requests wait for one,
    /// and for a client that is over its share.
    ///
    /// - Parameter mayRepeat: Whether the request may be sent again if the connection turns out to be closed.
    func takeIdle(for name: String?, mayRepeat: Bool) -> (any UpstreamStream)? {
        let now = now
        let client = client(name)
        if let id = state.takeStream(for: client, at: now), let shared = sharedConnection(id) {
            return shared.makeStream(for: client)
        }
        while let id = state.next(for: client), let candidate = connection(id) {
            let action = state.take(
                for: client,
                mayRepeat: mayRepeat,
                isOpen: candidate.isOpen,
                mayHaveInput: candidate.mayHaveInput,
                busySince: clock.busySince.map { MonotonicTime($0) },
                at: now
            )
            switch action {
            case .lease: return candidate
            // Bytes that arrived before the request do not answer it, but NIO may report them only after the request was sent.
            case .look:
                guard candidate.hasInput else { return candidate }
                candidate.abandon(isCut: false)
            case .close: candidate.abandon(isCut: false)
            case .gone: continue
            }
        }
        return nil
    }

    /// The client's entry in the account. A lookup by name costs a hash.
    private func client(_ name: String?) -> PoolClient {
        guard let name else { return leases.client(nil) }
        if let lastClient, lastClient.name == name { return lastClient.client }
        let client = leases.client(name)
        lastClient = (name, client)
        return client
    }

    /// Whether the connection that would be taken is just being read. This is so if the client had pipelined the request.
    var isBusyReading: Bool { state.latest.flatMap(connection)?.mayBeEnding ?? false }

    /// The connection's request is over, and it can carry another one.
    func putBack(_ connection: HTTP1UpstreamConnection, _ id: ConnectionID, keepAliveSeconds: Int?) {
        let answer = state.putBack(id, keepAliveSeconds: keepAliveSeconds, situation)
        settle(connection, id, answer, keepAliveSeconds: keepAliveSeconds)
    }

    /// Carries out what the state returned for a connection whose request is over.
    ///
    /// - Returns: Whether the connection stays open.
    @discardableResult
    private func settle(
        _ connection: some PooledConnection,
        _ id: ConnectionID,
        _ first: PoolReturn,
        keepAliveSeconds: Int? = nil
    ) -> Bool {
        var answer = first
        if case .offer = first, !yieldsConnection(isIdle: false) {
            answer = state.putBack(id, keepAliveSeconds: keepAliveSeconds, wasOffered: true, situation)
        }
        switch answer {
        case .goOn(let servesLater): if servesLater { serveLater() }
        case .rest(let end, let servesLater):
            connection.rest(until: NIODeadline(end))
            if servesLater { serveLater() }
        case .close, .offer:
            connection.close()
            return false
        }
        return true
    }

    /// The idle connection is about to be closed.
    func removeIdle(_ id: ConnectionID) { state.removeIdle(id) }

    /// The configuration no longer uses the pool: connections are closed once their current requests are over.
    func retire() {
        state.retire()
        closeIdle()
    }

    func closeIdle() {
        while let id = state.nextToClose() {
            connection(id)?.close()
            sharedConnection(id)?.close()
        }
    }

    // MARK: Private connections

    /// The private connection's request is over.
    ///
    /// - Returns: Whether the connection stays open for the next one.
    fileprivate func keepPrivate(_ connection: HTTP1UpstreamConnection, _ id: ConnectionID, keepAliveSeconds: Int?)
        -> Bool
    {
        settle(connection, id, state.keepPrivate(id, keepAliveSeconds: keepAliveSeconds, situation))
    }

    /// The client of the private connection sends another request.
    fileprivate func takePrivate(_ id: ConnectionID) { state.takePrivate(id) }

    // MARK: Requests

    /// Opens a connection. If the limit is reached, waits until one is free.
    ///
    /// - Parameters:
    ///   - name: The client. Clients that wait take turns, and none gets more than its share.
    ///   - isFresh: The request has lost its connection, so it needs a new one.
    ///   - owner: Gets a new connection that no other client connection uses.
    ///   - done: May be called before this returns.
    /// - Returns: The ticket of a request that has to wait, for ``leave(_:)``.
    func connect(
        client name: String?,
        isFresh: Bool,
        for owner: PrivateConnection? = nil,
        _ done: @escaping Done
    ) -> WaiterTicket? {
        let isPrivate = owner != nil
        let client = client(name)
        if isFresh, !isPrivate, let id = state.takeUrgentStream(for: client, at: now), let shared = sharedConnection(id)
        {
            done(.success(shared.makeStream(for: client)))
            return nil
        }
        let request = ConnectionRequest(self, of: client, for: owner, done)
        run(state.connect(client: name, isUrgent: isFresh, isPrivate: isPrivate, situation), for: request)
        return request.ticket
    }

    /// The request stops waiting. No effect if it no longer waits.
    func leave(_ ticket: WaiterTicket) {
        guard takeWaiting(ticket) != nil else { return }
        run(state.leave(ticket, situation))
    }

    fileprivate func timedOut(_ ticket: WaiterTicket) { run(state.timedOut(ticket)) }

    private func takeWaiting(_ ticket: WaiterTicket) -> ConnectionRequest? {
        let request = waiting.removeValue(forKey: ticket)
        request?.stopWaiting()
        return request
    }

    private func wait(_ ticket: WaiterTicket, _ request: ConnectionRequest?) {
        waiting[ticket] = request
        request?.wait(ticket, until: clock.now + TimeAmount(connectTimeout))
    }

    private func refuse(_ request: ConnectionRequest?, _ reason: PoolRefusal) {
        request?.finish(.failure(reason.problem(target.origin, connectTimeout: connectTimeout)))
    }

    // MARK: Steps

    /// Carries out one step after the other. Requests that are served in between may call this pool.
    ///
    /// - Parameter newcomer: The new request, if the first step is about one.
    private func run(_ first: PoolStep, for newcomer: ConnectionRequest? = nil) {
        var step = first
        while step != .nothing { step = perform(step, newcomer) }
        assert(waiting.count == state.waiterCount, "The pool and its state disagree about how many requests wait.")
    }

    /// - Returns: The next step.
    private func perform(_ step: PoolStep, _ newcomer: ConnectionRequest?) -> PoolStep {
        switch step {
        case .nothing: return .nothing
        case .askForPlace: return state.placeAnswered(isGranted: budget.take(for: joinBudget()), situation)
        case .askForOwnPlace:
            let isGranted = handle.map(budget.yieldConnectionToItself) ?? false
            return state.ownPlaceAnswered(isGranted: isGranted, situation)
        case .withdrawRequest:
            return state.requestWithdrawn(inTime: handle.map(budget.withdraw) ?? true, situation)
        case .offerIdle: return state.offerAnswered(isTaken: yieldsConnection(isIdle: true), situation)
        case .look(let id): return state.looked(isUsable: look(at: id), at: id, situation)
        case .giveBackPlace: if let handle { budget.giveBack(by: handle) }
        case .leaveBudget: if let handle = handle.take() { budget.leave(handle) }
        case .serveLater: serveLater()
        case .spareLater(let pause): spareLater(pause)
        case .close(let id): close(id)
        case .lease(let id, let ticket): lease(id, to: takeWaiting(ticket))
        case .dial(let id, let ticket): dial(id, for: ticket.map(takeWaiting) ?? newcomer)
        case .wait(let ticket): wait(ticket, newcomer)
        case .displace(let displaced, let ticket):
            wait(ticket, newcomer)
            refuse(takeWaiting(displaced), .displaced)
        case .refuse(let ticket, let reason): refuse(takeWaiting(ticket), reason)
        case .fail(let ticket): takeWaiting(ticket)?.finish(.failure(lastFailure ?? HTTP1UpstreamConnection.lost))
        case .refuseNewcomer(let reason): refuse(newcomer, reason)
        }
        return state.next(situation)
    }

    private func close(_ id: ConnectionID) {
        connection(id)?.abandon(isCut: false)
        sharedConnection(id)?.close()
    }

    /// Closes the connection if it has ended or bytes without a request have arrived.
    ///
    /// - Returns: Whether it can be used.
    private func look(at id: ConnectionID) -> Bool {
        // An HTTP/2 connection always reads, so its end is known. One that is not usable need not be closed here: an idle one is closed as
        // soon as it is retired, so it is never looked at.
        guard let connection = connection(id) else { return sharedConnection(id)?.isOpen ?? false }
        guard connection.isOpen, !connection.hasInput else {
            connection.abandon(isCut: false)
            return false
        }
        return true
    }

    private func lease(_ id: ConnectionID, to request: ConnectionRequest?) {
        guard let request else { return }
        if let connection = connection(id) {
            request.finish(.success(connection))
        } else if let shared = sharedConnection(id) {
            request.finish(.success(shared.makeStream(for: request.client)))
        }
    }

    private func serveLater() {
        loop.assumeIsolated().execute { [self] in run(state.serve(situation)) }
    }

    private func spareLater(_ pause: Duration) {
        loop.assumeIsolated().scheduleTask(in: TimeAmount(pause)) { [self] in run(state.spareTimePassed(situation)) }
    }

    // MARK: Connections

    private func dial(_ id: ConnectionID, for request: ConnectionRequest?) {
        dialer.dial(for: self) { [self] result in
            switch result {
            case .success(.connection(let connection)): dialled(connection, id, for: request)
            case .success(.negotiation(let negotiation)): dialled(negotiation, id, for: request)
            case .failure(let problem):
                lastFailure = problem
                connectionEnded(id)
                request?.finish(.failure(problem))
            }
        }
    }

    private func keep(_ connection: HTTP1UpstreamConnection, _ id: ConnectionID) {
        while connections.count <= id.index { connections.append(nil) }
        connections[id.index] = connection
    }

    private func keep(_ connection: HTTP2UpstreamConnection, _ id: ConnectionID) {
        while sharedConnections.count <= id.index { sharedConnections.append(nil) }
        sharedConnections[id.index] = connection
    }

    private var jitter: UInt64 {
        var random = SystemRandomNumberGenerator()
        return random.next()
    }

    private func dialled(_ negotiation: UpstreamNegotiation, _ id: ConnectionID, for request: ConnectionRequest?) {
        let isOpen = negotiation.begin(as: id) { [self] result in negotiated(result, id, for: request) }
        guard !isOpen else { return }
        lastFailure = HTTP1UpstreamConnection.lost
        connectionEnded(id)
        request?.finish(.failure(HTTP1UpstreamConnection.lost))
    }

    private func negotiated(
        _ result: Result<UpstreamNegotiation.Outcome, GatewayProblem>,
        _ id: ConnectionID,
        for request: ConnectionRequest?
    ) {
        switch result {
        case .failure(let problem):
            // `connectionEnded` follows.
            lastFailure = problem
            request?.finish(.failure(problem))
        case .success(.http1(let connection)):
            keep(connection, id)
            let step = state.openedAlone(id, jitter: jitter, situation)
            request?.finish(.success(connection))
            run(step)
        case .success(.http2(let connection)):
            keep(connection, id)
            let step = state.openedShared(id, streamLimit: connection.streamLimit, jitter: jitter, situation)
            if let request { request.finish(.success(connection.makeStream(for: request.client))) }
            run(step)
        }
    }

    private func dialled(_ connection: HTTP1UpstreamConnection, _ id: ConnectionID, for request: ConnectionRequest?) {
        if connection.begin(as: id, of: request?.owner) {
            keep(connection, id)
        } else {
            connectionEnded(id)
        }
        connection.whenReady(target: target) { [self] result in
            if case .success = result { state.opened(id, jitter: jitter, at: now) }
            request?.finish(result)
        }
    }

    /// The connection is closed, or could not be opened. Its place is free.
    func connectionEnded(_ id: ConnectionID) {
        if connection(id)?.id == id { connections[id.index] = nil }
        if sharedConnection(id)?.id == id { sharedConnections[id.index] = nil }
        run(state.ended(id, situation))
    }

    // MARK: Streams

    /// A stream's request is over.
    func streamEnded(_ connection: HTTP2UpstreamConnection, of client: PoolClient) {
        settle(connection, connection.id, state.streamEnded(connection.id, of: client, situation))
    }

    func streamLimitChanged(_ id: ConnectionID, to limit: Int) {
        run(state.streamLimitChanged(id, to: limit, situation))
    }

    /// A new HTTP/2 connection has received the upstream's settings.
    func learned(takesWebSocket: Bool) { lacksWebSocket = !takesWebSocket }

    /// The upstream's certificate is trusted, but its key is not among the pinned ones.
    func showedWrongKey(_ seen: CertificatePin) { dialer.showedWrongKey(seen) }

    /// The upstream accepts no more streams on the connection.
    func retire(_ connection: HTTP2UpstreamConnection) {
        if state.retireConnection(connection.id) { connection.close() }
    }

    // MARK: Budget

    private func joinBudget() -> ConnectionBudget.PoolHandle {
        if let handle { return handle }
        let new = ConnectionBudget.PoolHandle(self, on: loop)
        budget.join(new)
        handle = new
        return new
    }

    private func yieldsConnection(isIdle: Bool) -> Bool {
        guard let handle else { return false }
        return budget.yieldConnection(by: handle, isIdle: isIdle)
    }

    /// The pool gets the place that it waited for.
    func placeGranted() { run(state.placeGranted(situation)) }

    /// A pool of another event loop waits for a place.
    func othersBeganToWait() { run(state.othersBeganToWait(situation)) }
}

/// A connection of either version of HTTP that may rest until the next request.
private protocol PooledConnection {
    func rest(until end: NIODeadline)
    func close()
}

extension HTTP1UpstreamConnection: PooledConnection {}
extension HTTP2UpstreamConnection: PooledConnection {
    fileprivate func close() { close(.noError) }
}

/// A request that needs a connection and has not found one.
private final class ConnectionRequest: DeadlineKeeper {
    private let pool: UpstreamPool
    private let timer: DeadlineTimer
    private let done: UpstreamPool.Done
    /// The client that the connection or stream counts for.
    let client: PoolClient
    /// The owner, if the connection is to be a private one.
    let owner: PrivateConnection?
    /// Set while the request waits for its turn.
    private(set) var ticket: WaiterTicket?

    init(
        _ pool: UpstreamPool,
        of client: PoolClient,
        for owner: PrivateConnection?,
        _ done: @escaping UpstreamPool.Done
    ) {
        self.pool = pool
        self.client = client
        self.owner = owner
        self.done = done
        timer = DeadlineTimer(queue: pool.deadlines)
    }

    func wait(_ ticket: WaiterTicket, until deadline: NIODeadline) {
        self.ticket = ticket
        timer.set(deadline, for: self)
    }

    func stopWaiting() {
        ticket = nil
        timer.cancel()
    }

    func deadlinePassed() {
        if let ticket { pool.timedOut(ticket) }
    }

    func finish(_ result: Result<any UpstreamStream, GatewayProblem>) { done(result) }
}

extension PoolRefusal {
    fileprivate func problem(_ origin: Origin, connectTimeout: Duration) -> GatewayProblem {
        let detail =
            switch self {
            case .full: "\(origin) has as many connections and waiting requests as limits allows."
            case .displaced:
                "\(origin) has as many connections and waiting requests as limits allows, and other clients wait, too."
            case .timedOut: "No connection to \(origin) became free within \(ConfigUnits.text(connectTimeout))."
            }
        return GatewayProblem(kind, detail, retryAfter: .seconds(1))
    }
}

/// The upstream connection of one client connection, for routes with `connection_auth: true`.
///
/// NTLM and Negotiate authenticate a connection, and the upstream would mistake another client on it for the one that has
/// authenticated. Therefore it is opened for one client connection and one client's name, and is not returned to the pool between
/// requests. It is closed with the client connection, after a reload and when the gateway drains. It counts as a connection of the
/// pool.
final class PrivateConnection {
    private let pool: UpstreamPool
    private let client: String?
    /// The connection while it carries no request.
    private var idle: HTTP1UpstreamConnection?
    private var isClosed = false

    /// - Parameter client: The name of the client that sends the requests.
    init(to pool: UpstreamPool, for client: String?) {
        self.pool = pool
        self.client = client
    }

    /// Whether requests of this client to this pool use it.
    func serves(_ pool: UpstreamPool, _ client: String?) -> Bool { self.pool === pool && self.client == client }

    /// Whether the connection is just being read. This is so if the client had pipelined the request.
    var isBusyReading: Bool { idle?.mayBeEnding ?? false }

    /// The connection, if there is one and it has not ended.
    func takeIdle() -> HTTP1UpstreamConnection? {
        guard let connection = idle.take(), connection.isOpen else { return nil }
        if let id = connection.id { pool.takePrivate(id) }
        guard connection.hasInput else { return connection }
        connection.abandon(isCut: false)
        return nil
    }

    /// The connection's request is over, and it can carry another one.
    func putBack(_ connection: HTTP1UpstreamConnection, _ id: ConnectionID, keepAliveSeconds: Int?) {
        guard !isClosed, idle == nil else { return connection.close() }
        if pool.keepPrivate(connection, id, keepAliveSeconds: keepAliveSeconds) { idle = connection }
    }

    func connectionEnded(_ connection: HTTP1UpstreamConnection) {
        if idle === connection { idle = nil }
    }

    func closeIdle() { idle.take()?.closeIdle() }

    /// The client connection no longer uses it. A request in progress is the last one.
    func close() {
        isClosed = true
        closeIdle()
    }
}
