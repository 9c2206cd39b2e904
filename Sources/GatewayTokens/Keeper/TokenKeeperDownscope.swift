import GatewayEvents
package import GatewayHTTP

/// Weaker tokens for somebody else: made once, handed out, and not kept.
extension TokenKeeper {
    /// The grant whose token a weaker one is made from.
    package var grant: any TokenGrant { context.grant }

    /// Exchanges the token for a weaker one. It is handed out only when the event `downscoped` is committed; with
    /// `audit.on_failure: degrade` in any case.
    package func downscope(
        by grant: any TokenGrant,
        _ options: DownscopeOptions
    ) async -> Result<RevealedToken, GatewayProblem> {
        var renewer = TokenRenewer(context: context.exchanging(by: grant, from: self))
        renewer.phase = .open
        switch await renewer.perform(.outsideSchedule, after: 0, waiters: { 1 }) {
        case .failed(let failure): return .failure(failure.operatorProblem)
        case .nothing, .held, .withdrawn:
            return .failure(GatewayProblem(.internalError, "There was nothing to exchange."))
        case .obtained(let fresh): return await handOut(fresh.token, options)
        }
    }

    private func handOut(_ token: TokenSet, _ options: DownscopeOptions) async -> Result<RevealedToken, GatewayProblem>
    {
        let generation = look { $0.generation }
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

extension KeeperContext {
    /// The same ports, for a token that is made from this one and not kept.
    fileprivate func exchanging(by grant: any TokenGrant, from parent: any ParentCredential) -> KeeperContext {
        KeeperContext(
            name: "\(name).downscope",
            strategyKind: grant.identity.strategy,
            grant: grant,
            policy: policy,
            key: key,
            store: NoTokenStore(),
            endpoint: endpoint,
            programs: programs,
            audit: audit,
            onAuditFailure: onAuditFailure,
            clock: clock,
            logger: logger,
            metrics: metrics,
            nonce: nonce,
            parent: parent,
            callLimit: callLimit
        )
    }
}
