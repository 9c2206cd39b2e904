package import GatewayHTTP

/// What there is to say about one credential: for `status`, the admin page and metrics. Holds no secret.
package struct TokenStatus: Hashable, Sendable, Codable {
    package enum State: String, Sendable, Codable {
        /// Never obtained, or cleared.
        case empty
        /// The first token is on its way.
        case acquiring
        case valid
        /// The old one is still used while a new one is on its way.
        case renewing
        /// Past its end, and no new one yet.
        case expired
        /// Rejected by the upstream, and no new one yet.
        case rejected
        /// The configuration does not work, or a person has to bring a token. ``TokenStatus/failing`` says when it is tried again.
        case failed
        case loginRequired = "login_required"
        /// A refresh token was spent, and the answer was lost or could not be used.
        case rotationUncertain = "rotation_uncertain"
        case locked
    }

    package var credential: String
    package var strategy: String
    package var subject: String?
    package var state: State
    package var generation: Int
    /// RFC 3339.
    package var obtainedAt: String?
    package var expiresAt: String?
    package var remainingSeconds: Int?
    /// When the refresh token expires unless it is used, or a token without a refresh token, RFC 3339; nil when the server did
    /// not say.
    /// Named as in the JSON of the admin API, `renewal_expires_at`.
    package var renewalExpiresAt: String?
    package var renewalRemainingSeconds: Int?
    /// True where the login brought no refresh token: it ends with its token. nil elsewhere.
    package var lacksRefreshToken: Bool?
    package var isRenewable: Bool
    /// When background renewal begins, RFC 3339.
    package var renewsAt: String?
    package var lastError: String?
    /// What a person should do, when one must.
    package var action: String?
    /// Set from the first failed call until a token is obtained, also while a live token is still served.
    package var failing: Failing?
    /// What the authorization server said when it last gave no token; kept as long as ``failing``.
    package var authorityError: AuthorityError?
    /// The authorization server's clock minus ours; nil when unknown, or when the clocks agree.
    package var clockSkewSeconds: Int?
    /// Whether a person can log in for it.
    package var canLogIn = false
    /// The credential whose requests name the subject; nil for one that the configuration names.
    package var perSubjectCredential: String?
    /// The credential whose token this one is made from.
    package var parent: String?
    /// True where the configuration holds it as it is sent: there is no token to obtain, renew or revoke. nil elsewhere.
    package var isStatic: Bool?
    /// When an upstream last let a static credential in, since the gateway started or the secret was replaced, RFC 3339.
    package var lastAcceptedAt: String?
    /// When an upstream last answered 401 to a static credential, or 403 before anything was accepted, RFC 3339.
    package var lastRejectedAt: String?
    /// When an operator locked it, RFC 3339; nil when it is not locked, or when that is too long ago to be known.
    package var lockedAt: String?
    /// Where the secret of a static credential comes from, in words.
    package var secretOrigin: String?
    /// The scopes that upstreams miss in the token, which a login with them would bring; nil where there are none.
    package var missingScopes: [String]?
    /// The scopes that logins have added to those of the configuration; nil where there are none.
    package var addedScopes: [String]?
    /// The clients whose rejections cause no renewal now, because they have caused as many as they may; nil where there are none.
    var emptyBudgets: [EmptyBudget]?

    /// A client that has caused as many renewals as it may.
    struct EmptyBudget: Hashable, Sendable, Codable {
        /// nil: clients without a name, which share one budget.
        var client: String?
        /// When it may cause the next one, RFC 3339.
        var fillsAt: String
    }

    /// ``emptyBudgets`` for a person.
    package var emptyBudgetText: String? {
        emptyBudgets.map { budgets in
            budgets.map { "empty for \($0.client ?? "anonymous clients") until \($0.fillsAt)" }.joined(separator: "; ")
        }
    }

    /// ``missingScopes`` for a person.
    package var missingScopeText: String? {
        missingScopes.map { scopes in
            let names = scopes.joined(separator: ", ")
            return "An upstream refuses some requests because the token lacks the scope \(names)."
                + " To allow them, log in with it."
        }
    }

    package init(
        credential: String,
        strategy: String,
        subject: String?,
        state: State,
        generation: Int,
        obtainedAt: String? = nil,
        expiresAt: String? = nil,
        remainingSeconds: Int? = nil,
        isRenewable: Bool,
        renewsAt: String? = nil,
        lastError: String? = nil,
        action: String? = nil
    ) {
        self.credential = credential
        self.strategy = strategy
        self.subject = subject
        self.state = state
        self.generation = generation
        self.obtainedAt = obtainedAt
        self.expiresAt = expiresAt
        self.remainingSeconds = remainingSeconds
        self.isRenewable = isRenewable
        self.renewsAt = renewsAt
        self.lastError = lastError
        self.action = action
    }

    /// Whether it is static, and upstreams have answered with nothing but rejections so far.
    package var isOnlyRejected: Bool { isStatic == true && lastRejectedAt != nil && lastAcceptedAt == nil }

    /// Whether requests are given a live token.
    package var isServed: Bool { state == .valid || state == .renewing }

    /// A person must act, or the calls for the token fail.
    package var needsAttention: Bool { needsPerson || failing != nil }

    /// Whether somebody has to do something before this credential works again.
    package var needsPerson: Bool {
        switch state {
        case .failed, .loginRequired, .rotationUncertain, .locked: true
        case .expired, .rejected: !isRenewable
        case .empty, .acquiring, .valid, .renewing: false
        }
    }
}

extension TokenStatus {
    /// Since when a credential gets no new token, why, and what a person can do. Holds no secret.
    package struct Failing: Hashable, Sendable, Codable {
        /// The first failed call since the last token, RFC 3339.
        package var since: String
        /// One sentence.
        package var reason: String
        /// RFC 3339; nil: the gateway does not try again by itself.
        package var nextTryAt: String?
        /// RFC 3339; nil unless the next request tries again, and not before this.
        package var notBefore: String?
        /// What to do, one sentence.
        package var remedy: String
        /// What to type.
        package var command: String?
        /// Whether somebody has to act. If not, the gateway or the next request tries again, and that may succeed.
        package var needsPerson: Bool?
        /// How many requests were refused since then because there was no token; nil when not counted.
        package var failedRequests: Int?
    }
}

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

/// How a failure is shown, with the command that helps.
extension TokenStatus.Failing {
    /// What a person can type for one credential.
    package struct Commands: Sendable {
        /// nil where there is no login.
        package var login: String?
        package var refresh: String
        var importing: String
    }

    package init(_ unresolved: UnresolvedFailure, at now: Moment, commands: Commands, failedRequests: Int? = nil) {
        let (remedy, command) = unresolved.remedy(commands)
        func text(_ time: MonotonicTime) -> String { (now.wall + (time - now.monotonic)).rfc3339 }
        self.init(
            since: text(unresolved.since),
            reason: unresolved.failure.reason,
            nextTryAt: unresolved.nextTryAt.map(text),
            notBefore: unresolved.notBefore.map(text),
            remedy: remedy,
            command: command,
            needsPerson: !unresolved.failure.mayPass,
            failedRequests: failedRequests
        )
    }
}

/// What to do about a failure that goes on.
extension UnresolvedFailure {
    /// What a person can do, and what there is to type.
    fileprivate func remedy(_ commands: TokenStatus.Failing.Commands) -> (String, String?) {
        let problem = failure.problem
        switch failure.class {
        case .suspect where page != nil, .transient where page != nil:
            return ("\(page ?? ""); \(sequel).", commands.refresh)
        case .terminal where problem.kind == .credentialMisconfigured && page != nil:
            return ("\(page ?? "").", problem.command ?? commands.refresh)
        case .suspect:
            return (
                "Check whether a firewall, a proxy or a portal answers instead of the authorization server; \(sequel).",
                commands.refresh
            )
        case .transient(let wait?) where failure.authorityError?.status != nil:
            // A call before that is refused, too, and may prolong the wait: no command is given.
            let longest = BackOff.longestRetryAfter
            let limit = wait > longest ? "; the gateway waits \(ConfigUnits.text(longest))" : ""
            let asked = "the authorization server asks for \(ConfigUnits.text(wait)) (Retry-After)\(limit)"
            return ("Wait: \(asked); \(sequel).", nil)
        case .transient:
            return ("\(check ?? "Wait"); \(sequel).", commands.refresh)
        case .loginLikely, .loginRequired:
            let more = failure.class == .loginLikely ? " If that does not help, correct the configuration." : ""
            // It may be the first login.
            let login = problem.kind == .loginRequired ? "Log in." : "Log in again."
            if let command = problem.command ?? commands.login { return ("\(login)\(more)", command) }
            return ("Give the credential a new token.", commands.importing)
        case .terminal where problem.kind == .credentialMisconfigured:
            if let remedy = failure.remedy { return ("\(remedy).", problem.command) }
            let more = nextTryAt == nil ? "; the gateway does not try again by itself" : ""
            return (
                "Correct the configuration or the secret, run `authgateway reload`, then try again\(more).",
                problem.command ?? commands.refresh
            )
        case .terminal:
            return ("Give the credential a new token.", problem.command ?? commands.importing)
        }
    }

    /// A web page came where a token was to come; nil for any other answer, and where the status says more.
    private var page: String? {
        guard let said = failure.authorityError, said.format == .html, said.code == nil, let status = said.status,
            (200..<300).contains(status) || (400..<500).contains(status) && ![401, 408, 429].contains(status)
        else { return nil }
        let title = said.description.map { " (\"\($0)\")" } ?? ""
        return "token_url returned an HTML page\(title) instead of JSON: check token_url, or the proxy in between"
    }

    private var check: String? {
        switch failure.problem.kind {
        // The network works: something answers.
        case .tokenEndpointUnreachable where failure.problem.hopError == .protocolError:
            "Check what answers at the token endpoint's address"
        case .tokenEndpointUnreachable, .tokenEndpointTimeout: "Check the network and the token endpoint's address"
        case .auditUnavailable: "Make the audit log writable"
        default: nil
        }
    }

    private var sequel: String {
        if nextTryAt != nil { return "the gateway tries again by itself" }
        return isTriedOnDemand ? "the next request tries again" : "the gateway does not try again by itself"
    }
}
