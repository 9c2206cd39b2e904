import GatewayCore
import Logging
import NIOCore
import NIOPosix

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
    }

    /// Resolved asynchronously, happy eyeballs (RFC 8305), bounded by `connect_timeout`.
    ///
    /// - Parameter done: Gets a connection whose TLS handshake may be under way. May be called before this returns.
    func dial(for pool: UpstreamPool, _ done: @escaping (Result<Dialled, GatewayProblem>) -> Void) {
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
        let (target, descriptors, keepAlive) = (target, descriptors, timeouts.keepAlive)
        let bound = NIOLoopBound((dialer: self, pool: pool), eventLoop: loop)
        let hasDialled = NIOLoopBoundBox(false, eventLoop: loop)
        ClientBootstrap(group: loop)
            .resolver(resolver)
            .connectTimeout(timeouts.connect)
            .channelOption(.maxMessagesPerRead, value: UInt(target.tlsContext == nil ? 1 : 4))
            .channelOption(.writeBufferWaterMark, value: .init(low: 32_768, high: 131_072))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    hasDialled.value = true
                    try descriptors.requireRoom(for: channel) { bound.value.dialer.worker?.freeIdle() }
                    try keepAlive.set(on: channel)
                    if let context = target.tlsContext {
                        try channel.pipeline.syncOperations.addHandler(target.tlsHandler(context))
                    }
                    let (dialer, pool) = bound.value
                    guard target.version == .http1 else {
                        return try channel.pipeline.syncOperations.addHandler(dialer.makeNegotiation(for: pool))
                    }
                    let connection = dialer.makeConnection(of: pool)
                    let allocator = dialer.receiveAllocator(for: connection)
                    try channel.syncOptions?.setOption(.recvAllocator, value: allocator)
                    try channel.pipeline.syncOperations.addHandler(connection)
                }
            }
            .connect(host: target.origin.lookupName, port: target.origin.port)
            .assumeIsolated()
            .whenComplete { [self] result in
                switch result {
                case .success(let channel):
                    if let resolver = resolver as? UnroutedResolver { server?.dialled = resolver.dialled(on: channel) }
                    done(connection(on: channel))
                case .failure(let error):
                    self.resolver.forget()
                    done(.failure(problem(error, isUnresolved: !hasDialled.value)))
                }
            }
    }

    private func problem(_ error: any Error, isUnresolved: Bool) -> GatewayProblem {
        server == nil
            ? UpstreamFailure.problem(error, target.origin, isUnresolved: isUnresolved)
            : UnroutedResolver.problem(error, target.origin, isUnresolved: isUnresolved)
    }

    func receiveAllocator(for connection: HTTP1UpstreamConnection) -> any RecvByteBufferAllocator {
        // The TLS handler keeps what it reads until a record is whole.
        connection.encryptedReadWasFilled.map { WatchedReadAllocator($0) } ?? SharedReadAllocator(buffers, of: loop)
    }

    func makeConnection(of pool: UpstreamPool) -> HTTP1UpstreamConnection {
        HTTP1UpstreamConnection(
            pool: pool,
            hasDirectSocket: target.tlsContext == nil,
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
    func makeHTTP2Connection(
        of pool: UpstreamPool,
        _ id: ConnectionID,
        _ ready: @escaping HTTP2UpstreamConnection.Ready
    ) -> HTTP2UpstreamConnection {
        HTTP2UpstreamConnection(
            pool: pool,
            id: id,
            origin: target.origin,
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
            return .failure(UpstreamFailure.problem(error, target.origin))
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
