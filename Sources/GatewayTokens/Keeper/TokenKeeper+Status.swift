package import GatewayHTTP

extension TokenKeeper {
    /// A missing login is reported before the first request asks for the token.
    package func outlook(at now: MonotonicTime) -> CredentialAnswer {
        let answer = current(at: now)
        guard case .wait = answer, look({ $0.state(at: now) }) == .empty, let missing = context.missingLogin else {
            return answer
        }
        return .unavailable(missing)
    }

    package func status(at now: Moment) -> TokenStatus {
        var (state, held, failure, unresolved, generation) = look {
            (
                $0.state(at: now.monotonic), $0.held, $0.lastFailure?.problem, $0.failing(at: now.monotonic),
                $0.generation
            )
        }
        // No request has needed it yet; the first one that does gets this problem.
        if state == .empty, let missing = context.missingLogin { (state, failure) = (.loginRequired, missing) }
        var status = TokenStatus(
            credential: name,
            strategy: strategy,
            subject: context.grant.identity.subject,
            state: state,
            generation: held?.generation ?? generation,
            isRenewable: isRenewable
        )
        if let held {
            status.obtainedAt = held.token.obtainedAt.rfc3339
            status.expiresAt = held.token.expiresAt?.rfc3339
            status.remainingSeconds = held.credential.expiresAt.map {
                Int(max(($0 - now.monotonic).wholeMilliseconds / 1000, 0))
            }
            if held.lacksRefreshToken { status.lacksRefreshToken = true }
            if let end = held.lacksRefreshToken ? held.token.expiresAt : held.token.refreshTokenExpiresAt {
                status.renewalExpiresAt = end.rfc3339
                status.renewalRemainingSeconds = Int(max((end - now.wall).wholeMilliseconds / 1000, 0))
            }
            if held.isLive(at: now.monotonic) {
                status.renewsAt = held.renewAt.map { (now.wall + ($0 - now.monotonic)).rfc3339 }
            }
        }
        let budgets = rejections?.emptyBudgets(at: now.monotonic, limit: Self.shownBudgets) ?? []
        if !budgets.isEmpty {
            status.emptyBudgets = budgets.map { budget in
                let fillsAt = now.wall + (budget.fillsAt - now.monotonic)
                return TokenStatus.EmptyBudget(client: budget.client, fillsAt: fillsAt.rfc3339)
            }
        }
        status.canLogIn = context.grant.login != nil
        status.perSubjectCredential = perSubjectCredential
        status.parent = context.parent?.name
        status.lastError = (failure ?? unresolved?.failure.problem)?.detail
        status.failing = unresolved.map { failing($0, at: now) }
        status.authorityError = unresolved?.failure.authorityError
        if state == .locked {
            status.action = GatewayCommand.line("token", "unlock", name)
        } else if let problem = failure, status.needsPerson {
            status.action = problem.command ?? action(for: problem.kind.recovery)
        } else if state == .rotationUncertain, failure == nil, look({ $0.isIdle }) {
            // Restored: its refresh token is not sent by itself.
            status.action = context.loginCommand ?? context.importCommand
        }
        return status
    }

    /// How many clients with an empty budget are named.
    private static let shownBudgets = 8

    private func failing(_ unresolved: UnresolvedFailure, at now: Moment) -> TokenStatus.Failing {
        let commands = TokenStatus.Failing.Commands(
            login: context.loginCommand,
            refresh: context.refreshCommand,
            importing: context.importCommand
        )
        let requests = withheldRequests
        var failing = TokenStatus.Failing(unresolved, at: now, commands: commands, failedRequests: requests)
        failing.since = wallTime(of: unresolved.since, at: now).rfc3339
        return failing
    }

    private func action(for recovery: ProblemRecovery) -> String {
        switch recovery {
        case .reauthorize: "Give the credential a new token: \(context.importCommand)"
        case .fixConfiguration: "Correct the credential, then run: \(context.refreshCommand)"
        case .retryLater, .fixRequest: "See the log; authgateway token refresh tries again."
        }
    }
}

extension TokenKeeper {
    /// What of this credential's token only a person can replace, and when that ends.
    package func expirations(at now: Moment) -> [Expiration] {
        guard let held = look({ $0.held }) else { return [] }
        let token = held.token
        var expirations: [Expiration] = []
        if !isRenewable, let end = token.expiresAt {
            let action = context.manualRenewal?.problem.command ?? context.importCommand
            let start = token.obtainedAt
            expirations.append(Expiration(.token, of: name, from: start, to: end, at: now.wall, action: action))
        }
        let loginEnd = held.lacksRefreshToken ? token.expiresAt : token.refreshTokenExpiresAt
        if let command = context.loginCommand, let end = loginEnd {
            let start = token.refreshTokenObtainedAt ?? token.obtainedAt
            expirations.append(Expiration(.login, of: name, from: start, to: end, at: now.wall, action: command))
        }
        return expirations
    }
}
