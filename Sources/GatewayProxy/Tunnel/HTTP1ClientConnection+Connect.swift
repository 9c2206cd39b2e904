import GatewayCore
import NIOCore
import NIOSSL

/// CONNECT: the client asks for a connection to a server, and speaks TLS with the gateway in its place.
extension HTTP1ClientConnection {
    func connect() {
        // What the client has sent behind it is for another protocol, whatever the answer is.
        keepsAlive = false
        guard !isEnding, !shared.isDraining else { return refuse(Self.ending) }
        let bytes = request.bytes
        switch shared.authorizer.decideConnect(request.decoder.head, bytes.readableBytesUInt8Span, on: identity) {
        case .refused(let refusal): refuse(refusal.problem, id: nil, refusal)
        case .tunnel(let destination): openTunnel(to: destination)
        case .peek(let origin, let tunnel): peek(for: origin, or: tunnel)
        case .intercept(let origin):
            guard let interception = shared.state.interception, let loop = context?.eventLoop else {
                return refuse(GatewayProblem(.overloaded, "The gateway has no local authority."))
            }
            phase = .preparing
            setDeadline(timeouts.header)
            let wait = NIOLoopBound(self, eventLoop: loop)
            interception.context(for: origin.host, on: loop)
                .whenComplete { wait.value.take($0, inPlaceOf: origin) }
        }
    }

    private func take(_ result: Result<NIOSSLContext, any Error>, inPlaceOf origin: InterceptedOrigin) {
        guard phase == .preparing else { return }
        switch result {
        case .failure(let error):
            refuse(GatewayProblem(.overloaded, "There is no certificate for \(origin.host): \(error)"))
        case .success where isEnding: refuse(Self.ending)
        case .success(let tls):
            writer.send(Self.established)
            writer.afterWrites { [self] in begin(tls, inPlaceOf: origin) }
        }
    }

    /// What the client has sent behind its CONNECT belongs to TLS.
    private func begin(_ tls: NIOSSLContext, inPlaceOf origin: InterceptedOrigin) {
        guard phase == .preparing, let context else { return }
        // A reload has replaced the settings that admitted this client.
        guard !isEnding else { return closeNow() }
        let rest = reader.takeAll()
        hand(over: context)
        let inner = HTTP1ClientConnection(
            configuration: configuration.worker.current ?? configuration,
            listener: identity.intercepting(origin),
            listenerNumber: listenerNumber,
            hasDirectSocket: false
        )
        guard let handOver = try? HandlerSwap(from: context, to: [NIOSSLServerHandler(context: tls), inner]) else {
            return context.close(promise: nil)
        }
        handOver.finish(replaying: rest)
    }

    // MARK: Without TLS

    /// The client's first bytes say whether they are a request for the route.
    private func peek(for origin: InterceptedOrigin, or tunnel: TunnelDestination?) {
        phase = .peeking
        tunnelPeek = TunnelPeek(origin: origin, tunnel: tunnel)
        writer.send(Self.established)
        guard phase == .peeking else { return }
        setDeadline(tunnel == nil ? timeouts.header : min(TimeAmount(TunnelOpening.patience), timeouts.header))
    }

    /// - Returns: Whether there is more to do with what has come.
    func peekAtOpening() -> Bool {
        guard let peek = tunnelPeek else { return false }
        let bytes = reader.bytes
        switch TunnelOpening.judge(bytes.readableBytesUInt8Span) {
        case .unfinished:
            // It has begun to speak, so it does not wait for the server to do so.
            if !peek.hasBegun {
                tunnelPeek?.hasBegun = true
                setDeadline(timeouts.header)
            }
            return false
        case .request:
            tunnelPeek = nil
            // A reload has replaced the settings that admitted this client.
            guard !isEnding else {
                closeNow()
                return true
            }
            beginRequests(inPlaceOf: peek.origin)
            reader.nextRequest()
            setDeadline(timeouts.header)
            return true
        case .other:
            openConnectTunnel(peek)
            return true
        }
    }

    /// Its deadline has passed. Bytes that could still become a request of the route must not pass without it.
    func peekIsLate() {
        guard reader.isEmpty, let peek = tunnelPeek, peek.tunnel != nil else { return closeNow() }
        openConnectTunnel(peek)
    }

    private func openConnectTunnel(_ peek: TunnelPeek) {
        tunnelPeek = nil
        guard let tunnel = peek.tunnel else { return refuse(TunnelOpening.noRequest(to: peek.origin)) }
        openTunnel(to: tunnel, isEstablished: true)
    }

    static let ending = GatewayProblem(
        .overloaded,
        "This connection ends, because the listener has changed or the gateway stops. Connect again.",
        retryAfter: .seconds(1)
    )
    static let established = ByteBuffer(string: "HTTP/1.1 200 Connection Established\r\n\r\n")
}

/// What the client's first bytes decide between, behind a CONNECT.
struct TunnelPeek {
    let origin: InterceptedOrigin
    /// nil where bytes may not pass as they are.
    let tunnel: TunnelDestination?
    /// Some bytes have come.
    var hasBegun = false
}
