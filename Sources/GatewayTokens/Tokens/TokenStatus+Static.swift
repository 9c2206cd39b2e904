package import GatewayHTTP

extension TokenStatus {
    /// The status of a static credential.
    package init(of source: FixedCredentialSource, origin: SecretOrigin?, at now: Moment) {
        self.init(
            credential: source.name,
            strategy: source.strategy,
            subject: nil,
            state: .valid,
            generation: 0,
            isRenewable: false
        )
        let acceptance = source.acceptance
        isStatic = true
        secretOrigin = origin?.words
        lastAcceptedAt = acceptance.acceptedAt.map { now.wall(of: $0).rfc3339 }
        lastRejectedAt = acceptance.rejectedAt.map { now.wall(of: $0).rfc3339 }
        guard !source.isLocked else {
            let problem = GatewayProblem.locked(source.name)
            (state, lastError, action) = (.locked, problem.detail, problem.command)
            return
        }
        guard let verdict = acceptance.verdict(at: now.monotonic) else { return }
        state = .rejected
        let client = verdict.client.map { " from the client \($0)" } ?? ""
        let cause = "The upstream has answered \(verdict.status) to \(verdict.rejections) requests in a row\(client)"
        let place = origin.map { " The secret comes from \($0.words)." } ?? ""
        // A reload reads everything again but the environment, which is that of the start.
        let needsRestart = origin?.isVariable ?? false
        let remedy = needsRestart ? "Replace it and restart the gateway." : "Replace it and reload."
        lastError = "\(cause), since \(now.wall(of: verdict.since).rfc3339).\(place) \(remedy)"
        action = needsRestart ? nil : GatewayCommand.line("reload")
    }
}

extension Moment {
    /// What the wall clock showed at that time, unless it was set since.
    fileprivate func wall(of time: MonotonicTime) -> UnixTime { wall + (time - monotonic) }
}
