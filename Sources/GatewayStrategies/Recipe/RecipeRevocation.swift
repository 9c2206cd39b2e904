import GatewayCore

/// The steps of `revoke`, one after the other, as those that obtain a token.
extension RecipeGrant {
    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        guard !revoke.isEmpty else { return .impossible("The recipe has no \"revoke\"; add it.") }
        return step(revoke, 0, attempt).map { .request($0) }
            ?? .impossible("The recipe's \"revoke\" uses something that came with another token than this one.")
    }

    func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer {
        let index = attempt.answers - 1
        guard revoke.indices.contains(index) else { return .failure(unwritable.problem) }
        let step = revoke[index]
        switch step.outcome(of: reply, at: attempt.now.wall) {
        case .success(let outputs):
            attempt.outputs.merge(outputs) { $1 }
            guard index + 1 < revoke.count else { return .revoked }
            return self.step(revoke, index + 1, attempt).map { .next($0) } ?? .failure(unwritable.problem)
        case .broken(let answer, _):
            let detail =
                "\(name(of: index, step)) answered \(reply.status), but not as the recipe expects: \(answer.reason)."
            let cause = GatewayProblem.Cause(httpStatus: reply.status)
            return .failure(GatewayProblem(.tokenTemporarilyUnavailable, detail, cause: cause))
        case .transient, .refused:
            // Only where the token itself was shown can "unknown" be about it.
            if step.showsToken, reply.saysThatTheTokenIsUnknown { return .revoked }
            return .failure(reply.refusalToRevoke(by: name(of: index, step)))
        }
    }

    private func name(of index: Int, _ step: RecipeStep) -> String {
        revoke.count == 1 ? step.request.host : "\(step.request.host) (step \(index + 1) of \"revoke\")"
    }
}

extension RecipeStep {
    fileprivate var showsToken: Bool { !request.names.isDisjoint(with: ["token", "renewal"]) }
}
