import GatewayEvents
package import GatewayHTTP

extension TokenKeeper {
    /// How long an operator waits for a token that has to be obtained first.
    private static let revealDeadline: Duration = .seconds(20)

    /// The access token itself, obtained first when there is none, as for a request.
    ///
    /// It is shown only when the event `revealed` is committed; with `audit.on_failure: degrade` in any case.
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

/// What may leave the gateway, looked at before the event is committed and again afterwards: what an operator was told
/// is locked or revoked must not leave later.
extension TokenKeeper {
    var servedToken: Result<HeldToken, GatewayProblem> {
        let now = context.clock.now().monotonic
        guard let held = look({ $0.servable == nil ? nil : $0.held }), held.isLive(at: now) else {
            return .failure(withdrawnProblem)
        }
        return .success(held)
    }

    func stillServes(_ held: HeldToken) -> Bool { look { $0.servable?.generation } == held.generation }

    var withdrawnProblem: GatewayProblem {
        if let lockedProblem { return lockedProblem }
        let detail = "The token of \(name) ended while it was asked for; try again."
        return GatewayProblem(.tokenTemporarilyUnavailable, detail, retryAfter: .seconds(1))
    }
}

extension TokenKeeper {
    /// What there is, or what comes within `limit`.
    func credential(for demand: CredentialRequest, within limit: Duration) async -> Result<Credential, GatewayProblem> {
        switch current(at: context.clock.now().monotonic) {
        case .ready(let credential): .success(credential)
        case .unavailable(let problem): .failure(problem)
        case .wait: await answer(within: limit) { self.wait(for: demand, $0) }
        }
    }

    /// The answer to a question that was put to the machine; a failure when it does not come within `limit`.
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
                    // Answered in time.
                }
            }
            let result = await answer.value()
            group.cancelAll()
            return result
        }
    }
}
