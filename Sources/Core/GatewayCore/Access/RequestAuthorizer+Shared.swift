/// Several routes that lead to one server.
extension RequestAuthorizer {
    /// Who sends a request before its route is known.
    func client(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on listener: ListenerIdentity,
        _ cache: inout ClientAuthenticationCache,
        _ trace: AuthorizationTrace?
    ) -> ClientAuthenticator.Evidence {
        var evidence = evidence(of: head, bytes, nil, on: listener, &cache)
        if let client = trace?.assumedClient { evidence.assume(client) }
        return evidence
    }

    /// - Parameter shared: None of them is meant.
    func refuse(
        _ shared: SharedUpstream,
        _ evidence: ClientAuthenticator.Evidence,
        isProxyRequest: Bool,
        on listener: ListenerIdentity
    ) -> Decision {
        guard evidence.client != nil || !access.requiresClient(on: listener.reach) else {
            return refuse(evidence.refusal(isProxyRequest: isProxyRequest), on: listener)
        }
        let mayKnow = disclosesNames(to: evidence.client, on: listener)
        let routes = mayKnow ? ": " + shared.members.prefix(20).map { names[$0.route] }.joined(separator: ", ") : ""
        let detail =
            "Several routes lead to this server\(routes). Tell them apart with match.upstream_path, clients or match.default, or"
            + " name one by its path."
        return refuse(GatewayProblem(.misdirected, detail), on: listener, client: evidence.client)
    }
}
