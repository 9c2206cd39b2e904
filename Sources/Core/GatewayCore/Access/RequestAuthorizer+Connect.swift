extension RequestAuthorizer {
    /// What becomes of a CONNECT (RFC 9110 section 9.3.6).
    package enum ConnectDecision: Sendable {
        /// The gateway answers in the place of that server.
        case intercept(InterceptedOrigin)
        case refused(Refusal)
    }

    /// - Parameter head: Its target has the form of an authority.
    package func decideConnect(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on listener: ListenerIdentity
    ) -> ConnectDecision {
        guard let authority = Authority(bytes, head.targetAuthority), let port = authority.port else {
            return .refused(refusal(GatewayProblem(.requestRefused, "The target is no host and port."), on: listener))
        }
        let proof = head.first(.proxyAuthorization).map { bytes.array($0.value) }
        let evidence = proof.map { clients.evidence(proof: $0) } ?? ClientAuthenticator.Evidence()
        guard evidence.client != nil || !access.requiresClient(on: listener.reach) else {
            return .refused(refusal(evidence.refusal(isProxyRequest: true), on: listener))
        }
        let host = bytes.string(authority.host)
        guard listener.intercepted == nil else {
            let problem = GatewayProblem(.methodRefused, "CONNECT is refused on a connection on which one was taken.")
            return .refused(refusal(problem, on: listener, client: evidence.client))
        }
        guard listener.intercepts else {
            return .refused(refusal(Self.notIntercepting, on: listener, client: evidence.client))
        }
        guard table.hasUpstream(bytes, scheme: .https, host: authority.host, port: port) else {
            let detail =
                "No route leads to https://\(bytes.string(head.targetAuthority)). Add one, or do not use this proxy for it."
            let problem = GatewayProblem(.noRoute, detail)
            return .refused(refusal(problem, on: listener, client: evidence.client))
        }
        return .intercept(InterceptedOrigin(host: host, port: port, proof: evidence.client == nil ? nil : proof))
    }

    private static let notIntercepting = GatewayProblem(
        .methodRefused,
        "CONNECT is refused on this listener (listeners.proxy: intercept: true). Without it ask for an http:// URL by http_proxy, "
            + "or for the route's path."
    )
}
