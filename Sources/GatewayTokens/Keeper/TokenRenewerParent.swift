import GatewayEvents
import GatewayHTTP

/// The token that the own one is made from.
extension TokenRenewer {
    /// nil when the grant needs none.
    func parentToken(for call: TokenCall) async -> Result<LiveToken?, TokenFailure> {
        guard let parent = context.parent else { return .success(nil) }
        return await parent.liveToken(for: demand(of: call), within: TokenKeeper.callDeadline)
            .map { $0 }
            .mapError { problem in
                var problem = problem
                problem.detail = "\(context.name) is made from the token of \(parent.name). \(problem.detail)"
                // It works again as soon as the parent does, whatever the parent needs for that.
                return TokenFailure(.transient(retryAfter: problem.retryAfter), problem: problem)
            }
    }

    /// On whose behalf the parent is asked: the request's, or the credential's own.
    func demand(of call: TokenCall) -> CredentialRequest {
        call.demand ?? CredentialRequest(route: "credentials.\(context.name)", client: nil, requestID: "")
    }
}
