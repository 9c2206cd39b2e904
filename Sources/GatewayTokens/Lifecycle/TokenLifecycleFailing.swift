package import GatewayHTTP

/// A call that failed, and no token has come since.
package struct UnresolvedFailure: Sendable {
    /// When the first call failed.
    package let since: MonotonicTime
    /// Of the last call.
    package internal(set) var failure: TokenFailure
    /// When the gateway tries again by itself; nil: with the next request, or never.
    package internal(set) var nextTryAt: MonotonicTime?
    /// Whether the next request causes a call.
    package internal(set) var isTriedOnDemand = false
    /// Until then, requests cause no call either.
    package internal(set) var notBefore: MonotonicTime?
}

/// What a credential lacks although a live token may still be served.
extension TokenLifecycle where Waiter: Sendable {
    /// A subject that the authority gives no token to does not make the credential fail.
    mutating func remember(_ failure: TokenFailure, at now: MonotonicTime) {
        guard failure.problem.kind != .routeForbidden else { return }
        unresolved = UnresolvedFailure(since: unresolved?.since ?? now, failure: failure)
    }

    /// When the first call failed since the last token.
    package var unresolvedSince: MonotonicTime? { unresolved?.since }

    /// nil while the last call brought a token, or before the first call.
    package func failing(at now: MonotonicTime) -> UnresolvedFailure? {
        guard var failing = unresolved else { return nil }
        guard !isLocked, !isStopped else { return failing }
        failing.nextTryAt = nextTry(at: now)
        failing.isTriedOnDemand = failing.nextTryAt == nil && isCallDueOnDemand
        if failing.isTriedOnDemand, case .backingOff(let pause) = phase.kind, pause.until > now {
            failing.notBefore = pause.until
        }
        return failing
    }

    private func nextTry(at now: MonotonicTime) -> MonotonicTime? {
        switch phase.kind {
        case .empty: return nil
        case .calling: return now
        case .ready: return rules.isRenewable ? held?.renewAt : nil
        case .stopped(let stop): return stop.retryAt
        case .backingOff(let pause):
            guard rules.isRenewable else { return nil }
            // Without a live token the next request asks.
            let isServed = held.map { $0.isLive(at: now) && $0.credential.isUsable(at: pause.until) } ?? false
            return pause.isRetryFixed || isServed ? pause.until : nil
        }
    }

    private var isCallDueOnDemand: Bool {
        switch phase.kind {
        case .empty, .backingOff, .ready: true
        case .calling, .stopped: false
        }
    }
}
