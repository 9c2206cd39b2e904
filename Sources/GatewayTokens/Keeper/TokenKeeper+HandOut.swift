package import GatewayEvents
package import GatewayHTTP

/// Showing the token to an operator.
extension TokenKeeper {
    /// How long an operator waits if a token has to be obtained first.
    private static let revealDeadline: Duration = .seconds(20)

    /// The access token itself. If there is none, it is obtained first, as for a request.
    ///
    /// It is shown only once the event `revealed` is committed. With `audit.on_failure: degrade` it is shown in any case.
    package func reveal() async -> Result<RevealedToken, GatewayProblem> {
        if case .failure(let problem) = await credential() { return .failure(problem) }
        let held: HeldToken
        switch servedToken {
        case .failure(let problem): return .failure(problem)
        case .success(let token): held = token
        }
        var event = context.event(.revealed, generation: held.generation, trigger: .operator)
        event.expiresAt = held.token.expiresAt
        event.token = held.token.access
        guard await context.commit(event) == nil else {
            let detail = "The audit log cannot be written, so the token of \(name) is not shown."
            return .failure(GatewayProblem(.auditUnavailable, detail))
        }
        guard stillServes(held) else { return .failure(withdrawnProblem) }
        return .success(
            RevealedToken(
                credential: name,
                generation: held.generation,
                access: held.token.access,
                expiresAt: held.token.expiresAt
            )
        )
    }

    private func credential() async -> Result<Credential, GatewayProblem> {
        let demand = CredentialRequest(route: "token get", client: nil, requestID: "operator")
        return await credential(for: demand, within: Self.revealDeadline)
    }
}

/// The token that may be handed out, checked before the event is committed and again afterwards: once an operator was told that it
/// is locked or revoked, it must not leave the gateway.
extension TokenKeeper {
    private var servedToken: Result<HeldToken, GatewayProblem> {
        let now = context.clock.now().monotonic
        guard let held = servable, held.isLive(at: now) else {
            return .failure(withdrawnProblem)
        }
        return .success(held)
    }

    private func stillServes(_ held: HeldToken) -> Bool { servable?.generation == held.generation }

    private var withdrawnProblem: GatewayProblem {
        if let lockedProblem { return lockedProblem }
        let detail = "The token of \(name) expired while it was being handed out; try again."
        return GatewayProblem(.tokenTemporarilyUnavailable, detail, retryAfter: .seconds(1))
    }
}

/// A credential for a caller that waits for a limited time.
extension TokenKeeper {
    /// The current credential, or the one that arrives within `limit`.
    func credential(for demand: CredentialRequest, within limit: Duration) async -> Result<Credential, GatewayProblem> {
        switch current(at: context.clock.now().monotonic) {
        case .ready(let credential): .success(credential)
        case .unavailable(let problem): .failure(problem)
        case .wait: await answer(within: limit) { self.wait(for: demand, $0) }
        }
    }

    /// The machine's answer to a waiting caller; a failure if it does not come within `limit`.
    func answer(
        within limit: Duration,
        _ ask: (@escaping Done) -> CredentialTicket
    ) async -> Result<Credential, GatewayProblem> {
        let answer = Promise<Result<Credential, GatewayProblem>>()
        let ticket = ask { answer.keep($0) }
        return await withTaskGroup(of: Void.self) { group in
            group.addTask {
                do {
                    try await self.context.clock.sleep(for: limit)
                    self.cancel(ticket)
                } catch {
                    // Cancelled, because the answer came in time.
                }
            }
            let result = await answer.value()
            group.cancelAll()
            return result
        }
    }
}

/// Handing out the token to a client that uses it without the gateway.
extension TokenKeeper {
    /// An access token that is valid long enough to be useful. If there is none, it is obtained first.
    ///
    /// A token that is due for renewal is renewed first. If that fails, it is handed out as long as it remains valid for
    /// ``HeldToken/usefulLife``. The event `vended` must be committed first, except with `audit.on_failure: degrade`.
    ///
    /// - Parameter limit: The longest wait in all.
    package func vend(
        for demand: CredentialRequest,
        within limit: Duration
    ) async -> Result<VendedToken, GatewayProblem> {
        if let problem = await obstacle(to: demand, within: limit) { return .failure(problem) }
        for _ in 1..<Self.maximumTries {
            if let answer = await handOut(for: demand) { return answer }
        }
        return await handOut(for: demand) ?? .failure(withdrawnProblem)
    }

    /// How long the token can still be used, after one that was due for renewal was renewed. nil if it does not expire.
    ///
    /// - Parameter limit: The longest wait in all.
    package func remainder(
        for demand: CredentialRequest,
        within limit: Duration
    ) async -> Result<Duration?, GatewayProblem> {
        if let problem = await obstacle(to: demand, within: limit) { return .failure(problem) }
        return servedToken.map { $0.remainder(at: context.clock.now().monotonic) }
    }

    /// Obtains a token if there is none, and renews one that is due. If the renewal fails, the token remains.
    ///
    /// - Returns: Why there is no token.
    private func obstacle(to demand: CredentialRequest, within limit: Duration) async -> GatewayProblem? {
        let start = context.clock.now().monotonic
        if case .failure(let problem) = await credential(for: demand, within: limit) {
            return problem.kind == .requestTimeout ? lateProblem(within: limit, retryAfter: .seconds(1)) : problem
        }
        let now = context.clock.now().monotonic
        if isRenewable, let held, !held.isFresh(at: now) {
            // The result is visible in the current token afterwards.
            _ = await answer(within: limit - (now - start)) { done in
                self.waitForSuccessor(of: held.generation, for: demand, done)
            }
        }
        return nil
    }

    /// How often the token may be replaced while its event is being written.
    private static let maximumTries = 3

    /// Whether a caller has to wait until a token is obtained.
    package func vendsLater(at now: MonotonicTime) -> Bool {
        switch current(at: now) {
        case .wait: true
        case .unavailable: false
        case .ready: isRenewable && !(held?.isFresh(at: now) ?? false)
        }
    }

    /// - Returns: nil if the token is no longer in use once its event is committed.
    private func handOut(for demand: CredentialRequest) async -> Result<VendedToken, GatewayProblem>? {
        let now = context.clock.now().monotonic
        let held: HeldToken
        switch servedToken {
        case .failure(let problem): return .failure(problem)
        case .success(let token): held = token
        }
        let remainder = held.remainder(at: now)
        guard remainder.map({ $0 >= held.usefulLife }) ?? true else { return .failure(endingProblem) }
        var event = context.event(.vended, generation: held.generation, trigger: .demand)
        event.demand = demand
        event.expiresAt = held.token.expiresAt
        event.token = held.token.access
        guard await context.commit(event) == nil else {
            let detail = "The audit log cannot be written, so no token of \(name) is handed out."
            return .failure(GatewayProblem(.auditUnavailable, detail))
        }
        guard stillServes(held) else { return nil }
        context.metrics.vended()
        let isBearer = held.credential.injection == .authorization(scheme: "Bearer", held.token.access)
        return .success(
            VendedToken(
                access: held.token.access,
                type: isBearer ? "Bearer" : "N_A",
                // Not rounded up, so that a client does not use an expired token.
                expiresIn: remainder.map { Int($0.components.seconds) },
                expiresAt: held.token.expiresAt
            )
        )
    }

    /// - Parameter limit: The value of `limits.credential_timeout`; nil if another limit applied.
    private func lateProblem(within limit: Duration? = nil, retryAfter pause: Duration? = nil) -> GatewayProblem {
        let when = limit.map { "within \(ConfigUnits.text($0)) (limits.credential_timeout)" } ?? "in time"
        return GatewayProblem(
            .tokenEndpointTimeout,
            "The credential \(name) had no token \(when).",
            retryAfter: pause
        )
    }

    private var endingProblem: GatewayProblem {
        GatewayProblem(
            .tokenTemporarilyUnavailable,
            "The token of \(name) expires too soon to be of use, and there is no newer one.",
            retryAfter: isRenewable ? .seconds(1) : nil
        )
    }
}

/// Lending the token to keepers whose tokens are made from it.
extension TokenKeeper {
    /// The token as it is used now. Waits for one at most for `limit`.
    func liveToken(
        for demand: CredentialRequest,
        within limit: Duration
    ) async -> Result<LiveToken, GatewayProblem> {
        let (answers, answer) = AsyncStream.makeStream(
            of: Result<Credential, GatewayProblem>.self,
            bufferingPolicy: .bufferingOldest(1)
        )
        let ticket = wait(for: demand) { answer.yield($0) }
        let late = lateProblem()
        let clock = context.clock
        let result = await withTaskGroup(of: Void.self) { group in
            group.addTask {
                do {
                    try await clock.sleep(for: limit)
                    answer.yield(.failure(late))
                } catch {
                    // Cancelled, because there was an answer.
                }
            }
            var iterator = answers.makeAsyncIterator()
            let first = await iterator.next()
            group.cancelAll()
            return first ?? .failure(late)
        }
        cancel(ticket)
        return result.flatMap { _ in lend(else: late) }
    }

    /// A token that must not be handed out is not lent either: the credential may have been locked since the wait ended.
    private func lend(else problem: GatewayProblem) -> Result<LiveToken, GatewayProblem> {
        guard case .success(let held) = servedToken else { return .failure(lockedProblem ?? problem) }
        let token = LiveToken(
            generation: held.generation,
            access: held.token.access,
            expiresAt: held.token.expiresAt
        )
        return .success(token)
    }
}

/// A token that may be used now.
struct LiveToken: Hashable, Sendable {
    let generation: Int
    let access: Secret
    let expiresAt: UnixTime?
}

/// Weaker tokens for others: made once, handed out, and not kept.
extension TokenKeeper {
    /// The grant whose token a weaker one is made from.
    package var grant: any TokenGrant { context.grant }

    /// Exchanges the token for a weaker one. It is handed out only once the event `downscoped` is committed, except with
    /// `audit.on_failure: degrade`.
    package func downscope(
        by grant: any TokenGrant,
        _ options: DownscopeOptions
    ) async -> Result<RevealedToken, GatewayProblem> {
        var renewer = TokenRenewer(
            context: KeeperContext(context, exchangingBy: grant, from: self),
            isStored: false
        )
        switch await renewer.perform(.outsideSchedule, after: 0, waiters: { 1 }) {
        case .failed(let failure): return .failure(failure.operatorProblem)
        case .nothing, .held, .withdrawn:
            return .failure(GatewayProblem(.internalError, "There was nothing to exchange."))
        case .obtained(let fresh): return await handOut(fresh.token, options)
        }
    }

    private func handOut(_ token: TokenSet, _ options: DownscopeOptions) async -> Result<RevealedToken, GatewayProblem>
    {
        let generation = highestGeneration
        var event = context.event(.downscoped, generation: generation, trigger: .operator)
        event.expiresAt = token.expiresAt
        event.token = token.access
        event.detail["scopes"] = options.scopes.joined(separator: " ")
        event.detail["resource"] = options.resource
        if options.sharedLink != nil { event.detail["shared_link"] = "given" }
        guard await context.commit(event) == nil else {
            let detail = "The audit log cannot be written, so no token made from \(name) is handed out."
            return .failure(GatewayProblem(.auditUnavailable, detail))
        }
        if let lockedProblem { return .failure(lockedProblem) }
        return .success(
            RevealedToken(
                credential: name,
                generation: generation,
                access: token.access,
                expiresAt: token.expiresAt
            )
        )
    }
}
