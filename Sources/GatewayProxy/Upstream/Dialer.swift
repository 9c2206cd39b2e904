import GatewayHTTP
import Logging
import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS

/// Opens the connections of one pool.
final class Dialer {
    enum Dialled {
        case connection(HTTP1UpstreamConnection)
        /// It is not known yet what the connection speaks.
        case negotiation(UpstreamNegotiation)
    }

    private let target: UpstreamTarget
    private let loop: any EventLoop
    private let resolver: UpstreamResolver
    /// Where no route leads to the target; with the address that was dialled last.
    private(set) var server: TunnelDestination?
    private let limits: Limits
    private let descriptors: DescriptorShares
    private weak var worker: Worker?
    private let timeouts: Timeouts
    private let clock: LoopClock
    private let buffers: SpareBuffers
    private let logger: Logger
    private let connectVia: String
    /// Logged once, not for every connection.
    private var wrongKey: CertificatePin?

    /// - Parameter server: The target, where no route leads to it.
    init(target: UpstreamTarget, server: TunnelDestination? = nil, worker: Worker, shared: ProxyShared) {
        self.target = target
        self.server = server
        loop = worker.loop
        resolver = UpstreamResolver(loop: worker.loop)
        limits = shared.limits
        descriptors = shared.descriptors
        self.worker = worker
        timeouts = shared.timeouts
        clock = worker.clock
        buffers = worker.buffers
        logger = shared.logger
        connectVia = shared.connectVia()
    }

    /// Resolved asynchronously, happy eyeballs (RFC 8305), bounded by `connect_timeout`.
    ///
    /// - Parameter done: Gets a connection whose TLS handshake may be under way. May be called before this returns.
    func dial(for pool: UpstreamPool, _ done: @escaping (Result<Dialled, GatewayProblem>) -> Void) {
        if let parent = target.parent {
            if let problem = worker?.problem(with: parent, to: server) { return done(.failure(problem)) }
            server?.dialled = TunnelDestination.Dialled.byProxy
            return dial(resolver, for: pool, done)
        }
        guard let server else { return dial(resolver, for: pool, done) }
        self.server?.dialled = nil
        UnroutedResolver.make(for: server, on: loop).assumeIsolated()
            .whenComplete { [self] result in
                switch result {
                case .success(let resolver): dial(resolver, for: pool, done)
                case .failure(let error): done(.failure(UnroutedResolver.problem(error, target.origin)))
                }
            }
    }

    private func dial(
        _ resolver: any Resolver & Sendable,
        for pool: UpstreamPool,
        _ done: @escaping (Result<Dialled, GatewayProblem>) -> Void
    ) {
        let place = target.parent?.plan.origin ?? target.origin
        OutgoingConnection.open(
            place.lookupName,
            place.port,
            by: resolver,
            within: timeouts.connect,
            on: loop,
            prepare: { [self] in try prepare($0, for: pool) }
        ) { [self] result in
            switch result {
            case .success(let channel):
                // Where a route leads, the cast would fail, and the runtime remembers no cast that fails.
                if server != nil, target.parent == nil, let resolver = resolver as? UnroutedResolver {
                    server?.dialled = resolver.dialled(on: channel)
                }
                done(connection(on: channel))
            case .failure(let failure):
                self.resolver.forget()
                done(.failure(problem(failure.cause, isUnresolved: failure.isUnresolved)))
            }
        }
    }

    private func prepare(_ channel: any Channel, for pool: UpstreamPool) throws {
        try channel.syncOptions?.setOption(.maxMessagesPerRead, value: UInt(target.hasDirectSocket ? 1 : 4))
        try descriptors.requireRoom(for: channel) { [worker] in worker?.freeIdle() }
        try timeouts.keepAlive.set(on: channel)
        if let parent = target.parent {
            try parent.begin(channel, to: target.tunnelEnd, via: connectVia)
            try worker?.register(channel, through: parent)
        }
        let pipeline = channel.pipeline.syncOperations
        if let context = target.tlsContext {
            try pipeline.addHandler(target.tlsHandler(context), name: UpstreamTarget.tlsName)
        }
        guard target.version == .http1 else { return try pipeline.addHandler(makeNegotiation(for: pool)) }
        let connection = makeConnection(of: pool)
        try channel.syncOptions?.setOption(.recvAllocator, value: receiveAllocator(for: connection))
        try pipeline.addHandler(connection)
    }

    private func problem(_ error: any Error, isUnresolved: Bool) -> GatewayProblem {
        if let parent = target.parent { return parent.unreachable(error, isUnresolved: isUnresolved) }
        return server == nil
            ? UpstreamFailure.problem(error, target.origin, isUnresolved: isUnresolved)
            : UnroutedResolver.problem(error, target.origin, isUnresolved: isUnresolved)
    }

    fileprivate func receiveAllocator(for connection: HTTP1UpstreamConnection) -> any RecvByteBufferAllocator {
        // The TLS handler keeps what it reads until a record is whole.
        connection.encryptedReadWasFilled.map { WatchedReadAllocator($0) } ?? SharedReadAllocator(buffers, of: loop)
    }

    /// For a connection that keeps nothing that it has read; nil with TLS, whose handler does.
    fileprivate var sharedAllocator: SharedReadAllocator? {
        target.hasDirectSocket ? SharedReadAllocator(buffers, of: loop) : nil
    }

    fileprivate func makeConnection(of pool: UpstreamPool) -> HTTP1UpstreamConnection {
        HTTP1UpstreamConnection(
            pool: pool,
            hasDirectSocket: target.hasDirectSocket,
            loop: loop,
            clock: clock,
            limits: limits,
            timeouts: timeouts,
            buffers: buffers
        )
    }

    private func makeNegotiation(for pool: UpstreamPool) -> UpstreamNegotiation {
        UpstreamNegotiation(self, pool: pool, target: target, clock: clock, timeouts: timeouts)
    }

    /// - Parameter ready: Called once, when requests can be sent or never can be.
    fileprivate func makeHTTP2Connection(
        of pool: UpstreamPool,
        _ id: ConnectionID,
        _ ready: @escaping HTTP2UpstreamConnection.Ready
    ) -> HTTP2UpstreamConnection {
        HTTP2UpstreamConnection(
            pool: pool,
            id: id,
            origin: target.origin,
            isEncrypted: !target.hasDirectSocket,
            limits: limits,
            worker: (clock, buffers),
            timeouts: timeouts,
            ready
        )
    }

    private func connection(on channel: any Channel) -> Result<Dialled, GatewayProblem> {
        let pipeline = channel.pipeline.syncOperations
        do {
            return target.version == .http1
                ? .success(.connection(try pipeline.handler(type: HTTP1UpstreamConnection.self)))
                : .success(.negotiation(try pipeline.handler(type: UpstreamNegotiation.self)))
        } catch {
            channel.close(promise: nil)
            return .failure(target.problem(error))
        }
    }

    /// The upstream is trusted and shows a key that is not among the pinned ones.
    func showedWrongKey(_ seen: CertificatePin) {
        guard seen != wrongKey else { return }
        wrongKey = seen
        logger.warning(
            "Upstream shows a key that tls.pin does not name",
            metadata: ["gateway.upstream": "\(target.origin)", "gateway.pin": "\(seen)"]
        )
    }
}

/// Waits until the protocol of a new connection is known, and puts the handlers of that protocol in its own place.
final class UpstreamNegotiation: ChannelInboundHandler, RemovableChannelHandler, DeadlineKeeper {
    typealias InboundIn = ByteBuffer

    /// What the connection has become, once requests can be sent.
    enum Outcome {
        case http1(HTTP1UpstreamConnection)
        case http2(HTTP2UpstreamConnection)
    }

    typealias Done = (Result<Outcome, GatewayProblem>) -> Void

    private let dialer: Dialer
    private let pool: UpstreamPool
    private let target: UpstreamTarget
    private let timer: DeadlineTimer
    private let clock: LoopClock
    private let timeouts: Timeouts
    private var context: ChannelHandlerContext?
    private var id: ConnectionID?
    private var done: Done?
    /// The connection is open, and TLS is in force where it has to be.
    private var isReady = false
    private var chosen: String?

    fileprivate init(_ dialer: Dialer, pool: UpstreamPool, target: UpstreamTarget, clock: LoopClock, timeouts: Timeouts)
    {
        self.dialer = dialer
        self.pool = pool
        self.target = target
        self.clock = clock
        self.timeouts = timeouts
        timer = DeadlineTimer(queue: pool.deadlines)
    }

    private var isEncrypted: Bool { target.tlsContext != nil }

    /// The connection is the one that the pool has dialled.
    ///
    /// - Parameter done: Called once.
    /// - Returns: Whether the pool is told when the connection ends; false when it has ended already. `done` is not called then.
    func begin(as id: ConnectionID, _ done: @escaping Done) -> Bool {
        guard context?.channel.isActive ?? false else { return false }
        self.id = id
        self.done = done
        timer.set(clock.now + timeouts.connect, for: self)
        decide()
        return true
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        timer.cancel()
    }

    func channelActive(context: ChannelHandlerContext) {
        if !isEncrypted {
            isReady = true
            decide()
        }
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let chosen)? = event as? TLSUserEvent {
            self.chosen = chosen
            isReady = true
            decide()
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer.cancel()
        settle(.failure(target.behindProxy(HTTP1UpstreamConnection.lost)))
        if let id { pool.connectionEnded(id) }
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let mismatch = error as? PinMismatch { dialer.showedWrongKey(mismatch.seen) }
        // The library says that it refuses a certificate, and not why.
        let certificate = isEncrypted ? context.pipeline.syncOperations.upstreamCertificate : nil
        let isRefused = String(describing: error).contains("NO_APPLICATION_PROTOCOL")
        let problem =
            isRefused
            ? target.behindProxy(.speaksNoHTTP2(target.origin))
            : target.problem(error, certificate: certificate)
        fail(problem)
    }

    func deadlinePassed() {
        let detail = "\(target.origin) did not finish the TLS handshake in time."
        let problem = GatewayProblem(.upstreamTimeout, detail, hopError: .handshakeTimeout)
        fail(ParentHandshake.overdue(on: context?.channel) ?? target.behindProxy(problem))
    }

    private func settle(_ result: Result<Outcome, GatewayProblem>) { done.take()?(result) }

    private func fail(_ problem: GatewayProblem) {
        settle(.failure(problem))
        guard let channel = context?.channel else { return }
        let tls = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLClientHandler.self)
        if let tls { tls.close(promise: nil) } else { channel.close(promise: nil) }
    }

    // MARK: Decision

    private func decide() {
        guard isReady, let id, let context, let done = done.take() else { return }
        guard let version = target.version.version(chosen: chosen, isEncrypted: isEncrypted) else {
            self.done = done
            return fail(target.behindProxy(.speaksNoHTTP2(target.origin)))
        }
        do {
            switch version {
            case .http1: try becomeHTTP1(context, id, done)
            case .http2: try becomeHTTP2(context, id, done)
            }
        } catch {
            self.done = done
            fail(target.problem(error))
        }
    }

    private func becomeHTTP1(_ context: ChannelHandlerContext, _ id: ConnectionID, _ done: Done) throws {
        let connection = dialer.makeConnection(of: pool)
        try context.channel.syncOptions?.setOption(.recvAllocator, value: dialer.receiveAllocator(for: connection))
        let swap = try HandlerSwap(from: context, to: [connection])
        guard connection.begin(as: id, of: nil) else { throw ChannelError.ioOnClosedChannel }
        connection.becameReady()
        swap.finish()
        done(.success(.http1(connection)))
    }

    private func becomeHTTP2(_ context: ChannelHandlerContext, _ id: ConnectionID, _ done: @escaping Done) throws {
        let connection = dialer.makeHTTP2Connection(of: pool, id) { [target] result in
            done(result.map { .http2($0) }.mapError { target.behindProxy($0) })
        }
        if let allocator = dialer.sharedAllocator {
            try context.channel.syncOptions?.setOption(.recvAllocator, value: allocator)
        }
        try HandlerSwap(from: context, to: [connection]).finish()
    }
}
