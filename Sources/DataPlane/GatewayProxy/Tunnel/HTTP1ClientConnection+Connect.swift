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
        case .look(let origin, let tunnel): look(for: origin, or: tunnel)
        case .intercept(let origin):
            guard let interception = shared.state.interception, let loop = context?.eventLoop else {
                return refuse(GatewayProblem(.overloaded, "The gateway has no local authority."))
            }
            phase = .opening
            setDeadline(timeouts.header)
            let wait = NIOLoopBound(self, eventLoop: loop)
            interception.context(for: origin.host, on: loop)
                .whenComplete { wait.value.take($0, inPlaceOf: origin) }
        }
    }

    private func take(_ result: Result<NIOSSLContext, any Error>, inPlaceOf origin: InterceptedOrigin) {
        guard phase == .opening else { return }
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
        guard phase == .opening, let context else { return }
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
        guard let handOver = try? HandOver(from: context, to: [NIOSSLServerHandler(context: tls), inner]) else {
            return context.close(promise: nil)
        }
        handOver.finish(replaying: rest)
    }

    // MARK: Without TLS

    /// The client's first bytes say whether they are a request for the route.
    private func look(for origin: InterceptedOrigin, or tunnel: TunnelDestination?) {
        phase = .opening
        tunnelLook = TunnelLook(origin: origin, tunnel: tunnel)
        writer.send(Self.established)
        guard phase == .opening else { return }
        setDeadline(tunnel == nil ? timeouts.header : min(TimeAmount(TunnelOpening.patience), timeouts.header))
    }

    /// - Returns: Whether there is more to do with what has come.
    func lookAtOpening() -> Bool {
        guard let look = tunnelLook else { return false }
        let bytes = reader.bytes
        switch TunnelOpening.judge(bytes.readableBytesUInt8Span) {
        case .unfinished: return false
        case .request:
            tunnelLook = nil
            // A reload has replaced the settings that admitted this client.
            guard !isEnding else {
                closeNow()
                return true
            }
            identity = identity.intercepting(look.origin)
            clientCache = ClientAuthenticationCache()
            phase = .head
            reader.nextRequest()
            setDeadline(timeouts.header)
            return true
        case .other:
            passBlindly(look)
            return true
        }
    }

    /// Its deadline has passed.
    func openingIsLate() {
        guard let look = tunnelLook, look.tunnel != nil else { return closeNow() }
        passBlindly(look)
    }

    private func passBlindly(_ look: TunnelLook) {
        tunnelLook = nil
        guard let tunnel = look.tunnel else { return refuse(TunnelOpening.noRequest(to: look.origin)) }
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
struct TunnelLook {
    let origin: InterceptedOrigin
    /// nil where bytes may not pass as they are.
    let tunnel: TunnelDestination?
}
