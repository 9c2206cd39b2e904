package import GatewayEvents
package import GatewayHTTP

/// Decides when a token is used, renewed, requested or given up. It performs nothing and reads no clock.
///
///     calling ──nothing found──▶ empty ──need──▶ calling            (calling: `acquiring` without a live token,
///     (startup, reload)                            │                           `renewing` with one)
///        ┌──────────obtained───────────────────────┤
///        ▼                                         │
///      ready ──due, rejected, expired + need──▶ calling
///                                                  │ failed
///                      ┌── transient ──────────────┴── terminal, login required ──┐
///                      ▼                                                          ▼
///                 backingOff ──pause over──▶ calling          stopped ──refresh, import, retry due──▶ calling
///
/// A suspect answer leads to `backingOff` twice, then to `stopped`.
///
/// Whether a token is live, that is valid and not rejected, depends on the time as well as on the phase. Each phase except `empty` may
/// hold a live or a dead token. A live token is handed out in any phase. A lock overrides every phase.
///
/// The caller gets its `Waiter` back when its wait is over. Tests use integers.
package struct TokenLifecycle<Waiter>: ~Copyable {
    /// The settings that decisions depend on. They never change.
    package struct Rules: Sendable {
        package var name: String
        /// Whether the gateway gets the next token without a person.
        package var isRenewable: Bool
        /// See ``TokenGrant/renewsAhead``.
        package var renewsAhead: Bool
        /// See ``TokenGrant/canAcquireAnew``.
        package var canAcquireAnew: Bool
        /// The command to log in; nil if there is no login.
        var loginCommand: String?
        package var policy: RenewalPolicy
        package var maximumWaiters: Int
        /// More calls than this within an hour are a storm, unless the tokens are so short-lived that more are needed.
        var callsPerHour: Int
        /// The trigger of the first call: the start of the gateway, a reload that added the credential, or a request that named its
        /// subject.
        package var begunBy: TokenEvent.Trigger

        package init(
            name: String,
            isRenewable: Bool,
            renewsAhead: Bool = true,
            canAcquireAnew: Bool = false,
            loginCommand: String? = nil,
            policy: RenewalPolicy = RenewalPolicy(),
            maximumWaiters: Int = 10_000,
            callsPerHour: Int = CallBudget.usual,
            begunBy: TokenEvent.Trigger = .startup
        ) {
            self.name = name
            self.isRenewable = isRenewable
            self.renewsAhead = renewsAhead
            self.canAcquireAnew = canAcquireAnew
            self.loginCommand = loginCommand
            self.policy = policy
            self.maximumWaiters = maximumWaiters
            self.callsPerHour = callsPerHour
            self.begunBy = begunBy
        }
    }

    private let rules: Rules
    private var phase: TokenPhase
    private var waiters: [CredentialTicket: Waiter] = [:]
    /// The request that has waited longest. A call that begins later names it as its cause.
    private var firstDemand: CredentialRequest?
    package private(set) var isLocked = false
    /// How often a token was withdrawn, that is locked, revoked or cleared, but not replaced.
    package private(set) var withdrawals = 0
    /// The token is being revoked or cleared. Requests wait until that ends.
    private var isSuspended = false
    private var isStopped = false
    private var budget: CallBudget
    /// Failed calls since the last token.
    private var failures = 0
    /// Suspect answers, and failures of the configuration, since the last token.
    private var suspectAnswers = 0
    private var configurationFailures = 0
    /// The failure since the last token. It stays while further calls are made.
    private var unresolved: UnresolvedFailure?
    private var lastCall = TokenCall.firstLook
    /// The highest generation so far. The number of a cleared token is not used again.
    package private(set) var generation = 0
    /// A refresh token may be spent, because the answer was lost. The status shows this until a token is obtained.
    package private(set) var isRotationUncertain = false

    /// Begins with a call that is a look: the shell reads the store and reports what it has found.
    package init(_ rules: Rules) {
        self.rules = rules
        budget = CallBudget(perHour: rules.callsPerHour)
        phase = .calling(nil, TokenCall(id: TokenCall.firstLook, trigger: rules.begunBy, demand: nil))
    }

    private mutating func newCall(_ trigger: TokenEvent.Trigger, for demand: CredentialRequest? = nil) -> TokenCall {
        lastCall += 1
        return TokenCall(id: lastCall, trigger: trigger, demand: demand, mayAcquireAnew: mayAcquireAnew)
    }

    /// Whether the next call may obtain a token without the refresh token, because refreshing has failed too often.
    private var mayAcquireAnew: Bool {
        suspectAnswers + 1 >= RetrySchedule.suspectAnswersForDoubt || configurationFailures > 0
    }

    private mutating func forgetFailures() {
        (failures, suspectAnswers, configurationFailures) = (0, 0, 0)
        unresolved = nil
    }

    private mutating func takeWaiters() -> [Waiter] {
        defer {
            waiters = [:]
            firstDemand = nil
        }
        return Array(waiters.values)
    }

    // MARK: Invariants

    /// Holds after each event.
    private func checkInvariants() {
        assert(
            phase.held.map { $0.generation <= generation } ?? true,
            "The held token is newer than the last generation issued."
        )
        assert(waiters.count <= rules.maximumWaiters, "Too many requests wait.")
        assert(waiters.isEmpty || !isLocked, "A request waits for a token that is locked.")
        assert(waiters.isEmpty || !isStopped, "A request waits, and no call will be made any more.")
        assert(waiters.isEmpty || isSuspended || callID != nil, "A request waits, and no call will bring it an answer.")
        assert(suspectAnswers + configurationFailures <= failures, "A failure is not among all failures.")
        assert(callID.map { (TokenCall.firstLook...lastCall).contains($0) } ?? true, "A call has an unknown number.")
    }

    /// The number of the call that is due or in progress.
    private var callID: Int? {
        if case .calling(let call) = phase.kind { call.id } else { nil }
    }
}

/// Requests: which credential they get, how they wait, and which rejections they report.
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
        /// The rejection is already known.
        case known
        /// The token is dead from now on.
        ///
        /// - Parameter calls: Whether a call has become due.
        case dead(calls: Bool)
    }

    /// The credential to inject, for readers that keep a copy: the live token, unless it must not be used.
    var servable: Credential? {
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
        // The next attempt, which the pause names, will not be made any more.
        case .backingOff where isStopped: return .unavailable(Self.drainingProblem)
        case .backingOff(let pause): return now < pause.until ? .unavailable(pause.problem(at: now)) : .wait
        case .stopped(let stop):
            let isDue = !isStopped && stop.retryAt.map { $0 <= now } ?? false
            return isDue ? .wait : .unavailable(stop.failure.problem)
        }
    }

    /// Answers again, because a token may have arrived since ``answer(at:)``. Keeps the waiter if it has to wait.
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

    /// Asks for the next token even if this generation is live, for a caller that cannot use a token that expires soon.
    mutating func needSuccessor(
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
            return .refuse(
                GatewayProblem(.overloaded, "Too many requests are waiting for the credential \(rules.name).")
            )
        }
        if waiters.isEmpty { firstDemand = demand }
        waiters[ticket] = waiter
        guard !isSuspended else { return .wait }
        return wantCall(.demand, for: demand) ? .waitAndCall : .wait
    }

    /// - Returns: The waiter, unless its wait is already over. The call goes on for the others.
    package mutating func withdraw(_ ticket: CredentialTicket) -> Waiter? {
        defer { checkInvariants() }
        return waiters.removeValue(forKey: ticket)
    }

    /// The upstream has rejected this generation. A thousand such reports count as one rejection.
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

    /// No more calls are made. A live token is still handed out.
    ///
    /// - Returns: The waiters, to be refused with the problem.
    package mutating func stop() -> (waiters: [Waiter], problem: GatewayProblem) {
        defer { checkInvariants() }
        isStopped = true
        return (takeWaiters(), Self.drainingProblem)
    }

    package var waiterCount: Int { waiters.count }

    /// Whether no call is due or in progress, and no request waits. A locked token begins no call.
    package var isIdle: Bool {
        if case .calling(let call) = phase.kind, call.hasBegun || !isLocked { return false }
        return waiters.isEmpty && !isSuspended
    }

    /// With `on_authority_failure: fail`, a token is not used while the authorization server refuses to renew it.
    private var isHeldBack: Bool {
        rules.policy.onAuthorityFailure == .fail && failures > 0
    }

    private static var drainingProblem: GatewayProblem { GatewayProblem(.draining, "The gateway is shutting down.") }

    /// Sets whether the status says that a refresh token may be spent, because the answer was lost.
    package mutating func show(isRotationUncertain: Bool) { self.isRotationUncertain = isRotationUncertain }

    package var lockedProblem: GatewayProblem { .locked(rules.name) }

    package var held: HeldToken? { phase.held }

    /// Whether the token is valid long enough for somebody who gets it.
    private func isUseful(at now: MonotonicTime) -> Bool {
        held.map { held in held.remainder(at: now).map { $0 >= held.usefulLife } ?? true } ?? false
    }

    /// - Returns: Whether a call became due; false if one already was.
    private mutating func wantCall(_ trigger: TokenEvent.Trigger, for demand: CredentialRequest? = nil) -> Bool {
        phase.want(newCall(trigger, for: demand))
    }
}

/// Calls: when one begins, and what its result changes.
extension TokenLifecycle where Waiter: Sendable {
    package enum Step: Sendable {
        /// Make this call and report its end.
        case call(TokenCall)
        /// There were too many calls. Refuse these waiters with the problem; the longest pause begins.
        case storm([Waiter], GatewayProblem, TokenCall)
        /// A token that cannot be renewed expires soon.
        case expiringSoon(HeldToken)
        /// A token has expired, and there is no newer one.
        case expired(HeldToken)
        /// There is nothing to do before this time; nil: before the next event.
        case sleep(until: MonotonicTime?)
    }

    /// How long before its expiry a token that cannot be renewed is reported.
    static var foresight: Duration { Expiration.Kind.token.notice }

    /// What to do now. The keeper asks after every event, and at the time that the last answer named.
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

    /// Drops the call that was due and begins the longest pause, because there were too many calls.
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
            // The grant says what a person has to do now.
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
                + " hour and is slowed down to one per minute. Does the upstream reject tokens that the authorization server has just issued?"
        )
    }

    package enum OnToken: Sendable {
        /// Give it to these waiters.
        case use(Credential, [Waiter])
        /// The token is not live. If requests wait, another call is due for them.
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

    /// The first look into the store and the configuration found no token.
    package mutating func foundNothing(by call: TokenCall) {
        defer { checkInvariants() }
        guard isAwaited(call) else { return }
        phase = .empty
        if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
    }

    /// Another gateway is renewing the token. Requests use a live token, or go on waiting.
    ///
    /// - Parameter until: When to repeat the call, unless the other gateway's token has arrived by then.
    mutating func postpone(_ call: TokenCall, until: MonotonicTime) {
        defer { checkInvariants() }
        guard isAwaited(call) else { return }
        var call = call
        call.hasBegun = false
        call.isPostponedUntil = until
        phase = .calling(held, call)
    }

    /// The consequences of a failed call.
    package struct Failed: Sendable {
        /// The waiters to refuse with the problem.
        package let waiters: [Waiter]
        package let problem: GatewayProblem
        /// From now on a person is asked to log in, although the gateway goes on trying.
        var isEscalated = false
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
            let isEscalated = failure.class == .loginLikely && configurationFailures == 1
            return Failed(waiters: waitersToRefuse(at: now), problem: failure.problem, isEscalated: isEscalated)
        }
    }

    /// The token that is still used after a failed call, and when the next one is needed.
    private struct AfterFailure {
        let kept: HeldToken?
        var cause: TokenPhase.Cause = .need
        /// The expiry of a live token. No pause is longer, because some servers refuse to renew a token long before it expires.
        var latest: MonotonicTime?

        func shortened(_ until: MonotonicTime) -> MonotonicTime { latest.map { min($0, until) } ?? until }
    }

    private func afterFailure(of call: TokenCall, keeping kept: HeldToken?, at now: MonotonicTime) -> AfterFailure {
        guard rules.isRenewable, let kept else { return AfterFailure(kept: kept) }
        let isLive = kept.isLive(at: now)
        guard isLive || call.cause == .aheadOfNeed else { return AfterFailure(kept: kept) }
        return AfterFailure(
            kept: kept,
            cause: call.demand == nil ? .aheadOfNeed : .need,
            // A token that expired or was rejected during the call is needed now.
            latest: isLive ? kept.credential.expiresAt : now
        )
    }

    /// All waiters; none if the next call is due at once.
    private mutating func waitersToRefuse(at now: MonotonicTime) -> [Waiter] {
        guard !waiters.isEmpty, !isStopped, let next = phase.retryAt, next <= now else { return takeWaiters() }
        _ = wantCall(.demand, for: firstDemand)
        return []
    }

    /// The server has refused the refresh token when another gateway or an earlier run sent it. Only an operator's command causes
    /// another call. A live token is still used, as after a failed call of this gateway.
    ///
    /// - Returns: nil if a login is already asked for, or if a call finds out more.
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

    /// The refresh token is sent twice more, and then hourly while a person is asked to log in.
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
        let isEscalated = suspectAnswers == RetrySchedule.suspectAnswersForDoubt
        return Failed(waiters: waitersToRefuse(at: now), problem: escalated.problem, isEscalated: isEscalated)
    }

    private mutating func stop(with failure: TokenFailure, _ after: AfterFailure, until retryAt: MonotonicTime?) {
        let retryAt = retryAt.map(after.shortened)
        let stop = TokenPhase.Stop(failure: failure, retryAt: retryAt, cause: after.cause)
        phase = .stopped(after.kept, stop)
    }

    /// How long to wait after the failures so far, at most until the token that is served expires.
    private func pause(
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

    private func isAwaited(_ call: TokenCall) -> Bool {
        guard case .calling(let awaited) = phase.kind else { return false }
        return awaited.id == call.id
    }

    private mutating func install(_ fresh: FreshToken, at now: Moment, jitter: Double) -> OnToken {
        let held = hold(fresh, at: now, jitter: jitter)
        if fresh.isRenewalDue { _ = wantCall(rules.begunBy) }
        guard held.isLive(at: now.monotonic) else {
            if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
            return .dead
        }
        return .use(held.credential, takeWaiters())
    }

    /// Takes a token instead of the current one. Waiting requests keep waiting.
    @discardableResult
    private mutating func hold(_ fresh: FreshToken, at now: Moment, jitter: Double) -> HeldToken {
        assert(
            self.held.map { $0.token == fresh.token || $0.generation <= fresh.generation } ?? true,
            "Another token gets a lower generation than the one before."
        )
        let held = heldToken(fresh, at: now, jitter: jitter)
        reserve(generation: fresh.generation)
        forgetFailures()
        isRotationUncertain = false
        budget.expect(fresh.token, renewedBy: rules.policy)
        phase = .ready(held)
        return held
    }

    /// Reserves this generation. No other token gets it.
    private mutating func reserve(generation: Int) { self.generation = max(self.generation, generation) }

    private func heldToken(_ fresh: FreshToken, at now: Moment, jitter: Double) -> HeldToken {
        var expiresAt: MonotonicTime?
        var renewAt: MonotonicTime?
        if let lifetime = fresh.token.lifetime, let end = fresh.token.expiresAt {
            // If the wall clock was set back since the token was stored, the token must not live longer.
            let left = min(end - now.wall, lifetime)
            expiresAt = now.monotonic + left
            if rules.isRenewable, rules.renewsAhead, !fresh.lacksRefreshToken {
                let ahead = rules.policy.ahead(of: max(lifetime, .zero))
                // Calculated from now: an expiry centuries away is cut to the end of the clock, so a time before it would be wrong.
                renewAt = now.monotonic + (left - ahead - ahead / 10 * min(max(jitter, 0), 1))
            }
        }
        let credential = Credential(
            name: rules.name,
            generation: fresh.generation,
            injection: fresh.injection,
            signer: fresh.signer,
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

/// What a credential lacks although a live token may still be served.
extension TokenLifecycle where Waiter: Sendable {
    /// A subject for which the server issues no token does not make the credential fail.
    private mutating func remember(_ failure: TokenFailure, at now: MonotonicTime) {
        guard failure.problem.kind != .routeForbidden else { return }
        unresolved = UnresolvedFailure(since: unresolved?.since ?? now, failure: failure)
    }

    /// When the first call failed since the last token.
    var unresolvedSince: MonotonicTime? { unresolved?.since }

    /// nil if the last call brought a token, and before the first call.
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
            // Without a live token, the next request causes a call.
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

/// The commands of operators, and the status.
extension TokenLifecycle where Waiter: Sendable {
    /// Asks for a new token now, whatever the age of the current one, the pause or an earlier refusal.
    ///
    /// - Returns: The call to make and report, already begun; nil while locked or during another call.
    package mutating func refresh() -> TokenCall? {
        defer { checkInvariants() }
        guard !isLocked else { return nil }
        if case .calling(let call) = phase.kind, call.hasBegun { return nil }
        var call = newCall(.operator)
        call.hasBegun = true
        phase = .calling(held, call)
        return call
    }

    /// A reload has not changed the credential. A call that failed because of the configuration is repeated, if it sends no secret.
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
    mutating func storeReturned() -> Bool {
        defer { checkInvariants() }
        guard case .backingOff(let pause) = phase.kind, pause.failure.problem.kind == .storeUnavailable else {
            return false
        }
        return wantCall(.retry)
    }

    /// Whether another gateway is renewing the token.
    var isPostponed: Bool {
        guard case .calling(let call) = phase.kind else { return false }
        return call.isPostponedUntil != nil && !call.hasBegun
    }

    /// Forgets the token and any refusal. The result of a current call is ignored. Waiting requests cause a new call.
    package mutating func clear() {
        defer { checkInvariants() }
        forget()
        isSuspended = false
        if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
    }

    /// Forgets the token before ``clear()`` is carried out. Requests wait until then: a call would use a refresh token that is about to be
    /// forgotten, and its result would be forgotten as well.
    mutating func beginClear() {
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

    /// Forgets the token, and waits until a person has fixed `failure`.
    ///
    /// - Returns: The waiters, to be refused with the problem.
    package mutating func clear(leaving failure: TokenFailure) -> [Waiter] {
        defer { checkInvariants() }
        clear()
        phase = .stopped(nil, TokenPhase.Stop(failure: failure, retryAt: nil))
        return takeWaiters()
    }

    /// Hands out no token until ``resume(at:)`` or ``clear()``. Requests wait.
    mutating func suspend() {
        defer { checkInvariants() }
        withdrawals += 1
        isSuspended = true
    }

    /// The waiters whose wait is over, and their answer.
    package struct EndedWaits: Sendable {
        package let waiters: [Waiter]
        package let result: Result<Credential, GatewayProblem>
    }

    /// - Returns: nil if a call has become due for those who wait.
    package mutating func resume(at now: MonotonicTime) -> EndedWaits? {
        defer { checkInvariants() }
        isSuspended = false
        return endWaits(at: now)
    }

    /// Answers the waiters if there is an answer. Otherwise, a call becomes due for them.
    private mutating func endWaits(at now: MonotonicTime) -> EndedWaits? {
        switch answer(at: now) {
        case .ready(let credential): return EndedWaits(waiters: takeWaiters(), result: .success(credential))
        case .unavailable(let problem): return EndedWaits(waiters: takeWaiters(), result: .failure(problem))
        case .wait:
            if !waiters.isEmpty { _ = wantCall(.demand, for: firstDemand) }
            return nil
        }
    }

    /// Takes a token from an operator instead of the current one. The result of a current call is ignored.
    package mutating func `import`(_ fresh: FreshToken, at now: Moment, jitter: Double) -> OnToken {
        defer { checkInvariants() }
        return install(fresh, at: now, jitter: jitter)
    }

    /// Hands out no token, and makes no further call. If a call is about to bring a token, it is kept but not used.
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

/// An imported refresh token may be invalid, so it is refreshed before it is used. The earlier token serves until the server has
/// answered.
extension TokenLifecycle where Waiter: Sendable {
    /// The consequences if the call for an import failed.
    enum OnImportFailure: Sendable {
        /// The imported token has replaced the earlier one. It is refreshed after a pause.
        case postponed(EndedWaits?)
        /// The earlier token stays. If there is none, the credential has no token.
        case refused(EndedWaits?)
        /// The call is not the one that was awaited.
        case ignored
    }

    /// Begins the refresh of an imported token; it ends with ``obtained(_:by:at:jitter:)`` or
    /// ``importFailed(_:of:replacing:by:at:jitter:)``.
    ///
    /// - Parameter generation: The generation of the imported token.
    /// - Returns: The call to make, already begun; nil while locked or during another call.
    mutating func beginImport(generation: Int) -> TokenCall? {
        defer { checkInvariants() }
        guard let call = refresh() else { return nil }
        reserve(generation: generation)
        return call
    }

    /// A transient or a suspect failure says nothing about the imported token. It is then used if there is no usable earlier token.
    /// Otherwise it is refused: a working token is not replaced with an untested one.
    ///
    /// - Parameter earlier: The token before the import; nil if there was none or it was revoked.
    mutating func importFailed(
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
            // It was in the store or in the configuration, but no request had needed it.
            hold(earlier, at: now, jitter: jitter)
            return
        }
        // Keep what is known about it: an upstream may have rejected it during the call.
        phase = .ready(held)
    }
}

/// A token as it comes from an authorization server, a store or an operator.
package struct FreshToken: Sendable {
    package var generation: Int
    package var token: TokenSet
    package let injection: Injection
    /// See ``TokenGrant/signer(with:)``.
    let signer: Signer?
    package var isRejected: Bool
    /// Its renewal was interrupted and is to be resumed at once.
    var isRenewalDue = false
    /// Another gateway has obtained it.
    var isAdopted = false
    /// The login brought no refresh token, so a person must log in again when this token expires.
    package var lacksRefreshToken = false

    package init(
        generation: Int,
        token: TokenSet,
        injection: Injection,
        signer: Signer? = nil,
        isRejected: Bool = false
    ) {
        self.generation = generation
        self.token = token
        self.injection = injection
        self.signer = signer
        self.isRejected = isRejected
    }

    /// Whether it has not expired, and no upstream has rejected it.
    fileprivate func serves(at now: UnixTime) -> Bool { !isRejected && token.expiresAt.map { now < $0 } ?? true }
}

/// A failure since which no token was obtained.
package struct UnresolvedFailure: Sendable {
    /// When the first call failed.
    package let since: MonotonicTime
    /// Why the last call failed.
    package fileprivate(set) var failure: TokenFailure
    /// When the gateway tries again without a request; nil: at the next request, or never.
    package fileprivate(set) var nextTryAt: MonotonicTime?
    /// Whether the next request causes a call.
    fileprivate(set) var isTriedOnDemand = false
    /// Until this time, requests cause no call, either.
    package fileprivate(set) var notBefore: MonotonicTime?
}

/// The phases of a ``TokenLifecycle``. The picture is there.
private enum TokenPhase: ~Copyable {
    /// There is no token, and no request has needed one.
    case empty
    /// A call is due, or in progress once ``TokenCall/hasBegun`` is set.
    case calling(HeldToken?, TokenCall)
    case ready(HeldToken)
    /// The last call failed. The next one may be made when the pause is over.
    case backingOff(HeldToken?, Pause)
    /// A person has to do something. Until then, there are few calls or none.
    case stopped(HeldToken?, Stop)

    /// Why a call was made.
    enum Cause {
        /// The call was made ahead of time, while a live token was served. After a failure, a request that needs a token ends the pause.
        case aheadOfNeed
        case need
    }

    struct Stop {
        let failure: TokenFailure
        /// When another call is made anyway; nil: never.
        let retryAt: MonotonicTime?
        /// Why the call that has failed was made.
        var cause = Cause.need
    }

    struct Pause {
        var until: MonotonicTime
        let failure: TokenFailure
        /// The next call is made when the pause is over, even if no request waits and there is no live token.
        var isRetryFixed = false
        /// Why the call that has failed was made.
        var cause = Cause.need

        func problem(at now: MonotonicTime) -> GatewayProblem {
            var problem = failure.problem
            problem.retryAfter = max(until - now, .seconds(1))
            return problem
        }
    }

    /// A phase without the token, to be looked at.
    enum Kind {
        case empty
        case calling(TokenCall)
        case ready
        case backingOff(Pause)
        case stopped(Stop)
    }

    var kind: Kind {
        switch self {
        case .empty: .empty
        case .calling(_, let call): .calling(call)
        case .ready: .ready
        case .backingOff(_, let pause): .backingOff(pause)
        case .stopped(_, let stop): .stopped(stop)
        }
    }

    var held: HeldToken? {
        switch self {
        case .empty: nil
        case .calling(let held, _): held
        case .ready(let held): held
        case .backingOff(let held, _): held
        case .stopped(let held, _): held
        }
    }

    /// When the next call is made even if no request waits; nil: it is made only for a request, or never.
    var retryAt: MonotonicTime? {
        switch kind {
        case .stopped(let stop): stop.retryAt
        case .backingOff(let pause): pause.isRetryFixed ? pause.until : nil
        case .empty, .calling, .ready: nil
        }
    }

    /// Whether a request that needs a token causes the next call at once, although the last one failed.
    var isCutShortByNeed: Bool {
        switch kind {
        case .stopped(let stop): stop.cause == .aheadOfNeed && stop.retryAt != nil
        case .backingOff(let pause): pause.cause == .aheadOfNeed
        case .empty, .calling, .ready: false
        }
    }

    /// - Returns: Whether `call` became due; false if another one is already due or in progress.
    mutating func want(_ call: TokenCall) -> Bool {
        switch consume self {
        case .calling(let held, let earlier):
            self = .calling(held, earlier)
            return false
        case .empty:
            self = .calling(nil, call)
            return true
        case .ready(let held):
            self = .calling(held, call)
            return true
        case .backingOff(let held, _):
            self = .calling(held, call)
            return true
        case .stopped(let held, _):
            self = .calling(held, call)
            return true
        }
    }

    /// Whether a renewal is due: ahead of expiry (or after it, if the machine was asleep), or when a pause is over and a live token is
    /// still served.
    ///
    /// After a failure without a live token, only the next request causes a call, so that an idle gateway does not call a broken server
    /// forever.
    mutating func renewWhenDue(with call: TokenCall, at now: MonotonicTime) {
        switch consume self {
        case .empty:
            self = .empty
        case .calling(let held, let earlier):
            self = .calling(held, earlier)
        case .ready(let held):
            guard let renewAt = held.renewAt, renewAt <= now else {
                self = .ready(held)
                return
            }
            self = .calling(held, call)
        case .backingOff(let held, let pause):
            guard let held, held.isLive(at: now), pause.until <= now, !pause.isRetryFixed else {
                self = .backingOff(held, pause)
                return
            }
            self = .calling(held, call)
        case .stopped(let held, let stop):
            self = .stopped(held, stop)
        }
    }

    /// A retry has its time that is made whether or not a request waits.
    mutating func retryWhenDue(with call: TokenCall, isRenewable: Bool, at now: MonotonicTime) {
        if case .backingOff = kind, !isRenewable { return }
        guard let retryAt, retryAt <= now else { return }
        _ = want(call)
    }

    mutating func changeHeld(_ change: (inout HeldToken) -> Void) {
        func changed(_ held: HeldToken?) -> HeldToken? {
            guard var held else { return nil }
            change(&held)
            return held
        }
        switch consume self {
        case .empty:
            self = .empty
        case .calling(let held, let call):
            self = .calling(changed(held), call)
        case .ready(let held):
            var held = held
            change(&held)
            self = .ready(held)
        case .backingOff(let held, let pause):
            self = .backingOff(changed(held), pause)
        case .stopped(let held, let stop):
            self = .stopped(changed(held), stop)
        }
    }
}

/// One call to the authorization server, or the first look into the store.
package struct TokenCall: Hashable, Sendable {
    static let firstLook = 1
    /// A call for a token that is handed out and not kept. No lifecycle waits for its result.
    static let outsideSchedule = TokenCall(id: 0, trigger: .operator, demand: nil)

    package let id: Int
    package let trigger: TokenEvent.Trigger
    /// The request that caused it, if one did.
    package let demand: CredentialRequest?
    package fileprivate(set) var hasBegun = false
    /// ``TokenPhase/Cause/aheadOfNeed`` if it began while a live token was served.
    fileprivate var cause = TokenPhase.Cause.need
    /// Set while another gateway renews: when to ask again whether it has finished. It remains the same call.
    fileprivate var isPostponedUntil: MonotonicTime?
    /// See ``GrantAttempt/mayAcquireAnew``.
    package let mayAcquireAnew: Bool

    init(id: Int, trigger: TokenEvent.Trigger, demand: CredentialRequest?, mayAcquireAnew: Bool = false) {
        self.id = id
        self.trigger = trigger
        self.demand = demand
        self.mayAcquireAnew = mayAcquireAnew
    }

    /// Whether it only looks into the store and the configuration. The next call asks the server.
    var isFirstLook: Bool { id == Self.firstLook }

    /// Whether an operator asked for it.
    var isCommanded: Bool { trigger == .operator }
}

/// A token, and what the machine knows about it.
package struct HeldToken: Sendable {
    /// The credential that readers get.
    package let credential: Credential
    package let token: TokenSet
    /// When background renewal begins; nil if it does not.
    let renewAt: MonotonicTime?
    /// See ``FreshToken/lacksRefreshToken``.
    package let lacksRefreshToken: Bool
    package fileprivate(set) var isRejected = false
    fileprivate var hasWarned = false
    fileprivate var hasExpired = false

    package var generation: Int { credential.generation }

    package func isLive(at now: MonotonicTime) -> Bool { !isRejected && credential.isUsable(at: now) }

    /// How long a token must remain valid to be handed to a client or a person: ten seconds, or a quarter of its life if that is less.
    var usefulLife: Duration { min(.seconds(10), (token.lifetime ?? .seconds(40)) / 4) }

    package func remainder(at now: MonotonicTime) -> Duration? { credential.expiresAt.map { $0 - now } }

    /// Whether it is not yet due for renewal.
    package func isFresh(at now: MonotonicTime) -> Bool {
        (renewAt.map { now < $0 } ?? true) && (remainder(at: now).map { $0 >= usefulLife } ?? true)
    }
}

/// When the gateway tries again without a request, although waiting may not help.
private enum RetrySchedule {
    /// The pause after answers that may not come from the authorization server.
    ///
    /// - Parameters:
    ///   - answers: How many in a row, including this one.
    ///   - canAcquireAnew: The last attempt also tries another way to a token, so there is little reason to wait long.
    static func afterSuspectAnswers(_ answers: Int, canAcquireAnew: Bool) -> Duration {
        let pauses: [Duration] =
            canAcquireAnew ? [.seconds(5), .seconds(25)] : [.seconds(120), .seconds(360)]
        return answers <= pauses.count ? pauses[max(answers, 1) - 1] : hourly
    }

    /// How many suspect answers in a row put the refresh token in doubt: the first, and those to two more attempts.
    static let suspectAnswersForDoubt = 3

    /// The pause after failures of the configuration: 5 minutes, 15 minutes, then hourly.
    ///
    /// - Parameter failures: How many in a row, including this one.
    static func afterConfigurationFailures(_ failures: Int) -> Duration {
        switch failures {
        case ...1: .seconds(300)
        case 2: .seconds(900)
        default: hourly
        }
    }

    static let hourly: Duration = .seconds(3600)
}
