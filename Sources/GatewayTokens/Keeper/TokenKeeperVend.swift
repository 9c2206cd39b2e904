package import GatewayEvents
package import GatewayHTTP

/// Handing the token to a client that uses it by itself.
extension TokenKeeper {
    /// The access token with enough life left to be of use, obtained first when there is none.
    ///
    /// A token that is due for renewal is renewed first. If that fails, it is handed out as long as
    /// ``HeldToken/usefulLife`` is left. The event `vended` must be committed first; with `audit.on_failure: degrade`
    /// it need not be.
    ///
    /// - Parameter limit: Of all waiting.
    package func vend(
        for demand: CredentialRequest,
        within limit: Duration
    ) async -> Result<VendedToken, GatewayProblem> {
        let start = context.clock.now().monotonic
        if case .failure(let problem) = await credential(for: demand, within: limit) {
            return .failure(problem.kind == .requestTimeout ? lateProblem : problem)
        }
        let now = context.clock.now().monotonic
        if isRenewable, let held = look({ $0.held }), !held.isFresh(at: now) {
            // What comes of it shows in the token that is at hand afterwards.
            _ = await answer(within: limit - (now - start)) { done in
                self.ask(done) {
                    $0.needSuccessor(of: held.generation, by: done, ticket: $1, for: demand, at: $2)
                }
            }
        }
        for _ in 1..<Self.maximumTries {
            if let answer = await handOut(for: demand) { return answer }
        }
        return await handOut(for: demand) ?? .failure(withdrawnProblem)
    }

    /// How often a token may give way to another one while the event is written.
    private static let maximumTries = 3

    /// Whether somebody who is handed the token now has to wait for one to be obtained.
    package func vendsLater(at now: MonotonicTime) -> Bool {
        switch current(at: now) {
        case .wait: true
        case .unavailable: false
        case .ready: isRenewable && !(look { $0.held }?.isFresh(at: now) ?? false)
        }
    }

    /// nil unless an operator has locked it.
    package var lockedProblem: GatewayProblem? { look { $0.isLocked ? $0.lockedProblem : nil } }

    /// - Returns: nil when the token is not in use any more by the time that its event is committed.
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
                // Not rounded up, so that a client does not take a dead token for a live one.
                expiresIn: remainder.map { Int($0.components.seconds) },
                expiresAt: held.token.expiresAt
            )
        )
    }

    private var lateProblem: GatewayProblem {
        GatewayProblem(.tokenEndpointTimeout, "The credential \(name) had no token in time.", retryAfter: .seconds(1))
    }

    private var endingProblem: GatewayProblem {
        GatewayProblem(
            .tokenTemporarilyUnavailable,
            "The token of \(name) ends too soon to be of use, and there is no newer one.",
            retryAfter: isRenewable ? .seconds(1) : nil
        )
    }
}
