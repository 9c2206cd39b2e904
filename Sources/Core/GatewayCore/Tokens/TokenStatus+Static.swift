extension TokenStatus {
    /// The status of a static credential.
    ///
    /// - Parameter origin: Where its secret comes from, in words.
    package init(of source: FixedCredentialSource, origin: String?, at now: Moment) {
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
        secretOrigin = origin
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
        let place = origin.map { " The secret comes from \($0)." } ?? ""
        let remedy = " Replace it. To read a new value of an environment variable, restart the gateway."
        lastError = "\(cause), since \(now.wall(of: verdict.since).rfc3339).\(place)\(remedy)"
        action = GatewayCommand.line("reload")
    }
}

extension Moment {
    /// What the wall clock showed at that time, unless it was set since.
    fileprivate func wall(of time: MonotonicTime) -> UnixTime { wall + (time - monotonic) }
}
