import GatewayCore
import NIOCore
import NIOHTTP2
import NIOSSL

/// How a connection rests, is asked whether it lives, and ends.
extension HTTP2UpstreamConnection {
    // MARK: Rest

    /// The connection has no streams, and is closed at `end`.
    func rest(until end: NIODeadline) {
        restsUntil = end
        if !isProbing { timer.set(end, for: self) }
    }

    /// Sends PING, because the upstream was silent for long. Without an answer, the connection is closed.
    func probe() {
        guard phase == .open, !isProbing else { return }
        isProbing = true
        write(.rootStream, .ping(HTTP2PingData(withInteger: 0), ack: false))
        flush()
        setDeadline(timeouts.connect)
    }

    func setDeadline(_ amount: TimeAmount) { timer.set(clock.now + amount, for: self) }

    func upstreamLives() {
        isProbing = false
        if let restsUntil { timer.set(restsUntil, for: self) } else { timer.clear() }
    }

    func deadlinePassed() {
        switch phase {
        case .opening:
            let detail = "\(origin) did not begin HTTP/2 in time."
            settle(.failure(GatewayProblem(.upstreamTimeout, detail, hopError: .connectionTimeout)))
            close()
        case .open where isProbing: close()
        case .open:
            pool.removeIdle(id)
            close()
        case .closed: break
        }
    }

    // MARK: Closing

    /// No other stream begins.
    func retire() {
        guard !isRetired else { return }
        isRetired = true
        pool.retire(self)
    }

    /// With TLS the upstream's close_notify would be waited for, in a place that others may need.
    func close() {
        guard phase != .closed else { return }
        let wasOpen = phase == .open
        // First: what is written can fail, and leads back to here.
        phase = .closed
        retire()
        if wasOpen { write(.rootStream, .goAway(lastStreamID: .rootStream, errorCode: .noError, opaqueData: nil)) }
        context?.flush()
        guard let channel = context?.channel else { return }
        let tls = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLClientHandler.self)
        if let tls { tls.close(promise: nil) } else { channel.close(promise: nil) }
    }
}

extension GatewayProblem {
    /// The route says `http2`, and the upstream does something else.
    static func speaksNoHTTP2(_ origin: Origin) -> GatewayProblem {
        let detail = "\(origin) does not speak HTTP/2. Set protocol of the route to auto or http1."
        return GatewayProblem(.upstreamUnreachable, detail, hopError: .protocolError)
    }
}
