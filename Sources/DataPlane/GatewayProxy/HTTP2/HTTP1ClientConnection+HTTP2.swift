import GatewayCore
import NIOCore
import NIOHTTP2

/// The client speaks HTTP/2: by ALPN, or because it knows that the gateway does (RFC 9113 section 3).
extension HTTP1ClientConnection {
    /// The first line of what an HTTP/2 client begins with.
    private static let preface = "PRI * HTTP/2.0\r\n"

    /// Whether the client's first bytes begin HTTP/2. With TLS it has to be agreed on by ALPN.
    func beginsHTTP2() -> Bool {
        hasDirectSocket && isFirst && phase == .head && reader.bytes.readableBytesView.starts(with: Self.preface.utf8)
    }

    func becomeHTTP2() {
        guard phase == .head, let context else { return }
        releaseHead()
        let rest = reader.takeAll()
        let places = handPlaces(over: context)
        let configuration = configuration.worker.current ?? configuration
        let failures = HTTP2FailureWatch()
        let connection = HTTP2ClientConnection(
            configuration: configuration,
            listener: identity,
            listenerNumber: listenerNumber,
            isTLS: isTLS,
            places: places,
            failures: failures
        )
        let http2 = NIOHTTP2Handler(
            mode: .server,
            frameDelegate: failures,
            connectionConfiguration: HTTP2Configuration.client(configuration.limits)
        )
        let joiner = HTTP2FrameJoiner(configuration.buffers)
        guard let handOver = try? HandOver(from: context, to: [joiner, http2, connection]) else {
            return context.close(promise: nil)
        }
        if isEnding || shared.isDraining { connection.drain() }
        handOver.finish(replaying: rest)
    }

    // MARK: Handing over

    /// They count for the handler that takes the connection.
    func handOverPlaces() -> ConnectionPlaces {
        defer { places = ConnectionPlaces() }
        return places
    }

    /// Another handler takes the connection from here on.
    func hand(over context: ChannelHandlerContext) {
        var places = handPlaces(over: context)
        places.giveBack(to: shared)
    }

    /// The same, where it goes on with the places that the connection has.
    func handPlaces(over context: ChannelHandlerContext) -> ConnectionPlaces {
        configuration.unregister(self)
        phase = .closed
        clock.end()
        timer.cancel()
        return handOverPlaces()
    }
}
