import GatewayCore
import NIOCore

/// Which version of HTTP the request goes to the upstream in.
extension ExchangeDriver {
    /// HTTP/2 has no Upgrade (RFC 9113 section 8.6), but for that to a WebSocket (RFC 8441).
    func chooseProtocol() {
        let request = client.request
        // What one request has wanted must not take calls of gRPC away from the others of the route: HTTP/1.1 cannot carry them.
        goesByHTTP1 = route.state.wantsHTTP1(at: configuration.clock.now) && !isGRPC
        guard request.decoder.head.wantsUpgrade, !goesByHTTP1 else { return }
        let accept = WebSocketHandshake.accept(request.decoder.head, request.bytes.readableBytesUInt8Span)
        goesByHTTP1 = accept == nil || mayFallBack && route.pool.lacksWebSocket
    }

    private var isGRPC: Bool {
        let request = client.request
        let bytes = request.bytes
        return GRPCStatus.isCall(request.decoder.head, bytes.readableBytesUInt8Span)
    }

    private var mayFallBack: Bool { route.pool.target.version == .auto }

    /// The upstream wants HTTP/1.1 for the request (HTTP_1_1_REQUIRED), and has not looked at it.
    ///
    /// - Returns: Whether the request can be sent again so.
    func goOnInHTTP1() -> Bool {
        guard mayFallBack, rules.isHolding, !goesByHTTP1, !isGRPC else { return false }
        goesByHTTP1 = true
        route.state.wantedHTTP1(at: configuration.clock.now)
        return true
    }

    /// The upstream's HTTP/2 takes no WebSocket.
    func sendByHTTP1(not stream: any UpstreamStream) {
        stream.returnUnused()
        guard mayFallBack else {
            let detail = "It takes no WebSocket over HTTP/2 (SETTINGS_ENABLE_CONNECT_PROTOCOL, RFC 8441)."
            let advice = "Set protocol of the route to auto or http1."
            return end(with: .connectionFailed, upstreamProblem(.upgradeFailed, "\(detail) \(advice)"))
        }
        goesByHTTP1 = true
        connect(isFresh: false)
    }
}
