import GatewayHTTP
import Logging

/// A refresh token that the authority has refused to another gateway, or to an earlier run of this one.
extension TokenKeeper {
    /// Asks for a login if the record says that the refresh token was refused, and does not ask the authority.
    func followRefusal(_ renewer: TokenRenewer) async {
        let now = context.clock.now().monotonic
        guard let (failure, waiters) = stop(forRefusalIn: renewer, at: now) else { return }
        for waiter in waiters { waiter(.failure(failure.problem)) }
        context.logger.warning(
            "The authority has refused the refresh token before; it is not sent again",
            metadata: [
                "gateway.credential": "\(name)", "gateway.error": "\(failure.problem.cause?.code ?? "none")",
                "gateway.problem": "\(failure.problem.kind.rawValue)",
            ]
        )
        await renewer.noteLogin(failure)
        if isGone(after: failure, at: now) { dropDescendants() }
    }

    /// - Returns: Why a login is needed from now on, and who waits; nil when nothing has changed.
    func stop(forRefusalIn renewer: TokenRenewer, at now: MonotonicTime) -> (TokenFailure, [Done])? {
        guard let refusal = renewer.record?.knownRefusal else { return nil }
        let failure = context.advised(refusal.failure)
        return decide { $0.stop(forRefusal: failure, at: now) }.map { (failure, $0.waiters) }
    }
}
