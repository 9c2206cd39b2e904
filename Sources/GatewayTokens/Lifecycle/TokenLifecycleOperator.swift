import GatewayEvents
package import GatewayHTTP

/// What operators do, and what they are shown.
extension TokenLifecycle where Waiter: Sendable {
    /// Asks for a new token now, whatever the age of the present one, the pause or an earlier refusal.
    ///
    /// - Returns: The call to make and report, already begun; nil while locked, or while another call is under way.
    package mutating func refresh() -> TokenCall? {
        defer { checkInvariants() }
        guard !isLocked else { return nil }
        if case .calling(let call) = phase.kind, call.hasBegun { return nil }
        var call = newCall(.operator)
        call.hasBegun = true
        phase = .calling(held, call)
        return call
    }

    /// A reload has left the credential as it is. What the configuration caused is tried again, if that sends no secret.
    ///
    /// - Returns: Whether a call became due.
    package mutating func reloaded(sendsSecrets: Bool) -> Bool {
        defer { checkInvariants() }
        guard !sendsSecrets, case .stopped(let stop) = phase.kind, stop.failure.isRetried else { return false }
        return wantCall(.reload)
    }

    /// The token store works again.
    ///
    /// - Returns: Whether a call became due.
    package mutating func storeReturned() -> Bool {
        defer { checkInvariants() }
        guard case .backingOff(let pause) = phase.kind, pause.failure.problem.kind == .storeUnavailable else {
            return false
        }
        return wantCall(.retry)
    }

    /// Whether another gateway is renewing the token.
    package var isPostponed: Bool {
        guard case .calling(let call) = phase.kind else { return false }
        return call.isPostponedUntil != nil && !call.hasBegun
    }

    /// Forgets the token and any refusal. The answer of a call under way is ignored; requests that wait cause a new
    /// call.
    package mutating func clear() {
        defer { checkInvariants() }
        forget()
        isSuspended = false
        if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
    }

    /// Forgets the token before the turn of ``clear()``. Requests wait until then: a call that they cause would use what is
    /// about to be forgotten, and its token would be forgotten as well.
    package mutating func beginClear() {
        defer { checkInvariants() }
        forget()
        isSuspended = true
    }

    private mutating func forget() {
        withdrawals += 1
        forgetFailures()
        isRotationUncertain = false
        phase = .empty
    }

    /// Forgets the token, and waits for a person who cures `failure`.
    ///
    /// - Returns: The waiters, to be refused with the problem.
    package mutating func clear(leaving failure: TokenFailure) -> [Waiter] {
        defer { checkInvariants() }
        clear()
        phase = .stopped(nil, TokenPhase.Stop(failure: failure, retryAt: nil))
        return takeWaiters()
    }

    /// Hands out nothing until ``resume(at:)`` or ``clear()``. Requests wait.
    package mutating func suspend() {
        defer { checkInvariants() }
        withdrawals += 1
        isSuspended = true
    }

    /// Waits that are over, and with what.
    package struct EndedWaits: Sendable {
        package let waiters: [Waiter]
        package let result: Result<Credential, GatewayProblem>
    }

    /// - Returns: nil when a call has become due for those who wait.
    package mutating func resume(at now: MonotonicTime) -> EndedWaits? {
        defer { checkInvariants() }
        isSuspended = false
        return endWaits(at: now)
    }

    /// Answers those who wait, where there is an answer; otherwise a call becomes due for them.
    private mutating func endWaits(at now: MonotonicTime) -> EndedWaits? {
        switch answer(at: now) {
        case .ready(let credential): return EndedWaits(waiters: takeWaiters(), result: .success(credential))
        case .unavailable(let problem): return EndedWaits(waiters: takeWaiters(), result: .failure(problem))
        case .wait:
            if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
            return nil
        }
    }

    /// Takes a token from an operator, in the place of any other. A call under way is no longer awaited.
    package mutating func `import`(_ fresh: FreshToken, at now: Moment, jitter: Double) -> OnToken {
        defer { checkInvariants() }
        return install(fresh, at: now, jitter: jitter)
    }

    /// Stops handing out, and makes no further call. A token that is already on its way is kept, not used.
    ///
    /// - Returns: The waiters, to be refused with the problem.
    package mutating func lock() -> (waiters: [Waiter], problem: GatewayProblem) {
        defer { checkInvariants() }
        withdrawals += 1
        isLocked = true
        return (takeWaiters(), lockedProblem)
    }

    package mutating func unlock() {
        isLocked = false
        checkInvariants()
    }

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
        case .stopped(let stop):
            if !rules.isRenewable, !isLive, let dead = dead(held) { return dead }
            switch stop.failure.class {
            case .loginLikely, .loginRequired: return .loginRequired
            case .terminal, .transient, .suspect: return .failed
            }
        }
    }

    private func dead(_ held: HeldToken?) -> TokenStatus.State? { held.map { $0.isRejected ? .rejected : .expired } }

    /// Why there is no new token at the moment; nil when nothing is wrong.
    package var lastFailure: TokenFailure? {
        switch phase.kind {
        case .backingOff(let pause): pause.failure
        case .stopped(let stop): stop.failure
        case .empty, .calling, .ready: nil
        }
    }
}

// MARK: Import of a token that has to be refreshed first

/// An imported refresh token may be worth nothing, so it is refreshed before it is used. The earlier token serves until
/// the authority has answered.
extension TokenLifecycle where Waiter: Sendable {
    /// What became of an import whose call failed.
    package enum OnImportFailure: Sendable {
        /// The imported token has replaced the earlier one. It is refreshed after a pause.
        case postponed(EndedWaits?)
        /// The earlier token stays. Where there is none, the credential has no token.
        case refused(EndedWaits?)
        /// The call is not the one that was awaited.
        case ignored
    }

    /// Begins the refresh of an imported token; it ends with ``obtained(_:by:at:jitter:)`` or
    /// ``importFailed(_:of:replacing:by:at:jitter:)``.
    ///
    /// - Parameter generation: Of the imported token.
    /// - Returns: The call to make, already begun; nil while locked, or while another call is under way.
    package mutating func beginImport(generation: Int) -> TokenCall? {
        defer { checkInvariants() }
        guard let call = refresh() else { return nil }
        reserve(generation: generation)
        return call
    }

    /// A transient or a suspect failure says nothing about the imported token. It is then used if no earlier token can serve.
    /// Otherwise it is refused: a working token is not replaced by an untried one.
    ///
    /// - Parameter earlier: The token before the import; nil when there was none, or when it had been revoked.
    package mutating func importFailed(
        _ failure: TokenFailure,
        of imported: FreshToken,
        replacing earlier: FreshToken?,
        by call: TokenCall,
        at now: Moment,
        jitter: Double
    ) -> OnImportFailure {
        defer { checkInvariants() }
        guard isAwaited(call) else { return .ignored }
        if failure.mayPass, !(earlier?.serves(at: now.wall) ?? false) {
            hold(imported, at: now, jitter: jitter)
            failures += 1
            remember(failure, at: now.monotonic)
            if case .suspect = failure.class { suspectAnswers += 1 }
            let after = afterFailure(of: call, keeping: held, at: now.monotonic)
            phase = .backingOff(held, pause(after: failure, after, at: now.monotonic, jitter: jitter))
            return .postponed(endWaits(at: now.monotonic))
        }
        if let earlier { keep(earlier, at: now, jitter: jitter) } else { clear() }
        return .refused(endWaits(at: now.monotonic))
    }

    /// - Parameter earlier: The token before the import.
    private mutating func keep(_ earlier: FreshToken, at now: Moment, jitter: Double) {
        guard let held, held.generation == earlier.generation else {
            // It was in the store or in the configuration, and no request had needed it.
            hold(earlier, at: now, jitter: jitter)
            return
        }
        // With all that was found out about it: an upstream may have rejected it during the call.
        phase = .ready(held)
    }
}

extension FreshToken {
    /// No upstream has rejected it, and it has not ended.
    fileprivate func serves(at now: UnixTime) -> Bool { !isRejected && token.expiresAt.map { now < $0 } ?? true }
}
