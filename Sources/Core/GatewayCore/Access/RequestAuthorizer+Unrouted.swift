/// A plain request with an absolute target, for a server that no route leads to (`connect.unrouted: tunnel`).
///
/// It passes without a credential. What the client has sent for that server stays, such as `Authorization`. What proves the client to
/// the gateway does not.
package struct UnroutedRequest: Sendable {
    package let server: TunnelDestination
    package let admitted: RequestAuthorizer.Admitted
}

extension RequestAuthorizer {
    /// - Returns: A refusal that says whether the request passes; nil where the listener passes none, or routes lead to the host.
    func judgeUnrouted(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        on listener: ListenerIdentity,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Refusal? {
        guard head.form == .absolute, !head.asksForTLS(bytes), !authority.host.isEmpty, listener.intercepts,
            let plan = listener.address.flatMap({ connect[$0] }), plan.unrouted == .tunnel,
            !table.leads(to: bytes, authority.host, port: authority.port)
        else { return nil }
        let evidence = client(of: head, bytes, on: listener, &cache, trace)
        trace?.add(.client(name: evidence.client, presentedToken: evidence.hasPresentedToken))
        guard evidence.client != nil || !access.requiresClient(on: listener.reach) else {
            trace?.add(.clientRequired(by: "access.require_client"))
            return refusal(evidence.refusal(isProxyRequest: true), on: listener)
        }
        let host = IPAddress.hostName(bytes.string(authority.host).lowercased())
        let port = authority.port ?? Origin.Scheme.http.defaultPort
        if let problem = loopRule.refusal(head, bytes) ?? plan.refusal(host: host, port: port, scheme: .http) {
            return refusal(problem, on: listener, client: evidence.client)
        }
        let server = TunnelDestination(host: host, port: port, client: evidence.client, proof: nil, plan: plan)
        return Refusal(
            problem: GatewayProblem(.misdirected, "Servers without a route are reached by HTTP/1.1 alone."),
            route: nil,
            client: evidence.client,
            disclosesNames: disclosesNames(to: evidence.client, on: listener),
            unrouted: UnroutedRequest(server: server, admitted: admitted(evidence, on: listener))
        )
    }

    private func admitted(_ evidence: ClientAuthenticator.Evidence, on listener: ListenerIdentity) -> Admitted {
        Admitted(
            match: .unrouted,
            client: evidence.client,
            stripsAuthorization: evidence.usesAuthorization,
            reach: listener.reach,
            chosen: nil,
            crossOrigin: nil,
            disclosesNames: disclosesNames(to: evidence.client, on: listener)
        )
    }
}

extension RouteTable.Match {
    /// The path is forwarded as it came. There is no such route.
    static var unrouted: Self { .upstream(Int.max) }
}
