import GatewayHTTP

/// A plain request with an absolute target, for a server that no route leads to (`connect.unrouted: tunnel`).
///
/// It passes without a credential. What the client has sent for that server stays, such as `Authorization`. What proves the client to
/// the gateway does not.
///
/// A class, so that a decision is no larger than what is admitted.
package final class UnroutedRequest: Sendable {
    package let server: TunnelDestination
    package let admitted: RequestAuthorizer.Admitted

    init(to server: TunnelDestination, _ admitted: RequestAuthorizer.Admitted) {
        self.server = server
        self.admitted = admitted
    }

    /// The answer to a client that asks in HTTP/2. Clients ask their proxy in HTTP/1.1 for plain URLs.
    package var refusalInHTTP2: RequestAuthorizer.Refusal {
        RequestAuthorizer.Refusal(
            problem: GatewayProblem(.misdirected, "Servers without a route are reached by HTTP/1.1 alone."),
            route: nil,
            client: admitted.client,
            disclosesNames: admitted.disclosesNames
        )
    }
}

extension RequestAuthorizer {
    /// - Returns: nil where the listener passes no such request, or routes lead to the host.
    func judgeUnrouted(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        on listener: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision? {
        guard head.form == .absolute, !head.asksForTLS(bytes), !authority.host.isEmpty, listener.intercepts,
            let plan = listener.address.flatMap({ connect[$0] }), plan.unrouted == .tunnel,
            !table.leads(to: bytes, authority.host, port: authority.port)
        else { return nil }
        let evidence = client(of: head, bytes, on: listener, &cache, trace)
        trace?.add(.client(name: evidence.client, presentedToken: evidence.hasPresentedToken))
        if let refusal = refusal(of: evidence, isProxyRequest: true, on: listener) {
            trace?.add(.clientRequired(by: "access.require_client"))
            return .refused(refusal)
        }
        let host = IPAddress.hostName(bytes.string(authority.host).lowercased())
        let port = authority.port ?? Origin.Scheme.http.defaultPort
        if let problem = loopRule.refusal(head, bytes) ?? plan.refusal(host: host, port: port, scheme: .http) {
            return refuse(problem, on: listener, client: evidence.client)
        }
        let server = TunnelDestination(
            host: host,
            port: port,
            isRooted: authority.isRooted,
            client: evidence.client,
            proof: nil,
            plan: plan
        )
        return .unrouted(UnroutedRequest(to: server, admitted(evidence, on: listener)))
    }

    private func admitted(_ evidence: ClientAuthenticator.Evidence, on listener: ConnectionContext) -> Admitted {
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
