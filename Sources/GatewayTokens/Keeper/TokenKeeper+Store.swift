import GatewayEvents
import GatewayHTTP
import Logging

/// What other gateways, and operators there, have written to the store.
extension TokenKeeper {
    /// Whether other gateways may write the record.
    package var sharesStore: Bool { context.store.isShared }

    /// Locks or unlocks as the store says. Does not record it: see ``SharedUnlocks`` for what is.
    ///
    /// - Returns: See ``change(isLocked:)``; nil if it is so already.
    package func follow(isLocked: Bool) -> (@Sendable () -> Void)? {
        look { $0.isLocked } == isLocked ? nil : change(isLocked: isLocked)
    }

    /// The store works again: a call that failed for its sake is made now.
    package func storeReturned() {
        if decide({ $0.storeReturned() }) { wake() }
    }

    /// Reads what others may have written, before the authority is told of a token.
    func readRemoteChange(_ renewer: inout TokenRenewer) async {
        guard sharesStore, renewer.phase == .open, let entry = try? await context.store.load(context.key) else {
            return
        }
        await apply(entry, &renewer)
    }

    private func apply(_ entry: TokenEntry, _ renewer: inout TokenRenewer) async {
        switch await renewer.apply(entry, after: look { $0.generation }) {
        case .nothing: break
        case .adopted(let fresh): install(fresh)
        case .withdrawn: forgetWithdrawn(&renewer)
        }
    }

    /// - Returns: Whether there was any.
    func applyRemoteChange(_ renewer: inout TokenRenewer) async -> Bool {
        guard renewer.phase != .unread, let change = nextRemoteChange(&renewer) else { return false }
        await apply(change.entry, &renewer)
        if change.hasTakenAway { resume() }
        showUncertainty(of: renewer)
        return true
    }

    /// What has overtaken a write comes first. A change may be one of the keeper's own writes.
    private func nextRemoteChange(_ renewer: inout TokenRenewer) -> RemoteChange? {
        if let entry = renewer.takeOvertaking() { return RemoteChange(entry: entry, hasTakenAway: false) }
        return takeChange()
    }

    /// The token was taken away at another gateway.
    func forgetWithdrawn(_ renewer: inout TokenRenewer) {
        leave(&renewer)
        dropDescendants()
    }
}

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
