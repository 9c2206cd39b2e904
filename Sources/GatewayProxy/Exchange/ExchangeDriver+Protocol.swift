import GatewayCore
import NIOCore

/// In which version of HTTP the request goes to the upstream, as ``UpstreamVersionRule`` decides.
extension ExchangeDriver {
    func chooseProtocol() {
        let request = client.request
        let bytes = request.bytes
        // What one request has wanted must not take calls of gRPC away from the others of the route: HTTP/1.1 cannot carry them.
        goesByHTTP1 =
            route.state.http1Demand.holds(at: shared.clock.monotonic()) && !isGRPC
            || UpstreamVersionRule.needsHTTP1(
                request.decoder.head,
                bytes.readableBytesUInt8Span,
                route.pool.target.version,
                lacksWebSocket: route.pool.lacksWebSocket
            )
    }

    private var isGRPC: Bool {
        let request = client.request
        let bytes = request.bytes
        return GRPCStatus.isCall(request.decoder.head, bytes.readableBytesUInt8Span)
    }

    private var mayFallBack: Bool { UpstreamVersionRule.mayFallBack(route.pool.target.version) }

    /// The upstream wants HTTP/1.1 for the request (HTTP_1_1_REQUIRED), and has not looked at it.
    ///
    /// - Returns: Whether the request can be sent again in that version.
    func goOnInHTTP1() -> Bool {
        guard mayFallBack, rules.isHolding, !goesByHTTP1, !isGRPC else { return false }
        goesByHTTP1 = true
        route.state.http1Demand.begin(at: shared.clock.monotonic())
        return true
    }

    /// The head fits in no frame of HTTP/2, and nothing was sent.
    func sendByHTTP1(insteadOfFrameOn stream: any UpstreamStream) {
        upstream = nil
        stream.returnUnused()
        let isCall = isGRPC
        guard mayFallBack, !isCall else {
            return end(with: .requestInvalid, UpstreamVersionRule.requestHeadTooLong(isCall: isCall))
        }
        goesByHTTP1 = true
        guard case .connect(let isFresh) = rules.handle(.headUnsendable) else { return }
        connect(isFresh: isFresh)
    }

    /// The upstream's HTTP/2 takes no WebSocket.
    func sendByHTTP1(not stream: any UpstreamStream) {
        stream.returnUnused()
        guard mayFallBack else {
            return end(
                with: .connectionFailed,
                upstreamProblem(.upgradeFailed, UpstreamVersionRule.takesNoWebSocket)
            )
        }
        goesByHTTP1 = true
        connect(isFresh: false)
    }
}
