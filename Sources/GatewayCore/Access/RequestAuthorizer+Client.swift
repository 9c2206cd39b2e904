/// Who sends a request.
extension RequestAuthorizer {
    func authenticate(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        match: RouteTable.Match?,
        isProxyRequest: Bool,
        _ grant: CrossOriginGrant?,
        on listener: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        var evidence = evidence(of: head, bytes, match, on: listener, &cache)
        if let client = trace?.assumedClient { evidence.assume(client) }
        trace?.add(.client(name: evidence.client, presentedToken: evidence.hasPresentedToken))
        if let refusal = refusal(of: evidence, isProxyRequest: isProxyRequest, on: listener, route: match?.route) {
            trace?.add(.clientRequired(by: "access.require_client"))
            return .refused(refusal)
        }
        guard let match else {
            let problem = noRoute(disclosesNames(to: evidence.client, on: listener))
            return refuse(problem, on: listener, client: evidence.client)
        }
        let gate = gates[match.route]
        // A route that names clients asks for one, whatever the listener does.
        if gate.clients != nil, evidence.client == nil {
            trace?.add(.clientRequired(by: "clients"))
            return refuse(evidence.refusal(isProxyRequest: isProxyRequest), on: listener, route: match.route)
        }
        if let problem = forbid(evidence.client, match, head, bytes, on: listener, &trace) {
            return refuse(problem, on: listener, route: match.route, client: evidence.client)
        }
        return choose(head, bytes, match, evidence, grant, on: listener, &trace)
    }

    /// Why a client that has not proved itself is refused; nil where the listener asks for no proof (`access.require_client`).
    /// Proofs of different clients are refused everywhere.
    @inline(__always)
    func refusal(
        of evidence: ClientAuthenticator.Evidence,
        isProxyRequest: Bool,
        on listener: ConnectionContext,
        route: Int? = nil
    ) -> Refusal? {
        guard evidence.client == nil, evidence.isContradictory || access.requiresClient(on: listener.reach) else {
            return nil
        }
        return refusal(evidence.refusal(isProxyRequest: isProxyRequest), on: listener, route: route)
    }

    /// On a connection whose CONNECT was taken, the fields of a request are for the upstream.
    func evidence(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match?,
        on listener: ConnectionContext,
        _ cache: inout ClientAuthenticationCache
    ) -> ClientAuthenticator.Evidence {
        if clients.isEmpty { return ClientAuthenticator.Evidence() }
        if let origin = listener.intercepted, origin.listenerPort == nil {
            return clients.evidence(of: origin, in: head, bytes, peer: listener.clientPeer, cache: &cache)
        }
        return clients.evidence(
            in: head,
            bytes,
            places: match.map { places[$0.route] },
            peer: listener.clientPeer,
            cache: &cache
        )
    }

    /// Who sends a request, before that is judged.
    ///
    /// - Parameter match: nil before its route is known.
    func client(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match? = nil,
        on listener: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: AuthorizationTrace?
    ) -> ClientAuthenticator.Evidence {
        var evidence = evidence(of: head, bytes, match, on: listener, &cache)
        if let client = trace?.assumedClient { evidence.assume(client) }
        return evidence
    }
}
