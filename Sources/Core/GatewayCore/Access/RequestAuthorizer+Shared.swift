/// Several routes that lead to one server.
extension RequestAuthorizer {
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
