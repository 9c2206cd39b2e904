/// Requests that web pages send.
extension RequestAuthorizer {
    /// - Parameter grant: Of a page that may call. For other requests of a route that such pages may call, what keeps caches from
    ///   answering them with the response.
    /// - Returns: nil where the request goes on.
    func judgePage(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match?,
        on listener: ConnectionContext,
        _ grant: inout CrossOriginGrant?,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision? {
        let rule = rule(for: match)
        switch rule.decide(head, bytes, own: listener.intercepted) {
        case .passes:
            if !rule.policy.isEmpty { grant = .unlisted }
            return nil
        case .refused(let problem):
            var problem = problem
            if let authority = authority(of: head, bytes), OriginRule.isOfListener(head, bytes, authority, on: listener)
            {
                // Browsers may leave Sec-Fetch fields out of WebSocket handshakes, and attach the certificate that the user has.
                let prover = head.section.fields.contains { $0.kind == .upgrade } ? listener.withoutPeer : listener
                guard client(of: head, bytes, match, on: prover, &cache, trace).client == nil else {
                    trace?.add(.ownOrigin)
                    if !rule.policy.isEmpty { grant = .unlisted }
                    return nil
                }
                problem = rule.unproven
            }
            trace?.add(.originRefused)
            return .refused(refusal(problem, on: listener))
        case .granted(let found):
            trace?.add(.originAllowed(String(decoding: found.origin, as: UTF8.self)))
            guard let preflight = Preflight(head, bytes, route: match?.route, grant: found) else {
                grant = found
                return nil
            }
            trace?.add(.preflightAnswered)
            return .preflight(preflight)
        }
    }

    private func rule(for match: RouteTable.Match?) -> OriginRule { match.map { originRules[$0.route] } ?? originRule }

    /// What an answer of the gateway's own says to the browser of a page, so that the page can read why there is no other.
    package func crossOriginFields(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on listener: ConnectionContext
    ) -> [ProblemAnswer.Field] {
        guard head.present.contains(.origin) else { return [] }
        guard let authority = authority(of: head, bytes) else { return [] }
        let upstream = findUpstream(head, bytes, authority, on: listener).route
        let match = upstream.map { .upstream($0) } ?? table.find(bytes, host: authority.host, path: head.path)
        guard case .granted(let grant) = rule(for: match).decide(head, bytes, own: listener.intercepted) else {
            return []
        }
        return grant.fields
    }
}
