import GatewayHTTP
import GatewayTokenClient
import GatewayTokens

/// Sends what the gateway asks for itself and no credential stands for, such as keys of issuers and telemetry, through
/// `defaults.proxy` as it is now.
struct OwnRequests: Sendable {
    let http: OutgoingHTTP
    let live: LivePlan
    let locks: CredentialLocks

    func send(_ request: OutgoingRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        let request = request.through(live.state.plan.proxy)
        if let problem = request.proxy?.lockProblem({ locks.contains($0) }) {
            return .failure(TokenTransportFailure(problem))
        }
        return await http.send(request, deadline: deadline)
    }
}
