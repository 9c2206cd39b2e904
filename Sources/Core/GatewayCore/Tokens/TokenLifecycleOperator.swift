/// What operators do, and what they are shown.
extension TokenLifecycle where Waiter: Sendable {
    /// Asks for a new token now, whatever the age of the present one, the pause or an earlier refusal.
    ///
    /// - Returns: The call to make and report, already begun; nil while locked, or while another call is under way.
    package mutating func refresh() -> TokenCall? {
        guard !isLocked else { return nil }
        if case .calling(let call) = phase.kind, call.hasBegun { return nil }
        var call = newCall(.operator)
        call.hasBegun = true
        phase = .calling(held, call)
        return call
    }

    /// Forgets the token and any refusal. A call under way is no longer awaited; whoever waits causes a new one.
    package mutating func clear() {
        withdrawals += 1
        failures = 0
        isRotationUncertain = false
        isSuspended = false
        phase = .empty
        if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
    }

    /// Forgets the token, and waits for a person who cures `failure`.
    ///
    /// - Returns: The waiters, to be refused with the problem.
    package mutating func clear(leaving failure: TokenFailure) -> [Waiter] {
        clear()
        phase = .stopped(nil, failure)
        return takeWaiters()
    }

    /// Hands out nothing until ``resume(at:)`` or ``clear()``; whoever asks waits.
    package mutating func suspend() {
        withdrawals += 1
        isSuspended = true
    }

    /// - Returns: Those whose wait is over, and with what; nil when a call has become due for them.
    package mutating func resume(at now: MonotonicTime) -> (waiters: [Waiter], Result<Credential, GatewayProblem>)? {
        isSuspended = false
        switch answer(at: now) {
        case .ready(let credential): return (takeWaiters(), .success(credential))
        case .unavailable(let problem): return (takeWaiters(), .failure(problem))
        case .wait:
            if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
            return nil
        }
    }

    /// Takes a token from an operator, in the place of any other. A call under way is no longer awaited.
    package mutating func `import`(_ fresh: FreshToken, at now: Moment, jitter: Double) -> OnToken {
        install(fresh, at: now, jitter: jitter)
    }

    /// A token of this generation is tried before it is used: its number is not given to another one.
    package mutating func pass(_ generation: Int) { self.generation = max(self.generation, generation) }

    /// Stops handing out, and makes no further call. A token that is already on its way is kept, not used.
    ///
    /// - Returns: The waiters, to be refused with the problem.
    package mutating func lock() -> (waiters: [Waiter], problem: GatewayProblem) {
        withdrawals += 1
        isLocked = true
        return (takeWaiters(), lockedProblem)
    }

    package mutating func unlock() { isLocked = false }

    package func state(at now: MonotonicTime) -> TokenStatus.State {
        if isLocked { return .locked }
        if isRotationUncertain { return .rotationUncertain }
        let held = held
        let isLive = held?.isLive(at: now) ?? false
        switch phase.kind {
        case .empty: return .empty
        case .calling: return isLive ? .renewing : dead(held) ?? .acquiring
        case .ready: return isLive ? .valid : dead(held) ?? .empty
        case .backingOff: return isLive ? .valid : dead(held) ?? .empty
        case .stopped(let failure):
            if !rules.isRenewable, !isLive, let dead = dead(held) { return dead }
            switch failure.class {
            case .loginRequired: return .loginRequired
            case .terminal, .transient: return .failed
            }
        }
    }

    private func dead(_ held: HeldToken?) -> TokenStatus.State? { held.map { $0.isRejected ? .rejected : .expired } }

    /// Why there is no new token at the moment; nil when nothing is wrong.
    package var lastFailure: TokenFailure? {
        switch phase.kind {
        case .backingOff(let pause): pause.failure
        case .stopped(let failure): failure
        case .empty, .calling, .ready: nil
        }
    }
}
