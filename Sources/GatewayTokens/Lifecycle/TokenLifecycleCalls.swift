import GatewayEvents
package import GatewayHTTP

/// Calls: when one begins, and what its end changes.
extension TokenLifecycle where Waiter: Sendable {
    package enum Step: Sendable {
        /// Make this call and report its end.
        case call(TokenCall)
        /// There have been too many calls; these waiters were refused with the problem, and the longest pause begins.
        case storm([Waiter], GatewayProblem, TokenCall)
        /// A token that cannot be renewed ends soon.
        case expiringSoon(HeldToken)
        /// A token has ended, and there is no newer one.
        case expired(HeldToken)
        /// Nothing to do before this time; nil: before the next event.
        case sleep(until: MonotonicTime?)
    }

    /// How long before its end a token that cannot be renewed is announced.
    package static var foresight: Duration { Expiration.Kind.token.notice }

    /// What is to be done now. The shell asks after every event and whenever the time that it was told has come.
    package mutating func next(at now: MonotonicTime) -> Step {
        defer { checkInvariants() }
        if let announcement = announcement(at: now) { return announcement }
        guard !isLocked else { return .sleep(until: nil) }
        if rules.isRenewable { phase.renewWhenDue(with: newCall(.aheadOfExpiry), at: now) }
        phase.retryWhenDue(with: newCall(.retry), isRenewable: rules.isRenewable, at: now)
        switch phase.kind {
        case .empty: return .sleep(until: nil)
        case .calling(let call): return call.hasBegun ? .sleep(until: nil) : beginWhenDue(call, at: now)
        case .ready: return .sleep(until: held.flatMap { wake(for: $0, at: now) })
        case .stopped(let stop):
            return .sleep(until: [stop.retryAt, held.flatMap { wake(for: $0, at: now) }].compactMap(\.self).min())
        case .backingOff(let pause): return .sleep(until: wake(after: pause, at: now))
        }
    }

    private func wake(after pause: TokenPhase.Pause, at now: MonotonicTime) -> MonotonicTime? {
        let live = held.flatMap { $0.isLive(at: now) ? $0 : nil }
        guard rules.isRenewable else { return live.flatMap { wake(for: $0, at: now) } }
        guard live != nil || pause.isRetryFixed else { return nil }
        return min(pause.until, live?.credential.expiresAt ?? pause.until)
    }

    private mutating func beginWhenDue(_ call: TokenCall, at now: MonotonicTime) -> Step {
        guard let until = call.isPostponedUntil, until > now else { return begin(call, at: now) }
        return .sleep(until: [until, held.flatMap { wake(for: $0, at: now) }].compactMap(\.self).min())
    }

    private mutating func begin(_ call: TokenCall, at now: MonotonicTime) -> Step {
        let isFree = call.isFirstLook || call.trigger == .operator || call.isPostponedUntil != nil
        guard isFree || budget.spend(at: now) else {
            let failure = stormFailure
            return .storm(slowDown(call, by: failure, at: now), failure.problem, call)
        }
        var call = call
        call.hasBegun = true
        call.cause = held?.isLive(at: now) == true ? .aheadOfNeed : .need
        phase = .calling(held, call)
        return .call(call)
    }

    /// Does without the call that was due, for the longest pause: there have been too many.
    ///
    /// - Returns: The waiters, to be refused.
    package mutating func slowDown(_ call: TokenCall, by failure: TokenFailure, at now: MonotonicTime) -> [Waiter] {
        defer { checkInvariants() }
        guard isAwaited(call) else { return [] }
        remember(failure, at: now)
        phase = .backingOff(held, TokenPhase.Pause(until: now + BackOff.longest, failure: failure))
        return takeWaiters()
    }

    private mutating func announcement(at now: MonotonicTime) -> Step? {
        guard let held, let end = held.credential.expiresAt, !held.hasExpired else { return nil }
        if now >= end {
            phase.changeHeld { $0.hasExpired = true }
            // The grant itself says what a person has to do now.
            if !rules.isRenewable || held.lacksRefreshToken, case .ready = phase.kind { _ = wantCall(.aheadOfExpiry) }
            return .expired(held)
        }
        guard !rules.isRenewable, !held.hasWarned, !held.isRejected, now >= end - Self.foresight else { return nil }
        phase.changeHeld { $0.hasWarned = true }
        return .expiringSoon(held)
    }

    private func wake(for held: HeldToken, at now: MonotonicTime) -> MonotonicTime? {
        guard let end = held.credential.expiresAt, now < end else { return nil }
        let warning = rules.isRenewable || held.hasWarned ? nil : end - Self.foresight
        return [held.renewAt, warning, end].compactMap { $0 }.filter { $0 > now }.min()
    }

    private var stormFailure: TokenFailure {
        TokenFailure(
            tooManyCalls: "The credential \(rules.name) caused more than \(rules.callsPerHour) token requests within an"
                + " hour and is slowed down to one a minute. Does the upstream reject tokens that the authority just issued?"
        )
    }
}

/// A token as it comes from an authority, a store or an operator.
package struct FreshToken: Sendable {
    package var generation: Int
    package var token: TokenSet
    package let injection: Injection
    package var isRejected: Bool
    /// Its renewal was cut off half-way and is to be taken up at once.
    package var isRenewalDue = false
    /// Another gateway had obtained it.
    package var isAdopted = false
    /// The login brought no refresh token: it ends with this token, and a person gets the next one.
    package var lacksRefreshToken = false

    package init(generation: Int, token: TokenSet, injection: Injection, isRejected: Bool = false) {
        self.generation = generation
        self.token = token
        self.injection = injection
        self.isRejected = isRejected
    }
}

extension TokenLifecycle where Waiter: Sendable {
    package enum OnToken: Sendable {
        /// Hand it to these.
        case use(Credential, [Waiter])
        /// It is not live. Either no request waits, or a further call is due for those that do.
        case dead
        /// The call is not the one that was awaited.
        case ignored
    }

    /// - Parameter jitter: 0...1; spreads the renewals of many credentials.
    package mutating func obtained(_ fresh: FreshToken, by call: TokenCall, at now: Moment, jitter: Double) -> OnToken {
        defer { checkInvariants() }
        guard isAwaited(call) else { return .ignored }
        return install(fresh, at: now, jitter: jitter)
    }

    /// The first look into the store and the configuration yielded no token.
    package mutating func foundNothing(by call: TokenCall) {
        defer { checkInvariants() }
        guard isAwaited(call) else { return }
        phase = .empty
        if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
    }

    /// Another gateway is renewing the token. Requests use a live one, or go on waiting.
    ///
    /// - Parameter until: When to make the call again, unless the other gateway's token has come by then.
    package mutating func postpone(_ call: TokenCall, until: MonotonicTime) {
        defer { checkInvariants() }
        guard isAwaited(call) else { return }
        var call = call
        call.hasBegun = false
        call.isPostponedUntil = until
        phase = .calling(held, call)
    }

    /// What a failed call has changed.
    package struct Failed: Sendable {
        /// To be refused with the problem.
        package let waiters: [Waiter]
        package let problem: GatewayProblem
        /// From now on a person is asked to log in, although the gateway goes on to try.
        package var isEscalated = false
    }

    /// - Returns: nil when the call is not the one that was awaited.
    package mutating func failed(
        _ failure: TokenFailure,
        by call: TokenCall,
        at now: MonotonicTime,
        jitter: Double
    ) -> Failed? {
        defer { checkInvariants() }
        guard isAwaited(call) else { return nil }
        failures += 1
        remember(failure, at: now)
        let after = afterFailure(of: call, keeping: failure.clearsToken ? nil : held, at: now)
        switch failure.class {
        case .transient:
            let pause = pause(after: failure, after, at: now, jitter: jitter)
            phase = .backingOff(after.kept, pause)
            return Failed(waiters: waitersToRefuse(at: now), problem: pause.problem(at: now))
        case .suspect:
            suspectAnswers += 1
            return doubt(failure, after, at: now, jitter: jitter)
        case .terminal, .loginLikely, .loginRequired:
            if failure.isRetried { configurationFailures += 1 }
            let pause = RetrySchedule.afterConfigurationFailures(configurationFailures)
            stop(with: failure, after, until: failure.isRetried ? now + pause : nil)
            let isNews = failure.class == .loginLikely && configurationFailures == 1
            return Failed(waiters: waitersToRefuse(at: now), problem: failure.problem, isEscalated: isNews)
        }
    }

    /// What a failed call leaves: a token, and the time until which nobody needs the next one.
    struct AfterFailure {
        let kept: HeldToken?
        var cause: TokenPhase.Cause = .need
        /// The end of a live token: no pause outlasts it, because some authorities refuse to renew a token long before its end.
        var latest: MonotonicTime?

        func shortened(_ until: MonotonicTime) -> MonotonicTime { latest.map { min($0, until) } ?? until }
    }

    func afterFailure(of call: TokenCall, keeping kept: HeldToken?, at now: MonotonicTime) -> AfterFailure {
        guard rules.isRenewable, let kept else { return AfterFailure(kept: kept) }
        let isLive = kept.isLive(at: now)
        guard isLive || call.cause == .aheadOfNeed else { return AfterFailure(kept: kept) }
        return AfterFailure(
            kept: kept,
            cause: call.demand == nil ? .aheadOfNeed : .need,
            // A token that ended or was rejected during the call is needed now.
            latest: isLive ? kept.credential.expiresAt : now
        )
    }

    /// All who wait; none when the next call is due at once.
    private mutating func waitersToRefuse(at now: MonotonicTime) -> [Waiter] {
        guard !waiters.isEmpty, !isStopped, let next = phase.retryAt, next <= now else { return takeWaiters() }
        _ = wantCall(.demand, for: firstDemand)
        return []
    }

    /// The authority has refused the refresh token to another gateway, or to an earlier run. A call that nobody has commanded is
    /// not made. A live token is used on, as after a call of its own.
    ///
    /// - Returns: nil when a login is asked for already, or when a call finds out more.
    package mutating func stop(forRefusal failure: TokenFailure, at now: MonotonicTime) -> Failed? {
        defer { checkInvariants() }
        guard !isSuspended else { return nil }
        switch phase.kind {
        case .calling(let call) where call.hasBegun || call.isCommanded: return nil
        case .stopped(let stop) where stop.failure.class.asksForLogin: return nil
        case .empty, .calling, .ready, .backingOff, .stopped: break
        }
        failures += 1
        remember(failure, at: now)
        stop(with: failure, AfterFailure(kept: held), until: nil)
        return Failed(waiters: takeWaiters(), problem: failure.problem)
    }

    /// The refresh token is tried twice more, and then hourly while a person is asked to log in.
    private mutating func doubt(
        _ failure: TokenFailure,
        _ after: AfterFailure,
        at now: MonotonicTime,
        jitter: Double
    ) -> Failed {
        let pause = pause(after: failure, after, at: now, jitter: jitter)
        guard suspectAnswers >= RetrySchedule.suspectAnswersForDoubt else {
            phase = .backingOff(after.kept, pause)
            return Failed(waiters: waitersToRefuse(at: now), problem: pause.problem(at: now))
        }
        let escalated = failure.escalated(command: rules.loginCommand)
        stop(with: escalated, after, until: pause.until)
        remember(escalated, at: now)
        let isNews = suspectAnswers == RetrySchedule.suspectAnswersForDoubt
        return Failed(waiters: waitersToRefuse(at: now), problem: escalated.problem, isEscalated: isNews)
    }

    private mutating func stop(with failure: TokenFailure, _ after: AfterFailure, until retryAt: MonotonicTime?) {
        let retryAt = retryAt.map(after.shortened)
        let stop = TokenPhase.Stop(failure: failure, retryAt: retryAt, cause: after.cause)
        phase = .stopped(after.kept, stop)
    }

    /// How long to wait after the failures so far: to the end of a token that is served at most.
    func pause(
        after failure: TokenFailure,
        _ after: AfterFailure,
        at now: MonotonicTime,
        jitter: Double
    ) -> TokenPhase.Pause {
        var pause = pause(after: failure, at: now, jitter: jitter)
        pause.until = after.shortened(pause.until)
        pause.isRetryFixed = pause.isRetryFixed || pause.until == after.latest
        pause.cause = after.cause
        return pause
    }

    private func pause(after failure: TokenFailure, at now: MonotonicTime, jitter: Double) -> TokenPhase.Pause {
        switch failure.class {
        case .suspect:
            let delay = RetrySchedule.afterSuspectAnswers(suspectAnswers, canAcquireAnew: rules.canAcquireAnew)
            return TokenPhase.Pause(until: now + delay, failure: failure, isRetryFixed: true)
        case .transient(let retryAfter):
            let delay = BackOff.delay(afterFailures: failures, retryAfter: retryAfter, jitter: jitter)
            return TokenPhase.Pause(until: now + delay, failure: failure)
        case .terminal, .loginLikely, .loginRequired:
            return TokenPhase.Pause(until: now + BackOff.longest, failure: failure)
        }
    }

    func isAwaited(_ call: TokenCall) -> Bool {
        guard case .calling(let awaited) = phase.kind else { return false }
        return awaited.id == call.id
    }

    mutating func install(_ fresh: FreshToken, at now: Moment, jitter: Double) -> OnToken {
        let held = hold(fresh, at: now, jitter: jitter)
        if fresh.isRenewalDue { _ = wantCall(rules.begunBy) }
        guard held.isLive(at: now.monotonic) else {
            if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
            return .dead
        }
        return .use(held.credential, takeWaiters())
    }

    /// Takes a token in place of any other. Requests that wait keep waiting.
    @discardableResult
    mutating func hold(_ fresh: FreshToken, at now: Moment, jitter: Double) -> HeldToken {
        let held = heldToken(fresh, at: now, jitter: jitter)
        reserve(generation: fresh.generation)
        forgetFailures()
        isRotationUncertain = false
        budget.expect(fresh.token, renewedBy: rules.policy)
        phase = .ready(held)
        return held
    }

    /// Reserves this generation. No other token gets it.
    mutating func reserve(generation: Int) { self.generation = max(self.generation, generation) }

    private func heldToken(_ fresh: FreshToken, at now: Moment, jitter: Double) -> HeldToken {
        var expiresAt: MonotonicTime?
        var renewAt: MonotonicTime?
        if let lifetime = fresh.token.lifetime, let end = fresh.token.expiresAt {
            // A wall clock that was set back since the token was stored must not prolong its life.
            let left = min(end - now.wall, lifetime)
            expiresAt = now.monotonic + left
            if rules.isRenewable, rules.renewsAhead, !fresh.lacksRefreshToken {
                let ahead = rules.policy.ahead(of: max(lifetime, .zero))
                // Counted from now: an end centuries away is held where the clock ends, and says nothing about a time
                // before it.
                renewAt = now.monotonic + (left - ahead - ahead / 10 * min(max(jitter, 0), 1))
            }
        }
        let credential = Credential(
            name: rules.name,
            generation: fresh.generation,
            injection: fresh.injection,
            expiresAt: expiresAt
        )
        return HeldToken(
            credential: credential,
            token: fresh.token,
            renewAt: renewAt,
            lacksRefreshToken: fresh.lacksRefreshToken,
            isRejected: fresh.isRejected
        )
    }
}
