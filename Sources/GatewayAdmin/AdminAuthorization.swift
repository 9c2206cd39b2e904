import GatewayCore
import HTTPTypes
import Hummingbird

/// Who sent a request of the admin listener, and whether that person may do what it asks for.
///
/// Made for each request, so that the users of the configuration of the moment count.
struct AdminAuthorization: Sendable {
    let authorizer: AdminAuthorizer
    /// Records what a user does before it is done.
    let record: AdminOptions.Record

    func evidence(of request: Request, peer: PeerIdentity?) -> AdminAuthorizer.Evidence {
        let scheme = "bearer "
        let value = request.headers[.authorization]
        let token = value.flatMap {
            $0.lowercased().hasPrefix(scheme) ? Array($0.utf8.dropFirst(scheme.utf8.count)) : nil
        }
        return authorizer.evidence(presenting: token, peer: peer)
    }

    /// What a person typed into a form; what a paste adds around a token does not count.
    func evidence(typed text: String, peer: PeerIdentity?) -> AdminAuthorizer.Evidence {
        let token = Array(text.utf8.filter { $0 > 0x20 })
        return authorizer.evidence(presenting: token.isEmpty ? nil : token, peer: peer)
    }

    /// - Returns: Why the request is refused; nil when it may go on, and is recorded where the role is that of an operator.
    func refusal(
        of evidence: AdminAuthorizer.Evidence,
        needing role: AdminRole,
        for request: Request
    ) async -> GatewayProblem? {
        if let problem = authorizer.refusal(of: evidence, needing: role) { return problem }
        guard role == .operator, case .person(.user(let name, let own)) = evidence else { return nil }
        let (method, path) = (request.method.rawValue, request.uri.path)
        let withdraws = AdminRouteTable.mayWithdraw(method: method, path: path)
        return await record(AdminAction(user: name, role: own, method: method, path: path, withdraws: withdraws))
    }

    /// As for a request, of a form with a token in it.
    ///
    /// - Returns: What the page says; nil where the person may.
    func refusal(typed text: String, _ context: AdminContext, _ request: Request) async -> String? {
        let evidence = evidence(typed: text, peer: context.peer)
        guard let problem = await refusal(of: evidence, needing: .operator, for: request) else { return nil }
        return problem.kind == .clientAuthRequired
            ? "This is not the admin token of the running gateway." : problem.detail
    }
}
