import GatewayCore
import Logging
import NIOCore
import NIOPosix

/// Opens the connections of one pool.
final class Dialer {
    private let target: UpstreamTarget
    private let loop: any EventLoop
    private let resolver: UpstreamResolver
    private let limits: Limits
    private let timeouts: Timeouts
    private let clock: LoopClock
    private let buffers: SpareBuffers
    private let logger: Logger
    /// Logged once, not for every connection.
    private var wrongKey: CertificatePin?

    init(target: UpstreamTarget, worker: Worker, shared: ProxyShared) {
        self.target = target
        loop = worker.loop
        resolver = UpstreamResolver(loop: worker.loop)
        limits = shared.limits
        timeouts = shared.timeouts
        clock = worker.clock
        buffers = worker.buffers
        logger = shared.logger
    }

    /// Resolved asynchronously, happy eyeballs (RFC 8305), bounded by `connect_timeout`.
    ///
    /// - Parameter done: Gets a connection whose TLS handshake may be under way. May be called before this returns.
    func dial(
        for pool: UpstreamPool,
        _ done: @escaping (Result<HTTP1UpstreamConnection, GatewayProblem>) -> Void
    ) {
        let target = target
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
                    if let context = target.tlsContext {
                        try channel.pipeline.syncOperations.addHandler(target.tlsHandler(context))
                    }
                    let (dialer, pool) = bound.value
                    let connection = dialer.makeConnection(of: pool)
                    let allocator = dialer.receiveAllocator(for: connection)
                    try channel.syncOptions?.setOption(.recvAllocator, value: allocator)
                    try channel.pipeline.syncOperations.addHandler(connection)
                }
            }
            .connect(host: target.origin.host, port: target.origin.port)
            .assumeIsolated()
            .whenComplete { [self] result in
                switch result {
                case .success(let channel): done(connection(on: channel))
                case .failure(let error):
                    resolver.forget()
                    let problem = UpstreamFailure.problem(error, target.origin, isUnresolved: !hasDialled.value)
                    done(.failure(problem))
                }
            }
    }

    private func receiveAllocator(for connection: HTTP1UpstreamConnection) -> any RecvByteBufferAllocator {
        // The TLS handler keeps what it reads until a record is whole.
        connection.encryptedReadWasFilled.map { WatchedReadAllocator($0) } ?? SharedReadAllocator(buffers, of: loop)
    }

    private func makeConnection(of pool: UpstreamPool) -> HTTP1UpstreamConnection {
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

    private func connection(on channel: any Channel) -> Result<HTTP1UpstreamConnection, GatewayProblem> {
        do {
            return .success(try channel.pipeline.syncOperations.handler(type: HTTP1UpstreamConnection.self))
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
