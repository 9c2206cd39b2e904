package import GatewayHTTP

/// Why a grant did not yield a token, in the classes that decide what happens next.
package struct TokenFailure: Error, Hashable, Sendable {
    package enum Class: Hashable, Sendable {
        /// Try again with back-off; a live token is still served.
        case transient(retryAfter: Duration?)
        /// A firewall or a portal may have answered in the authorization server's place. The refresh token is kept and tried again.
        case suspect
        /// No further calls until the configuration, the secret or the login changes, unless ``isRetried``.
        case terminal
        /// A login is likely to help, but the configuration may be wrong instead. The refresh token is kept and tried again.
        case loginLikely
        /// Only a person can go on.
        case loginRequired

        /// Whether a person is asked to log in.
        var asksForLogin: Bool { self == .loginLikely || self == .loginRequired }
    }

    package let `class`: Class
    /// What waiting requests are answered with.
    package private(set) var problem: GatewayProblem
    /// The detail of the problem without the ways by which the credential works again.
    package private(set) var reason: String
    /// What a person has to do, without a full stop, where more is known than the kind says.
    package private(set) var remedy: String?
    /// What the authorization server said; for operators alone.
    package var authorityError: AuthorityError?
    /// Drop the stored token: the authorization server no longer knows it.
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

    /// This failure with another detail, and another command to run.
    package func replacing(detail: String, command: String?) -> TokenFailure {
        var changed = self
        changed.problem.detail = detail
        changed.problem.command = command
        changed.reason = detail
        return changed
    }

    /// Adds advice for those who have to fix it, after the reason.
    func adding(advice: String, command: String?) -> TokenFailure {
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

/// What follows from a failure.
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

    /// The authorization server does not accept the refresh token any more, as ``RefreshError/endsRefreshToken`` says of an answer.
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

    /// The problem with the authorization server's words, for the answer to an operator. No client is sent it.
    var operatorProblem: GatewayProblem {
        guard let said = authorityError?.description else { return problem }
        var quoting = problem
        quoting.detail += " The authorization server said: \(said)"
        return quoting
    }

    package init(tooManyCalls detail: String) {
        self.init(
            .transient(retryAfter: BackOff.longest),
            problem: GatewayProblem(.tokenTemporarilyUnavailable, detail, retryAfter: BackOff.longest)
        )
    }
}

/// What a person can do about it.
extension TokenFailure {
    /// Names the ways by which the credential works again, and the command to type.
    ///
    /// - Parameters:
    ///   - login: What a person types to log in; nil where there is no login.
    ///   - refresh: What a person types to try again.
    ///   - importing: What a person types to hand over a token.
    ///   - secret: Where the client's secret comes from; nil where it is not known.
    func advised(login: String?, refresh: String, importing: String, secret: SecretOrigin? = nil) -> TokenFailure {
        switch `class` {
        case .transient, .suspect: return self
        case .loginLikely, .loginRequired:
            guard problem.command == nil, let login else { return self }
            return replacing(detail: problem.detail, command: login)
        case .terminal where problem.kind == .staticTokenExpired && problem.command == nil:
            return replacing(detail: problem.detail, command: importing)
        case .terminal:
            guard problem.kind == .credentialMisconfigured, problem.command == nil else { return self }
            if let wrong = blamedSetting {
                // The same request would get the same response.
                var advised = adding(advice: ways, command: GatewayCommand.line("reload"))
                advised.remedy = "Correct \(wrong) in the configuration file, then reload"
                return advised
            }
            guard let secret, secret.isVariable, blamesSecret else { return adding(advice: ways, command: refresh) }
            // Neither a reload nor another try helps.
            let remedy = "Correct \(secret.words) and restart the gateway"
            var advised = adding(advice: "\(remedy). \(retry)", command: nil)
            advised.remedy = remedy
            return advised
        }
    }

    private var blamesSecret: Bool {
        guard let cause = problem.cause else { return false }
        return cause.code.map(RefreshError.clientAuthenticationCodes.contains) ?? (cause.httpStatus == 401)
    }

    /// What the configuration has wrong, as the answer says; nil if it may be something else, such as the secret.
    private var blamedSetting: String? {
        guard let cause = problem.cause else { return nil }
        let endpoint = "the address of the token endpoint"
        if let status = cause.httpStatus, (300..<400).contains(status) { return endpoint }
        switch cause.code {
        case nil: return cause.httpStatus == 404 || cause.httpStatus == 405 ? endpoint : nil
        case "invalid_scope": return "scopes"
        case "invalid_target": return "the resource or audience"
        case "unsupported_grant_type": return "\(endpoint) or the strategy"
        default: return nil
        }
    }

    private var ways: String {
        let change =
            "A changed configuration file is reloaded automatically, a changed secret file by `authgateway reload`; a changed"
            + " environment variable ({env:}) needs a restart."
        return "\(change) \(retry)"
    }

    private var retry: String {
        isRetried
            ? "The gateway tries again after 5 and 15 minutes, then hourly."
            : "The gateway does not try again by itself, because repeated refusals could lock the account."
    }
}

/// What an answer without a token means.
extension TokenFailure {
    /// An answer to a refresh that no authorization server is known to give.
    ///
    /// - Parameter authority: As a sentence begins: `Box`, `The authorization server`.
    package init(suspect reply: TokenReply, from authority: String) {
        let code = OAuthErrorCode.allowListed(RefreshError.code(in: reply))
        self.init(
            .suspect,
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                "\(authority) answered the refresh with status \(reply.status) and no known error code: does a firewall, a"
                    + " proxy or a portal answer instead? The refresh token is kept, and the gateway tries again.",
                cause: GatewayProblem.Cause(code: code, httpStatus: reply.status)
            )
        )
    }

    /// A refusal of a request that has worked before. Only a person can tell whether the login has expired or the configuration is
    /// wrong, so the text names both, the login first.
    ///
    /// - Parameters:
    ///   - what: What was refused, as a sentence begins.
    ///   - login: How to log in, with its full stop.
    ///   - otherwise: What to check in the configuration, with its full stop.
    package static func loginLikely(
        _ kind: ProblemKind = .loginRequired,
        what: String,
        login: String,
        otherwise: String,
        cause: GatewayProblem.Cause?
    ) -> TokenFailure {
        let detail = "\(what): \(login) If that does not help, \(otherwise)"
        return TokenFailure(.loginLikely, problem: GatewayProblem(kind, detail, cause: cause))
    }

    /// An answer that says nothing about the credential: a later one may bring the token.
    ///
    /// - Parameters:
    ///   - authority: As a sentence begins: `Box`, `The authorization server`.
    ///   - code: An OAuth error code from the allow-list.
    ///   - wait: How long the authorization server wants to be left alone.
    package static func transient(authority: String, status: Int, code: String? = nil, wait: Duration?) -> TokenFailure
    {
        TokenFailure(
            .transient(retryAfter: wait),
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                "\(authority) gives no token at the moment (status \(status)).",
                cause: GatewayProblem.Cause(code: code, httpStatus: status),
                retryAfter: wait.map { min($0, BackOff.longestRetryAfter) }
            )
        )
    }
}

/// What it means that no usable answer came.
extension TokenFailure {
    /// - Parameters:
    ///   - failure: Why a call brought no answer.
    ///   - credential: nil for a request that is not for a token.
    package init(explaining failure: TokenTransportFailure, of request: TokenRequest, credential: String?) {
        let kind: ProblemKind
        let detail: String
        let role = credential.map { " (token endpoint of \($0))" } ?? ""
        let place = request.url.origin.authority + role
        if let proxy = failure.proxyProblem {
            let kind: ProblemKind =
                failure.reason == .connectTimeout ? .tokenEndpointTimeout : .tokenEndpointUnreachable
            let detail = "\(place) was not asked. \(proxy.detail)"
            let problem = GatewayProblem(kind, detail, hopError: proxy.error, nextHop: request.nextHop)
            self.init(.transient(retryAfter: nil), problem: problem)
            return
        }
        switch failure.reason {
        case .connectTimeout:
            kind = .tokenEndpointTimeout
            detail = "\(place) did not accept a connection in time."
        case .responseTimeout:
            kind = .tokenEndpointTimeout
            let limit = TokenRequest.longestCall.components.seconds
            detail = "\(place) did not answer in time; one call may take \(limit) s."
        case .nameNotResolved:
            kind = .tokenEndpointUnreachable
            detail = "The name \(request.url.origin.host)\(role) cannot be resolved."
        case .connectionRefused:
            kind = .tokenEndpointUnreachable
            detail = "\(place) refuses connections."
        case .tlsFailed:
            kind = .tokenEndpointUnreachable
            detail =
                failure.alert?.detail(of: place, owner: "the credential")
                ?? Self.detail(of: failure.tlsError, at: place)
        case .connectionLost:
            kind = .tokenEndpointUnreachable
            detail = "The connection to \(place) was lost."
        case .answerTooLarge:
            kind = .tokenEndpointUnreachable
            detail = "\(place) sent a response that is too large; the limit is 1 MiB after decompression."
        case .invalidAnswer:
            kind = .tokenEndpointUnreachable
            detail =
                failure.unreadableCoding.map { coding in
                    "\(place) sent a body in a content coding that cannot be read (\(coding)):"
                        + " it should answer without Content-Encoding, or with gzip."
                } ?? "\(place) sent a response that is not valid HTTP."
        case .unsendable:
            let subject = credential.map { "token request of \($0)" } ?? "request to \(place)"
            let detail = "The \(subject) cannot be written as HTTP: does a value contain a line break?"
            self.init(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
            return
        case .missingAssertion:
            let missing = failure.missingAssertion
            let reason = missing.map { "\($0.place): \($0.reason)" } ?? "it is missing"
            let detail = "The assertion of \(credential ?? place) cannot be read: \(reason)."
            self.init(
                .transient(retryAfter: nil),
                problem: GatewayProblem(.tokenTemporarilyUnavailable, detail)
            )
            return
        }
        let whole = [detail, failure.proxyDetail].compactMap(\.self).joined(separator: " ")
        let problem = GatewayProblem(kind, whole, hopError: failure.hopError, nextHop: request.nextHop)
        self.init(.transient(retryAfter: nil), problem: problem)
    }

    private static func detail(of error: GatewayProblem.HopError?, at place: String) -> String {
        switch error {
        case .certificateUntrusted:
            "The certificate of \(place) is not trusted. If it comes from your own CA, add that CA to this machine's (update-ca-certificates)."
        case .certificateNamesOther: "The certificate of \(place) is for another host."
        case .handshakeTimeout: "\(place) did not finish the TLS handshake in time."
        case .handshakeFailed: "\(place) does not speak TLS on this port."
        default: "The TLS handshake with \(place) failed."
        }
    }

    /// - Parameter failure: Why a program brought no token. Nothing that it printed is repeated.
    init(explaining failure: ProgramFailure, of program: TokenProgram, credential: String) {
        let detail = "The program \(program.command.first ?? "") of \(credential) \(failure.message)."
        switch failure.reason {
        case .notFound:
            self.init(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
        case .timedOut:
            self.init(.transient(retryAfter: nil), problem: GatewayProblem(.tokenEndpointTimeout, detail))
        case .notStarted, .outputTooLarge, .failed:
            self.init(.transient(retryAfter: nil), problem: GatewayProblem(.tokenTemporarilyUnavailable, detail))
        }
    }

    static func endless(credential: String) -> TokenFailure {
        let detail =
            "The authorization server of \(credential) sent \(GrantAttempt.maximumSteps) responses without a token."
        return TokenFailure(
            .transient(retryAfter: nil),
            problem: GatewayProblem(.tokenTemporarilyUnavailable, detail)
        )
    }

    static func deadOnArrival(credential: String) -> TokenFailure {
        let detail =
            "The token that the authorization server issued for \(credential) has already expired; are both clocks right?"
        return TokenFailure(
            .transient(retryAfter: nil),
            problem: GatewayProblem(.tokenTemporarilyUnavailable, detail)
        )
    }
}

extension TokenTransportFailure {
    /// What `Proxy-Status` calls it; the next hop is the token endpoint.
    fileprivate var hopError: GatewayProblem.HopError? {
        switch reason {
        case .nameNotResolved: .nameNotResolved
        case .connectionRefused: .connectionRefused
        case .connectTimeout: .connectionTimeout
        case .tlsFailed: alert == nil ? tlsError ?? .certificateRefused : .handshakeFailed
        case .responseTimeout: .responseTimeout
        case .connectionLost: .connectionTerminated
        case .answerTooLarge, .invalidAnswer: .protocolError
        case .unsendable, .missingAssertion: nil
        }
    }
}

extension TokenRequest {
    /// As `Proxy-Status` names it.
    var nextHop: String { url.origin.authority }
}
