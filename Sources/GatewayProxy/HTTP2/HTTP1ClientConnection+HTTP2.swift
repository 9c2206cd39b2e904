import GatewayCore
import NIOCore
import NIOHTTP2

/// The client speaks HTTP/2: by ALPN, or because it knows that the gateway does (RFC 9113 section 3).
extension HTTP1ClientConnection {
    /// The first line of what an HTTP/2 client begins with.
    private static let preface = "PRI * HTTP/2.0\r\n"

    /// Whether the client's first bytes begin HTTP/2. With TLS it has to be agreed on by ALPN, except behind a CONNECT to an `http`
    /// server: that TLS is the proxy's, and what passes inside is in clear.
    func beginsHTTP2() -> Bool {
        guard hasDirectSocket || identity.intercepted?.scheme == .http else { return false }
        return isFirst && phase == .head && reader.bytes.readableBytesView.starts(with: Self.preface.utf8)
    }

    /// The TLS handshake is over. Only now it is known in which version a client that is one too many can be told so.
    func agreed(onHTTP2: Bool) {
        guard let refusal = closing.refusal.take() else {
            if onHTTP2 { becomeHTTP2() }
            return
        }
        guard phase == .head else { return }
        if onHTTP2 { refuseHTTP2(refusal) } else { refuse(refusal) }
        setDeadline(timeouts.linger)
    }

    /// HTTP/2 has no answer to a connection, so GOAWAY says that none of its requests are looked at.
    private func refuseHTTP2(_ problem: GatewayProblem) {
        configuration.observe(problem, nil, of: request, id: configuration.nextRequestID(), from: peer, isTLS: isTLS)
        let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
        // The last stream is 0, the reason ENHANCE_YOUR_CALM.
        let goAway: [UInt8] = [0, 0, 8, 7, 0, 0, 0, 0, 0] + [0, 0, 0, 0] + [0, 0, 0, 0x0B]
        stage.append { $0.writeBytes(settings + goAway) }
        flush()
        closeAfterWrites(lingering: true)
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
        let frames = HTTP2FrameGuard(of: connection)
        let joiner = HTTP2FrameJoiner(configuration.buffers)
        guard
            let handOver = try? HandlerSwap(
                from: context,
                to: [frames, joiner, HTTP2FirstSettings(), http2, connection]
            )
        else {
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
