import GatewayHTTP

extension RequestAuthorizer {
    /// What becomes of a CONNECT (RFC 9110 section 9.3.6).
    package enum ConnectDecision: Sendable {
        /// The gateway answers in the place of that server.
        case intercept(InterceptedOrigin)
        /// A plain route leads to the server, and ``TunnelOpening`` says what becomes of the connection.
        ///
        /// - Parameter tunnel: nil where bytes may not pass as they are.
        case peek(InterceptedOrigin, tunnel: TunnelDestination?)
        /// Bytes pass as they are, if the server has an address that may be dialled.
        case tunnel(TunnelDestination)
        case refused(Refusal)
    }

    /// - Parameter head: Its target has the form of an authority.
    package func decideConnect(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on listener: ConnectionContext
    ) -> ConnectDecision {
        guard let authority = Authority(bytes, head.targetAuthority), let port = authority.port else {
            return .refused(refusal(GatewayProblem(.requestRefused, "The target is no host and port."), on: listener))
        }
        let proof = head.first(.proxyAuthorization).map { bytes.array($0.value) }
        guard head.section.fields.count(where: { $0.kind == .proxyAuthorization }) <= 1 else {
            let problem = GatewayProblem(.requestRefused, "It has more than one Proxy-Authorization.")
            return .refused(refusal(problem, on: listener))
        }
        let host = IPAddress.hostName(bytes.string(authority.host).lowercased())
        return decideConnect(to: host, port: port, isRooted: authority.isRooted, proof: proof, on: listener)
    }

    /// The server in whose place the gateway answers a client that has named it in its TLS hello; nil where no route leads there.
    package func origin(named name: String, on listener: ConnectionContext) -> InterceptedOrigin? {
        let host = Array(Origin.unrooted(name.lowercased()).utf8)
        let ports = table.upstreamPorts(host.span, scheme: .https, host: host.indices)
        guard
            let port = [listener.port, Origin.Scheme.https.defaultPort, ports.min()].compactMap(\.self).first(
                where: ports.contains
            )
        else { return nil }
        return InterceptedOrigin(host: name, port: port, listenerPort: listener.port)
    }

    /// Whether the client would get the same tunnel now: a reload has come.
    package func stillAdmits(_ tunnel: TunnelDestination, on listener: ConnectionContext) -> Bool {
        let decision = decideConnect(
            to: tunnel.host,
            port: tunnel.port,
            isRooted: tunnel.isRooted,
            proof: tunnel.proof,
            on: listener
        )
        let new: TunnelDestination? =
            switch decision {
            case .tunnel(let new): new
            case .peek(_, let new): new
            case .intercept, .refused: nil
            }
        guard let new, new.client == tunnel.client, let dialled = tunnel.dialled else { return false }
        return new.admits(dialled.address, isOwn: dialled.isOwn)
    }

    /// - Parameters:
    ///   - host: In lower case, without brackets and the dot of the root.
    ///   - isRooted: It was written with that dot.
    ///   - proof: The value of the field that says who the client is.
    private func decideConnect(
        to host: String,
        port: Int,
        isRooted: Bool,
        proof: [UInt8]?,
        on listener: ConnectionContext
    ) -> ConnectDecision {
        let evidence = clients.evidence(proof: proof, peer: listener.peer)
        if let refusal = refusal(of: evidence, isProxyRequest: true, on: listener) { return .refused(refusal) }
        let proof = evidence.client == nil ? nil : proof
        guard listener.intercepted == nil else {
            let problem = GatewayProblem(.methodRefused, "CONNECT is refused on a connection on which one was taken.")
            return .refused(refusal(problem, on: listener, client: evidence.client))
        }
        guard listener.intercepts else {
            return .refused(refusal(Self.notIntercepting, on: listener, client: evidence.client))
        }
        let name = Array(host.utf8)
        if table.hasUpstream(name.span, scheme: .https, host: name.indices, port: port) {
            return .intercept(InterceptedOrigin(host: host, port: port, proof: proof))
        }
        let plan = listener.address.flatMap { connect[$0] } ?? ConnectPlan()
        let problem = plan.refusal(host: host, port: port)
        let tunnel = TunnelDestination(
            host: host,
            port: port,
            isRooted: isRooted,
            client: evidence.client,
            proof: proof,
            plan: plan
        )
        if table.hasUpstream(name.span, scheme: .http, host: name.indices, port: port) {
            let origin = InterceptedOrigin(scheme: .http, host: host, port: port, proof: proof)
            return .peek(origin, tunnel: problem == nil ? tunnel : nil)
        }
        if let problem { return .refused(refusal(problem, on: listener, client: evidence.client)) }
        return .tunnel(tunnel)
    }

    /// Of a request on a connection whose CONNECT was taken. Routes are found as by an absolute target.
    func decide(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        inPlaceOf origin: InterceptedOrigin,
        on listener: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        guard let authority = authority(of: head, bytes), origin.isNamed(by: authority, in: bytes),
            head.form != .absolute || head.asksForTLS(bytes) == (origin.scheme == .https)
        else {
            trace?.add(.hostRefused)
            let way = origin.listenerPort == nil ? "CONNECT" : "the name in the TLS hello"
            let client = client(of: head, bytes, on: listener, &cache, trace).client
            let route =
                disclosesNames(to: client, on: listener) ? name(ofRouteTo: origin).map { ", route \($0)" } ?? "" : ""
            let detail = "This connection was opened for \(origin.host):\(origin.port) (\(way)\(route))."
            return refuse(GatewayProblem(.misdirected, detail), on: listener, client: client)
        }
        var match: RouteTable.Match?
        switch findUpstream(head, bytes, authority, on: listener) {
        case .none: break
        case .one(let route): match = .upstream(route)
        case .shared(let shared):
            let client = client(of: head, bytes, on: listener, &cache, trace)
            match = shared.route(for: client.client).map { .upstream($0) }
            if match == nil {
                trace?.add(.hostRefused)
                trace?.compare(nil, for: head, bytes, authority)
                return refuse(shared, client, isProxyRequest: false, on: listener)
            }
        }
        return judge(head, bytes, match, authority, isProxyRequest: false, on: listener, &cache, &trace)
    }

    /// Of the one that leads to the whole server.
    private func name(ofRouteTo origin: InterceptedOrigin) -> String? {
        let bytes = origin.hostBytes + [0x2F]
        let host = origin.hostBytes.indices
        let path = host.count..<bytes.count
        return table.findUpstream(bytes.span, scheme: origin.scheme, host: host, port: origin.port, path: path).route
            .map { names[$0] }
    }

    private static let notIntercepting = GatewayProblem(
        .methodRefused,
        "CONNECT is refused on this listener (listeners.proxy: intercept: true). Without it ask for an http:// URL by http_proxy, "
            + "or for the route's path."
    )
}
