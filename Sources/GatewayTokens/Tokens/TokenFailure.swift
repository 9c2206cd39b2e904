package import GatewayHTTP

/// Why a grant did not yield a token, in the classes that decide what happens next.
package struct TokenFailure: Error, Hashable, Sendable {
    package enum Class: Hashable, Sendable {
        /// Try again with back-off; a live token is still served.
        case transient(retryAfter: Duration?)
        /// A firewall or a portal may have answered in the authority's place. The refresh token is kept and tried again.
        case suspect
        /// No further calls until the configuration, the secret or the login changes, unless ``isRetried``.
        case terminal
        /// A login is likely to help, but the configuration may be wrong instead. The refresh token is kept and tried again.
        case loginLikely
        /// Only a person can go on.
        case loginRequired

        /// Whether a person is asked to log in.
        package var asksForLogin: Bool { self == .loginLikely || self == .loginRequired }
    }

    package let `class`: Class
    /// What waiting requests are answered with.
    package private(set) var problem: GatewayProblem
    /// The detail of the problem without the ways by which the credential works again.
    package private(set) var reason: String
    /// What the authority said; for operators alone.
    package var authorityError: AuthorityError?
    /// Drop the stored token: the authority no longer knows it.
    package var clearsToken: Bool
    /// A failure that waits for a person, and that the gateway all the same tries again by itself, in growing intervals.
    ///
    /// False for a refused password: directories lock accounts.
    package var isRetried: Bool

    /// - Parameter isRetried: Whether a terminal failure is tried again; nil for the rule: what the configuration causes is tried again.
    package init(_ class: Class, problem: GatewayProblem, clearsToken: Bool = false, isRetried: Bool? = nil) {
        self.class = `class`
        self.problem = problem
        reason = problem.detail
        self.clearsToken = clearsToken
        self.isRetried =
            switch `class` {
            case .terminal: isRetried ?? (problem.kind == .credentialMisconfigured)
            case .loginLikely: true
            case .transient, .suspect, .loginRequired: false
            }
    }

    /// The same failure with another text, and another command for the person who has to act.
    package func replacing(detail: String, command: String?) -> TokenFailure {
        var changed = self
        changed.problem.detail = detail
        changed.problem.command = command
        changed.reason = detail
        return changed
    }

    /// Adds advice for those who have to fix it, after the reason.
    func adding(advice: String, command: String) -> TokenFailure {
        var changed = replacing(detail: "\(problem.detail) \(advice)", command: command)
        changed.reason = reason
        return changed
    }

    /// - Parameters:
    ///   - nextHop: Whose answer it comes from, unless it says so already.
    ///   - authorityError: What the answer says.
    package func naming(_ nextHop: String?, _ authorityError: AuthorityError? = nil) -> TokenFailure {
        var named = self
        named.authorityError = authorityError
        named.problem.nextHop = problem.nextHop ?? nextHop
        return named
    }
}

extension TokenFailure {
    /// A password was sent and refused, so that it is not sent again by itself.
    package var isRefusedPassword: Bool {
        `class` == .terminal && problem.kind == .credentialMisconfigured && !isRetried
    }

    /// Whether waiting may help. Such a failure says nothing about the refresh token.
    package var mayPass: Bool {
        switch `class` {
        case .transient, .suspect: true
        case .terminal, .loginLikely, .loginRequired: false
        }
    }

    /// The authority does not accept the refresh token any more, as ``RefreshError/endsRefreshToken`` says of an answer.
    package var endsRefreshToken: Bool {
        switch `class` {
        case .transient, .suspect, .loginLikely: false
        case .loginRequired: true
        case .terminal: clearsToken || problem.cause?.code == "invalid_grant"
        }
    }

    /// What a person is told once the tries after suspect answers are used up. The refresh token is kept.
    ///
    /// - Parameter command: The login; nil where there is none.
    func escalated(command: String?) -> TokenFailure {
        var escalated = TokenFailure(
            .loginRequired,
            problem: GatewayProblem(
                .reauthorizationRequired,
                "\(problem.detail) A login is needed, unless the next hourly try succeeds.",
                cause: problem.cause,
                command: problem.command ?? command
            )
        )
        escalated.problem.nextHop = problem.nextHop
        escalated.authorityError = authorityError
        return escalated
    }

    /// The problem with the authority's words, for the answer to an operator. No client is sent it.
    package var operatorProblem: GatewayProblem {
        guard let said = authorityError?.description else { return problem }
        var quoting = problem
        quoting.detail += " The authority said: \(said)"
        return quoting
    }

    package init(tooManyCalls detail: String) {
        self.init(
            .transient(retryAfter: BackOff.longest),
            problem: GatewayProblem(.tokenTemporarilyUnavailable, detail, retryAfter: BackOff.longest)
        )
    }
}

extension TokenFailure {
    /// Names the ways by which the credential works again, and the command to type.
    ///
    /// - Parameters:
    ///   - login: What a person types to log in; nil where there is no login.
    ///   - refresh: What a person types to try again.
    package func advised(login: String?, refresh: String) -> TokenFailure {
        switch `class` {
        case .transient, .suspect: return self
        case .loginLikely, .loginRequired:
            guard problem.command == nil, let login else { return self }
            return replacing(detail: problem.detail, command: login)
        case .terminal:
            guard problem.kind == .credentialMisconfigured, problem.command == nil else { return self }
            return adding(advice: ways, command: refresh)
        }
    }

    private var ways: String {
        let change =
            "A changed configuration file is taken up by itself, and a changed secret file by `authgateway reload`; a changed"
            + " environment variable ({env:}) needs a restart."
        let retry =
            isRetried
            ? "The gateway tries again after 5 and 15 minutes, then hourly."
            : "The gateway does not try again by itself, because repeated refusals could lock the account."
        return "\(change) \(retry)"
    }
}
