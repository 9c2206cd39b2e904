import GatewayHTTP
import GatewayTokens

/// Why a code brought no token.
struct FailedExchange: Error {
    let problem: GatewayProblem
    /// For the audit log.
    let reason: String
    let code: String?
    let said: AuthorityError?
}

extension TokenKeeper {
    /// Exchanges the code of a login at the authorization server.
    ///
    /// - Returns: The token, which the keeper does not have yet, and the response that it was read from.
    func exchange(
        _ request: TokenRequest,
        of flow: any LoginFlow,
        clock: any GatewayClock
    ) async -> Result<(TokenSet, TokenReply), FailedExchange> {
        switch await endpoint.send(request, deadline: Self.callDeadline) {
        case .failure(let failure):
            let problem = TokenFailure(explaining: failure, of: request, credential: name).problem
            let code = failure.reason.rawValue
            return .failure(FailedExchange(problem: problem, reason: "no_answer", code: code, said: nil))
        case .success(let reply):
            switch flow.interpret(reply, at: clock.now()) {
            case .success(let token): return .success((token, reply))
            case .failure(let failure):
                let failed = FailedExchange(
                    problem: failure.problem,
                    reason: "exchange_refused",
                    code: failure.problem.cause?.code,
                    said: AuthorityError(reply, hiding: request.secrets + grant.hiddenSecrets)
                )
                return .failure(failed)
            }
        }
    }
}
