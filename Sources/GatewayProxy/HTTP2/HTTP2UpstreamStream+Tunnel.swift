import GatewayCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// A WebSocket on a stream (RFC 8441). END_STREAM ends one direction; a reset cuts both.
extension HTTP2UpstreamStream {
    // MARK: Request

    func beginWebSocket(
        _ fields: HPACKHeaders,
        _ head: borrowing RequestHead,
        _ bytes: ByteBuffer
    ) throws(HeadFault) {
        guard let accept = WebSocketHandshake.accept(head, bytes.readableBytesUInt8Span) else { throw .unwritable }
        webSocketAccept = accept
        outgoing.beginTunnel(HTTP2RequestFields.webSocket(fields))
    }

    // MARK: From the upstream

    func beginTunnel(_ exchange: ExchangeDriver) {
        phase = .tunnel
        order.beginTunnel()
        connection.flushLater(self)
        exchange.tunnelBegan()
        if hasArrived, arrivals.isEmpty { inputEnded() }
    }

    func receive(tunnelled bytes: ByteBuffer, size: Int, isLast: Bool) {
        // The client has left: the upstream is told so, as a closed socket would tell it.
        guard let exchange else { return connection.end(self, isLast && outgoing.isEnded ? nil : .cancel) }
        pass(bytes, size: size, to: exchange)
        if isLast { inputEnded() }
    }

    private func inputEnded() {
        guard phase == .tunnel else { return }
        exchange?.upstreamClosedOutput()
        endTunnelIfOver()
    }

    /// Both directions have ended.
    func endTunnelIfOver() {
        guard phase == .tunnel, hasArrived, arrivals.isEmpty, outgoing.isEnded || wantsNoMore else { return }
        let exchange = exchange.take()
        connection.end(self, nil)
        exchange?.responseEndedWithConnection()
    }

    /// The upstream has ended its direction and says that it does not need the rest of the other one (RFC 9113 section 8.1).
    func endsWithoutRest() -> Bool {
        guard phase == .tunnel, hasArrived else { return false }
        wantsNoMore = true
        endTunnelIfOver()
        return true
    }

    /// The upstream has reset the stream, or the connection is lost.
    func loseTunnel() {
        // What came before it is passed on first.
        guard arrivals.isEmpty || !hasArrived else { return isLost = true }
        let exchange = exchange.take()
        connection.end(self, nil)
        exchange?.upstreamLost(hasAnswered: true)
    }

    // MARK: From the client

    var inputHasEnded: Bool { hasArrived }

    func closeOutput() {
        guard phase == .tunnel, !outgoing.isComplete else { return }
        outgoing.end(nil)
        flush()
    }

    /// Ends the client's direction, where all of it has left. The upstream then has time to end its own.
    ///
    /// - Returns: false where the tunnel has to be cut.
    func leavesTunnelInOrder() -> Bool {
        guard phase == .tunnel, outgoing.count == 0, !isClosed, connection.phase == .open else { return false }
        tunnelEnd = HTTP2TunnelEnd(of: self, within: connection.timeouts.linger)
        closeOutput()
        endTunnelIfOver()
        return true
    }

    func finishTunnel(_ whenEnded: @escaping () -> Void) {
        exchange = nil
        guard phase != .over, !isClosed, connection.phase == .open else {
            connection.end(self, nil)
            return whenEnded()
        }
        tunnelEnd = HTTP2TunnelEnd(of: self, within: connection.timeouts.response, whenEnded)
        closeOutput()
        endTunnelIfOver()
    }
}

/// Waits for the end of a tunnel whose client has left.
final class HTTP2TunnelEnd: DeadlineKeeper {
    private let stream: HTTP2UpstreamStream
    private let timer: DeadlineTimer
    private let whenCame: () -> Void

    /// - Parameter whenCame: Called once.
    init(of stream: HTTP2UpstreamStream, within amount: TimeAmount, _ whenCame: @escaping () -> Void = {}) {
        self.stream = stream
        self.whenCame = whenCame
        timer = DeadlineTimer(queue: stream.connection.pool.deadlines)
        timer.set(stream.connection.clock.now + amount, for: self)
    }

    func deadlinePassed() { stream.connection.end(stream, .cancel) }

    /// The stream is over.
    func came() {
        timer.cancel()
        whenCame()
    }
}

extension HTTP2RequestFields {
    /// - Parameter fields: Of an upgrade to a WebSocket; the key stays behind, because HTTP/2 has none (RFC 8441 section 5).
    static func webSocket(_ fields: HPACKHeaders) -> HPACKHeaders {
        var connect = HPACKHeaders()
        connect.reserveCapacity(fields.count + 1)
        connect.add(name: ":method", value: "CONNECT")
        connect.add(name: ":protocol", value: "websocket")
        for (name, value, indexing) in fields where name != ":method" && name != "sec-websocket-key" {
            connect.add(name: name, value: value, indexing: indexing)
        }
        return connect
    }
}
