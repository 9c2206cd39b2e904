package import GatewayEvents
package import GatewayHTTP

/// Requests: what they are given, how they wait, and what they report.
extension TokenLifecycle where Waiter: Sendable {
    package enum OnNeed: Sendable {
        case use(Credential)
        /// The waiter is kept.
        case wait
        /// The waiter is kept, and a call has become due.
        case waitAndCall
        case refuse(GatewayProblem)
    }

    package enum OnRejection: Hashable, Sendable {
        /// The generation is not the current one: there is a newer token, or none.
        case late
        /// Somebody said so already.
        case known
        /// The token is dead from now on. `calls`: a call has become due.
        case dead(calls: Bool)
    }

    /// What there is to inject, for readers that keep a copy of the answer: the live token, unless it is not to be used.
    package var servable: Credential? {
        guard !isLocked, !isSuspended, let held, !held.isRejected, !isHeldBack else { return nil }
        return held.credential
    }

    /// Answers without a waiter and without changing anything.
    package func answer(at now: MonotonicTime) -> CredentialAnswer {
        if isLocked { return .unavailable(lockedProblem) }
        if isSuspended { return .wait }
        if let servable, servable.isUsable(at: now) { return .ready(servable) }
        switch phase.kind {
        case .empty, .calling, .ready: return .wait
        // The next try, which the pause names, will not be made any more.
        case .backingOff where isStopped: return .unavailable(Self.drainingProblem)
        case .backingOff(let pause): return now < pause.until ? .unavailable(pause.problem(at: now)) : .wait
        case .stopped(let stop):
            let isDue = !isStopped && stop.retryAt.map { $0 <= now } ?? false
            return isDue ? .wait : .unavailable(stop.failure.problem)
        }
    }

    /// Asks again and keeps the waiter when there is something to wait for, so that a token that arrived since
    /// ``answer(at:)`` is not missed.
    package mutating func need(
        by waiter: Waiter,
        ticket: CredentialTicket,
        for demand: CredentialRequest,
        at now: MonotonicTime
    ) -> OnNeed {
        defer { checkInvariants() }
        switch answer(at: now) {
        case .ready(let credential): return .use(credential)
        case .unavailable(let problem): return .refuse(problem)
        case .wait: break
        }
        return keep(waiter, ticket, for: demand)
    }

    /// Asks for the next token although this generation may be live, for somebody who has no use for one that ends soon.
    package mutating func needSuccessor(
        of generation: Int,
        by waiter: Waiter,
        ticket: CredentialTicket,
        for demand: CredentialRequest,
        at now: MonotonicTime
    ) -> OnNeed {
        defer { checkInvariants() }
        switch answer(at: now) {
        case .ready(let credential) where credential.generation != generation: return .use(credential)
        case .unavailable(let problem): return .refuse(problem)
        case .ready, .wait: break
        }
        if phase.isCutShortByNeed, !isUseful(at: now) { return keep(waiter, ticket, for: demand) }
        switch phase.kind {
        case .backingOff(let pause) where now < pause.until: return .refuse(pause.problem(at: now))
        case .stopped(let stop): return .refuse(stop.failure.problem)
        case .empty, .calling, .ready, .backingOff: return keep(waiter, ticket, for: demand)
        }
    }

    private mutating func keep(
        _ waiter: Waiter,
        _ ticket: CredentialTicket,
        for demand: CredentialRequest
    ) -> OnNeed {
        guard !isStopped else { return .refuse(Self.drainingProblem) }
        guard waiters.count < rules.maximumWaiters else {
            return .refuse(GatewayProblem(.overloaded, "Too many requests wait for the credential \(rules.name)."))
        }
        if waiters.isEmpty { firstDemand = demand }
        waiters[ticket] = waiter
        guard !isSuspended else { return .wait }
        return wantCall(.demand, for: demand) ? .waitAndCall : .wait
    }

    /// - Returns: The waiter, unless its wait was over already. The call goes on for the others.
    package mutating func withdraw(_ ticket: CredentialTicket) -> Waiter? {
        defer { checkInvariants() }
        return waiters.removeValue(forKey: ticket)
    }

    /// The upstream did not accept this generation. A thousand such reports are one rejection.
    package mutating func rejected(generation: Int, by demand: CredentialRequest? = nil) -> OnRejection {
        defer { checkInvariants() }
        guard let held, held.generation == generation else { return .late }
        guard !held.isRejected else { return .known }
        phase.changeHeld { $0.isRejected = true }
        switch phase.kind {
        case .ready: return .dead(calls: wantCall(.rejected, for: demand))
        case .backingOff, .stopped:
            return .dead(calls: phase.isCutShortByNeed && wantCall(.rejected, for: demand))
        case .empty, .calling: return .dead(calls: false)
        }
    }

    /// No call will be made any more; a live token is still handed out.
    ///
    /// - Returns: The waiters, to be refused with the problem.
    package mutating func stop() -> (waiters: [Waiter], problem: GatewayProblem) {
        defer { checkInvariants() }
        isStopped = true
        return (takeWaiters(), Self.drainingProblem)
    }

    package var waiterCount: Int { waiters.count }

    /// No call is wanted or under way, and no request waits. A locked token begins no call.
    package var isIdle: Bool {
        if case .calling(let call) = phase.kind, call.hasBegun || !isLocked { return false }
        return waiters.isEmpty && !isSuspended
    }
}

extension TokenLifecycle where Waiter: Sendable {
    /// `on_authority_failure: fail`: a token is not used while the authority refuses to renew it.
    private var isHeldBack: Bool {
        rules.policy.onAuthorityFailure == .fail && failures > 0
    }

    private static var drainingProblem: GatewayProblem { GatewayProblem(.draining, "The gateway is shutting down.") }

    package var lockedProblem: GatewayProblem { .locked(rules.name) }

    package var held: HeldToken? { phase.held }

    /// Whether enough is left of the token for somebody who is handed it.
    private func isUseful(at now: MonotonicTime) -> Bool {
        held.map { held in held.remainder(at: now).map { $0 >= held.usefulLife } ?? true } ?? false
    }

    /// - Returns: Whether a call became due by this; false when one already was.
    mutating func wantCall(_ trigger: TokenEvent.Trigger, for demand: CredentialRequest? = nil) -> Bool {
        phase.want(newCall(trigger, for: demand))
    }
}
