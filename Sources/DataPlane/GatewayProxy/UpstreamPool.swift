import GatewayCore
import NIOCore
import NIOPosix
import NIOSSL

/// The connections of one event loop to one target. A proxied request never changes thread.
final class UpstreamPool {
    private let target: UpstreamTarget
    private let loop: any EventLoop
    private let limits: Limits
    /// The most recently used last: it is the least likely to have been closed meanwhile.
    private var idle: [UpstreamHandler] = []

    init(target: UpstreamTarget, loop: any EventLoop, limits: Limits) {
        self.target = target
        self.loop = loop
        self.limits = limits
        idle.reserveCapacity(64)
    }

    /// A connection that was open a moment ago; it may still die on first use.
    func takeIdle() -> UpstreamHandler? {
        while let candidate = idle.popLast() {
            if candidate.isOpen { return candidate }
        }
        return nil
    }

    func putBack(_ connection: UpstreamHandler) {
        idle.append(connection)
    }

    func remove(_ connection: UpstreamHandler) {
        if let index = idle.lastIndex(where: { $0 === connection }) { idle.remove(at: index) }
    }

    func closeIdle() {
        let connections = idle
        idle.removeAll()
        for connection in connections { connection.close() }
    }

    /// Opens a connection: resolved asynchronously, happy eyeballs (RFC 8305), bounded by `connect_timeout`.
    func connect(_ done: @escaping (Result<UpstreamHandler, GatewayProblem>) -> Void) {
        let target = target
        let bound = NIOLoopBound(self, eventLoop: loop)
        let limits = limits
        ClientBootstrap(group: loop)
            .connectTimeout(TimeAmount(limits.connectTimeout))
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .channelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(minimum: 4096, initial: 8192, maximum: 262_144)
            )
            .channelOption(.writeBufferWaterMark, value: .init(low: 32_768, high: 131_072))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let context = target.tlsContext {
                        try channel.pipeline.syncOperations.addHandler(target.tlsHandler(context))
                    }
                    try channel.pipeline.syncOperations.addHandler(UpstreamHandler(pool: bound.value, limits: limits))
                }
            }
            .connect(host: target.origin.host, port: target.origin.port)
            .assumeIsolated()
            .whenComplete { [self] result in
                switch result {
                case .success(let channel): opened(channel, done)
                case .failure(let error): done(.failure(UpstreamFailure.problem(error, target.origin)))
                }
            }
    }

    private func opened(_ channel: any Channel, _ done: @escaping (Result<UpstreamHandler, GatewayProblem>) -> Void) {
        guard !UpstreamTarget.isProhibited(channel.remoteAddress, for: target.origin) else {
            channel.close(promise: nil)
            let detail = "\(target.origin.host) resolves to an address that may not be dialled."
            done(.failure(GatewayProblem(.destinationProhibited, detail)))
            return
        }
        do {
            let handler = try channel.pipeline.syncOperations.handler(type: UpstreamHandler.self)
            handler.whenReady(isTLS: target.tlsContext != nil, origin: target.origin, done)
        } catch {
            channel.close(promise: nil)
            done(.failure(UpstreamFailure.problem(error, target.origin)))
        }
    }
}

/// What a failed connection is called.
enum UpstreamFailure {
    static func problem(_ error: any Error, _ origin: Origin) -> GatewayProblem {
        switch error {
        case let error as NIOConnectionError: connectionProblem(error, origin)
        case ChannelError.connectTimeout: timeout(origin)
        case let error as NIOSSLError: tlsProblem(error, origin)
        case is NIOSSLExtraError, is PeerNameMismatch:
            unreachable("The certificate of \(origin) does not name this host.", .certificateRefused)
        case is BoringSSLError: unreachable("The TLS handshake with \(origin) failed.", .handshakeFailed)
        default: unreachable("\(origin) refused the connection or reset it.", nil)
        }
    }

    private static func connectionProblem(_ error: NIOConnectionError, _ origin: Origin) -> GatewayProblem {
        guard !error.connectionErrors.isEmpty else {
            return unreachable("The name \(origin.host) cannot be resolved.", .nameNotResolved)
        }
        let timedOut = error.connectionErrors.allSatisfy {
            if case .connectTimeout? = $0.error as? ChannelError { return true }
            return false
        }
        return timedOut ? timeout(origin) : unreachable("\(origin) does not accept connections; is it running?", nil)
    }

    private static func tlsProblem(_ error: NIOSSLError, _ origin: Origin) -> GatewayProblem {
        let text = String(describing: error)
        guard text.contains("CERTIFICATE_VERIFY_FAILED") || text.contains("unableToValidateCertificate") else {
            return unreachable("The TLS handshake with \(origin) failed.", .handshakeFailed)
        }
        let advice = "If it comes from an authority of your own, name it in the route's tls.ca."
        return unreachable("The certificate of \(origin) is not trusted. \(advice)", .certificateRefused)
    }

    private static func timeout(_ origin: Origin) -> GatewayProblem {
        let detail = "\(origin) did not accept a connection in time."
        return GatewayProblem(.upstreamTimeout, detail, hopError: .connectionTimeout)
    }

    private static func unreachable(_ detail: String, _ error: GatewayProblem.HopError?) -> GatewayProblem {
        GatewayProblem(.upstreamUnreachable, detail, hopError: error)
    }
}
