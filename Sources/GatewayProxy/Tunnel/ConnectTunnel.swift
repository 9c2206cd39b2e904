import GatewayEvents
import GatewayHTTP
import NIOCore
import NIOPosix

/// A connection of a client to a server that no route leads to: bytes pass as they are, without a credential.
///
///     dialling ──▶ open ── both ends have ended, or one is lost ──▶ over
///         └── no connection, or the client has left ─────────────────▲
///
///     client ◀──▶ TunnelEnd ◀──▶ ConnectTunnel ◀──▶ TunnelEnd ◀──▶ server
///
/// The ``HTTP1ClientConnection`` with the CONNECT holds it while it is dialling. When it opens, a ``TunnelEnd`` takes the place of that
/// connection; both ends and the worker hold the tunnel until it is over.
///
/// Begins with the CONNECT, and is reported when it is over. Lives on one event loop.
final class ConnectTunnel: DeadlineKeeper {
    private enum Phase {
        case dialling
        case open
        case over
    }

    private(set) var destination: TunnelDestination
    /// The client was told that its CONNECT was taken, and can be told nothing else.
    let isEstablished: Bool
    private let connection: ConnectionContext
    let listenerNumber: Int
    private let configuration: WorkerConfiguration
    private let place: RequestPlace
    /// The proxy that it goes through; nil for none.
    let parent: ParentHop?
    private var phase = Phase.dialling
    private var record: ExchangeRecord
    /// nil for a client without limits.
    private var usage: ClientUsage?
    private var places = ConnectionPlaces()
    private var client: TunnelEnd?
    private var upstream: TunnelEnd?
    private let timer: DeadlineTimer
    private var watch = TransferWatch()

    /// - Parameter usage: The client's, which has counted this request.
    init(
        to destination: TunnelDestination,
        of client: HTTP1ClientConnection,
        countedBy usage: ClientUsage?,
        isEstablished: Bool
    ) {
        self.isEstablished = isEstablished
        self.destination = destination
        self.usage = usage
        connection = client.connectionContext
        listenerNumber = client.listenerNumber
        configuration = client.configuration
        parent = configuration.shared.parent(ofUnrouted: destination.origin)
        timer = DeadlineTimer(queue: configuration.worker.deadlines)
        let bytes = client.request.bytes
        let span = bytes.readableBytesUInt8Span
        place = RequestPlace(client.request.decoder.head, span, peer: client.peer)
        record = ExchangeRecord(
            requestID: configuration.nextRequestID(),
            clientRequestID: ClientRequestID.read(from: client.request.decoder.head, span),
            worker: configuration.worker.number,
            route: configuration.shared.configuration.unroutedNumber,
            client: destination.client,
            method: client.request.decoder.head.methodName(span),
            startedAt: configuration.shared.clock.monotonic()
        )
        record.destination = destination.authority
        record.trace = configuration.beginTrace(client.request.decoder.head, span)
        record.isTLS = client.isTLS
    }

    var requestID: RequestID { record.requestID }
    private var shared: ProxyShared { configuration.shared }

    // MARK: Phases

    /// Whether the client would get this tunnel under the configuration that is in use now.
    ///
    /// - Parameter dialled: Where it leads.
    func mayOpen(to dialled: TunnelDestination.Dialled) -> Bool {
        destination.dialled = dialled
        guard let current = configuration.worker.current?.shared else { return false }
        return isAdmitted(by: current)
    }

    func open(between client: TunnelEnd, and upstream: TunnelEnd, places: ConnectionPlaces) {
        phase = .open
        self.places = places
        (self.client, self.upstream) = (client, upstream)
        record.status = 200
        record.wasSent = true
        client.join(upstream, in: self)
        upstream.join(client, in: self)
        configuration.worker.register(self)
        setDeadline()
    }

    /// There is no tunnel after all.
    ///
    /// - Parameter problem: nil where the client has left.
    func fail(with problem: GatewayProblem?) {
        guard phase == .dialling else { return }
        if let problem {
            note(problem, isCut: false)
            record.status = problem.kind.status
        }
        end()
    }

    /// A reload has come.
    func followReload(to shared: ProxyShared) {
        guard !isAdmitted(by: shared) else { return }
        let reason = ExchangeProblem.excluded
        cut(
            because: reason.problem(
                upstream: destination.authority,
                credential: nil,
                timeouts: RoutePlan.Timeouts(),
                limits: configuration.limits
            )
        )
    }

    private func isAdmitted(by shared: ProxyShared) -> Bool {
        shared.authorizer.stillAdmits(destination, on: connection)
            && shared.stillReaches(destination.origin, through: parent)
    }

    /// - Parameter problem: nil for what belongs to tunnels: an end is lost, or nothing has passed for long.
    func cut(because problem: GatewayProblem? = nil) {
        guard phase == .open else { return }
        if let problem { note(problem, isCut: true) }
        let ends = [client.take(), upstream.take()]
        end()
        for end in ends { end?.cut() }
    }

    private func note(_ problem: GatewayProblem, isCut: Bool) {
        record.problem = problem.kind
        record.failure = RequestFailure(problem, isCut: isCut, place: place)
    }

    private func end() {
        phase = .over
        timer.cancel()
        configuration.worker.unregister(self)
        places.giveBack(to: shared)
        usage.take()?.end()
        record.finishedAt = shared.clock.monotonic()
        shared.observer.finished(record)
    }

    // MARK: Ends

    func passed(_ count: Int, from end: TunnelEnd) {
        if end === client { record.bytesReceived += count } else { record.bytesSent += count }
        setDeadline()
    }

    /// - Parameter isCut: Whether the other end must see that it is no normal end.
    func lost(_ end: TunnelEnd, isCut: Bool) {
        guard phase == .open else { return }
        if isCut { return cut() }
        if end === client { client = nil } else { upstream = nil }
        if client == nil, upstream == nil { self.end() }
    }

    // MARK: Deadline

    private func setDeadline() {
        watch.reset()
        timer.set(configuration.clock.now + configuration.timeouts.response, for: self)
    }

    func deadlinePassed() {
        let progress = TransferProgress(
            untakenByClient: client?.writer.untakenBytes() ?? 0,
            untakenByUpstream: upstream?.writer.untakenBytes() ?? 0,
            responseSent: record.bytesSent
        )
        guard watch.hasMoved(progress, by: { last, now in now.tunnelMoves(since: last) }) else { return cut() }
        timer.set(configuration.clock.now + configuration.timeouts.response, for: self)
    }
}

/// Opens the connection of a ``ConnectTunnel``: at addresses that may be dialled, which are those that the name has now.
struct TunnelDialer: Sendable {
    struct Connection {
        let end: TunnelEnd
        let channel: any Channel
        let dialled: TunnelDestination.Dialled
        /// What has come from the server already.
        var first: ByteBuffer?
    }

    private let destination: TunnelDestination
    private let loop: any EventLoop
    private let shared: ProxyShared
    private let freeIdle: @Sendable () -> Void
    private let parent: ParentHop?
    private let worker: NIOLoopBound<Worker>

    /// - Parameter parent: The proxy that the tunnel goes through; nil for none.
    init(
        to destination: TunnelDestination,
        through parent: ParentHop?,
        of worker: Worker,
        under shared: ProxyShared
    ) {
        self.parent = parent
        self.worker = NIOLoopBound(worker, eventLoop: worker.loop)
        self.destination = destination
        loop = worker.loop
        freeIdle = worker.freeIdle
        self.shared = shared
    }

    /// - Parameter done: Called on the event loop, on a later turn.
    func dial(_ done: @escaping (Result<Connection, GatewayProblem>) -> Void) {
        if let parent { return dial(through: parent, done) }
        UnroutedResolver.make(for: destination, on: loop).assumeIsolated()
            .whenComplete { result in
                switch result {
                case .success(let resolver): dial(resolver, done)
                case .failure(let error): done(.failure(UnroutedResolver.problem(error, destination.origin)))
                }
            }
    }

    private func dial(
        _ resolver: UnroutedResolver,
        _ done: @escaping (Result<Connection, GatewayProblem>) -> Void
    ) {
        let origin = destination.origin
        open(destination.lookupName, destination.port, by: resolver, through: nil) { result in
            switch result {
            case .success(let channel): done(connection(channel, resolver))
            case .failure(let failure):
                done(.failure(UnroutedResolver.problem(failure.cause, origin, isUnresolved: failure.isUnresolved)))
            }
        }
    }

    private func open(
        _ host: String,
        _ port: Int,
        by resolver: any Resolver & Sendable,
        through parent: ParentHop?,
        _ done: @escaping (Result<any Channel, OutgoingConnection.Failure>) -> Void
    ) {
        OutgoingConnection.open(
            host,
            port,
            by: resolver,
            within: shared.timeouts.connect,
            on: loop,
            prepare: { try prepare($0, through: parent) },
            done
        )
    }

    private func prepare(_ channel: any Channel, through parent: ParentHop?) throws {
        try channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
        try shared.descriptors.requireRoom(for: channel, freeIdle: freeIdle)
        try shared.timeouts.keepAlive.set(on: channel)
        if let parent {
            try parent.begin(channel, to: destination.origin, via: shared.connectVia(after: destination.via))
            try worker.value.register(channel, through: parent)
        }
        let end = TunnelEnd(hasDirectSocket: parent.map { !$0.isEncrypted } ?? true)
        try channel.pipeline.syncOperations.addHandler(end)
    }

    private func dial(
        through parent: ParentHop,
        _ done: @escaping (Result<Connection, GatewayProblem>) -> Void
    ) {
        if let problem = worker.value.problem(with: parent, to: destination) {
            // On a later turn, as all other answers.
            return loop.assumeIsolated().execute { done(.failure(problem)) }
        }
        let place = parent.plan.origin
        open(place.lookupName, place.port, by: UpstreamResolver(loop: loop), through: parent) { result in
            switch result {
            case .failure(let failure):
                done(.failure(parent.unreachable(failure.cause, isUnresolved: failure.isUnresolved)))
            case .success(let channel): connect(channel, through: parent, done)
            }
        }
    }

    private func connect(
        _ channel: any Channel,
        through parent: ParentHop,
        _ done: @escaping (Result<Connection, GatewayProblem>) -> Void
    ) {
        let pipeline = channel.pipeline.syncOperations
        guard let handshake = try? pipeline.handler(type: ParentHandshake.self),
            let end = try? pipeline.handler(type: TunnelEnd.self)
        else {
            channel.close(promise: nil)
            return done(.failure(parent.unreachable(ChannelError.ioOnClosedChannel)))
        }
        let origin = destination.origin
        var waiting: ((Result<Connection, GatewayProblem>) -> Void)? = done
        let overdue = loop.assumeIsolated()
            .scheduleTask(in: shared.timeouts.connect) {
                waiting.take()?(.failure(parent.overdue(origin)))
                end.cut()
            }
        handshake.whenOpen { result in
            overdue.cancel()
            waiting.take()?(
                result.map { Connection(end: end, channel: channel, dialled: .byProxy, first: $0) }
            )
        }
    }

    private func connection(_ channel: any Channel, _ resolver: UnroutedResolver) -> Result<Connection, GatewayProblem>
    {
        guard let dialled = resolver.dialled(on: channel),
            let end = try? channel.pipeline.syncOperations.handler(type: TunnelEnd.self)
        else {
            channel.close(promise: nil)
            let origin = destination.origin
            return .failure(UpstreamFailure.problem(ChannelError.ioOnClosedChannel, origin))
        }
        return .success(Connection(end: end, channel: channel, dialled: dialled))
    }
}
