import GatewayCore
import NIOCore
import NIOHTTP2
import NIOSSL
import NIOTLS

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

    init(_ dialer: Dialer, pool: UpstreamPool, target: UpstreamTarget, clock: LoopClock, timeouts: Timeouts) {
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
        settle(.failure(HTTP1UpstreamConnection.lost))
        if let id { pool.connectionEnded(id) }
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let mismatch = error as? PinMismatch { dialer.showedWrongKey(mismatch.seen) }
        // The library says that it refuses a certificate, and not why.
        let certificate = isEncrypted ? try? context.pipeline.syncOperations.nioSSL_peerCertificate() : nil
        let isRefused = String(describing: error).contains("NO_APPLICATION_PROTOCOL")
        let problem =
            isRefused
            ? GatewayProblem.speaksNoHTTP2(target.origin)
            : UpstreamFailure.problem(error, target.origin, certificate: certificate)
        fail(problem)
    }

    func deadlinePassed() {
        let detail = "\(target.origin) did not finish the TLS handshake in time."
        fail(GatewayProblem(.upstreamTimeout, detail, hopError: .handshakeTimeout))
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
            return fail(.speaksNoHTTP2(target.origin))
        }
        do {
            switch version {
            case .http1: try becomeHTTP1(context, id, done)
            case .http2: try becomeHTTP2(context, id, done)
            }
        } catch {
            self.done = done
            fail(UpstreamFailure.problem(error, target.origin))
        }
    }

    private func becomeHTTP1(_ context: ChannelHandlerContext, _ id: ConnectionID, _ done: Done) throws {
        let connection = dialer.makeConnection(of: pool)
        try context.channel.syncOptions?.setOption(.recvAllocator, value: dialer.receiveAllocator(for: connection))
        let handOver = try HandlerSwap(from: context, to: [connection])
        guard connection.begin(as: id, of: nil) else { throw ChannelError.ioOnClosedChannel }
        connection.becameReady()
        handOver.finish()
        done(.success(.http1(connection)))
    }

    private func becomeHTTP2(_ context: ChannelHandlerContext, _ id: ConnectionID, _ done: @escaping Done) throws {
        let connection = dialer.makeHTTP2Connection(of: pool, id) { done($0.map { .http2($0) }) }
        let frames = HTTP2Configuration.upstreamFrameHandler(connection.limits)
        let joiner = HTTP2FrameJoiner(connection.buffers)
        let handlers: [any ChannelHandler] = [HTTP2FrameGuard(of: connection), joiner, frames, connection]
        try HandlerSwap(from: context, to: handlers).finish()
    }
}
