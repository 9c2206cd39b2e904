import GatewayHTTP

/// The server that a request is for.
extension RequestAuthorizer {
    /// What names that server: the target in absolute form, or else `Host`.
    @inline(__always)
    func authority(of head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Authority? {
        Authority(bytes, head.form == .absolute ? head.targetAuthority : head.host)
    }

    /// The routes that lead to that server; none for a request to the gateway itself.
    @inline(__always)
    func findUpstream(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        on listener: ConnectionContext
    ) -> RouteTable.UpstreamMatch {
        let (host, path) = (authority.host, head.path)
        if let origin = listener.intercepted {
            return table.findUpstream(bytes, scheme: origin.scheme, host: host, port: origin.port, path: path)
        }
        guard head.form == .absolute else { return .none }
        let scheme: Origin.Scheme = head.asksForTLS(bytes) ? .https : .http
        return table.findUpstream(bytes, scheme: scheme, host: host, port: authority.port, path: path)
    }

    /// Several routes lead there.
    ///
    /// - Parameter shared: The request and its client choose none of them.
    func refuse(
        _ shared: SharedUpstream,
        _ evidence: ClientAuthenticator.Evidence,
        isProxyRequest: Bool,
        on listener: ConnectionContext
    ) -> Decision {
        if let refusal = refusal(of: evidence, isProxyRequest: isProxyRequest, on: listener) {
            return .refused(refusal)
        }
        let mayKnow = disclosesNames(to: evidence.client, on: listener)
        let routes = mayKnow ? ": " + shared.routes.prefix(20).map { names[$0] }.joined(separator: ", ") : ""
        let detail =
            "Several routes lead to this server\(routes). Tell them apart with match.upstream_path, clients or match.default, or"
            + " name one by its path."
        return refuse(GatewayProblem(.misdirected, detail), on: listener, client: evidence.client)
    }
}
