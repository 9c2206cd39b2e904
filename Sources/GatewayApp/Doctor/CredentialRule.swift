package import GatewayHTTP
package import GatewayProxy
package import GatewayTokens

/// Findings about a credential: whether it can give a token.
package enum CredentialRule {
    package enum Observation: Hashable, Sendable {
        /// The gateway sends what the configuration says.
        case fixed
        /// Each request names whose token it needs.
        case perSubject
        case locked
        /// The running gateway was asked.
        case status(TokenStatus)
        /// One token was fetched and forgotten.
        case obtained
        case failed(GatewayProblem)
        /// Its renewal spends a token, or nothing fetches it: the store was read.
        case stored(Stored, canLogIn: Bool)
        /// The configuration has its token, and nothing renews it.
        case configured(end: UnixTime?)
        case notTried(String)
    }

    /// What the token store says; nothing was sent anywhere.
    package enum Stored: Hashable, Sendable {
        case nothing
        case unreadable(String)
        /// - renewalEnd: When the refresh token ends, where the authority said so.
        case token(end: UnixTime?, renewalEnd: UnixTime?, hasRefreshToken: Bool)
        case revoked
        /// A refresh token was sent, and no answer was stored.
        case rotationUncertain
        /// The authority has refused its refresh token.
        case refused
        /// A refresh token that is valid once came back with a backup.
        case restored
    }

    package static func finding(of name: String, _ observation: Observation, at now: UnixTime) -> DoctorFinding {
        switch observation {
        case .fixed: return ok(name, "sent as the configuration says; there is nothing to fetch")
        case .perSubject: return skipped(name, "each request names whose token it needs")
        case .notTried(let reason): return skipped(name, reason)
        case .obtained: return ok(name, "a token was obtained and discarded")
        case .failed(let problem): return failure(name, problem)
        case .locked: return locked(name)
        case .configured(let end): return configured(name, end, now)
        case .status(let status): return running(name, status)
        case .stored(let stored, let canLogIn): return kept(name, stored, canLogIn, now)
        }
    }

    private static func locked(_ name: String) -> DoctorFinding {
        let remedy = "Unlock it if it may be used again."
        return needsPerson(name, "locked by an operator", remedy, GatewayCommand.line("token", "unlock", name))
    }

    // MARK: Without a running gateway

    private static func failure(_ name: String, _ problem: GatewayProblem) -> DoctorFinding {
        let remedy = problem.command == nil ? "Correct what the message names, then try it again." : nil
        let command = problem.command ?? "authgateway check --acquire"
        return needsPerson(name, "no token: \(problem.detail)", remedy, command)
    }

    private static func configured(_ name: String, _ end: UnixTime?, _ now: UnixTime) -> DoctorFinding {
        guard let end else { return ok(name, "its token is in the configuration; nothing renews it") }
        guard end > now else {
            let remedy = "Replace the token."
            return needsPerson(name, "the token of the configuration has expired", remedy, nil)
        }
        let text = "the token of the configuration expires in \(countdown(end - now))"
        return ok(name, text, gathered: "the token of the configuration has not expired")
    }

    private static func kept(
        _ name: String,
        _ stored: Stored,
        _ canLogIn: Bool,
        _ now: UnixTime
    ) -> DoctorFinding {
        let login = canLogIn ? GatewayCommand.line("login", name) : nil
        let remedy = canLogIn ? "Log in." : "Use authgateway token import, or correct the configuration."
        switch stored {
        case .nothing: return needsPerson(name, "there is no token in the store", remedy, login)
        case .unreadable(let reason): return needsPerson(name, "its token cannot be read: \(reason)", nil, nil)
        case .revoked: return needsPerson(name, "its token was revoked", remedy, login)
        case .rotationUncertain:
            let text =
                "its refresh token was sent and the answer was lost; the next start finds out whether it still works"
            return DoctorFinding(.credentials, .warning, name, text, gathered: text, remedy: remedy, command: login)
        case .refused:
            return needsPerson(name, "the authorization server no longer accepts its refresh token", remedy, login)
        case .restored:
            let text = "its refresh token comes from a backup and may have been spent since, so it is not sent"
            return needsPerson(name, text, remedy, login)
        case .token(_, let renewalEnd?, true) where renewalEnd <= now:
            return needsPerson(name, "its login has expired", remedy, login)
        case .token(let end?, _, false) where end <= now:
            return needsPerson(name, "its token has expired, and nothing renews it", remedy, login)
        case .token(_, let renewalEnd, _):
            let rest = renewalEnd.map { ", its login expires in \(countdown($0 - now))" } ?? ""
            let (stored, untried) = (
                "its token is in the store", "; not tried, because that would spend its refresh token"
            )
            return ok(name, stored + rest + untried, gathered: stored + untried)
        }
    }

    // MARK: From the running gateway

    private static func running(_ name: String, _ status: TokenStatus) -> DoctorFinding {
        let end =
            status.remainingSeconds.map { $0 > 0 ? ", expires in \(ConfigUnits.countdown($0))" : ", expired" } ?? ""
        if status.needsPerson || status.failing?.command != nil && status.state != .valid {
            if status.state == .locked { return locked(name) }
            let text = status.failing?.reason ?? status.lastError ?? status.state.rawValue
            let isCommand = status.action?.hasPrefix("authgateway ") ?? false
            return needsPerson(
                name,
                "\(status.state.rawValue): \(text)",
                status.failing?.remedy ?? (isCommand ? nil : status.action),
                status.failing?.command ?? (isCommand ? status.action : GatewayCommand.line("status", name))
            )
        }
        if let reason = status.failing?.reason ?? status.lastError {
            return DoctorFinding(
                .credentials,
                [.empty, .expired, .rejected].contains(status.state) ? .error : .warning,
                name,
                "\(status.state.rawValue)\(end); the last try failed: \(reason)",
                gathered: "\(status.state.rawValue); the last try failed: \(ofAny(reason, name))",
                remedy: status.failing?.remedy,
                // Where the failure names no command, a call would be refused as well.
                command: status.failing.map(\.command) ?? GatewayCommand.line("token", "refresh", name)
            )
        }
        if let text = status.missingScopeText {
            return DoctorFinding(
                .credentials,
                .warning,
                name,
                "\(status.state.rawValue)\(end); \(text)",
                gathered: "\(status.state.rawValue); an upstream refuses some requests because the token lacks a scope",
                command: status.action
            )
        }
        if status.isOnlyRejected, let rejected = status.lastRejectedAt {
            return DoctorFinding(
                .credentials,
                .warning,
                name,
                "static; rejected by an upstream, last at \(rejected), and never accepted",
                gathered: "static; rejected by an upstream, and never accepted",
                remedy: "Check \(status.secretOrigin ?? "its secret")."
            )
        }
        if status.isStatic == true, let rejected = status.lastRejectedAt, let accepted = status.lastAcceptedAt,
            accepted < rejected
        {
            return DoctorFinding(
                .credentials,
                .warning,
                name,
                "static; an upstream rejected it at \(rejected), and last accepted it at \(accepted)",
                gathered: "static; an upstream has rejected it since it was last accepted",
                remedy: "If it is rejected for every client, replace \(status.secretOrigin ?? "its secret").",
                command: GatewayCommand.line("audit", "who", name)
            )
        }
        if status.isStatic == true {
            let accepted = status.lastAcceptedAt.map {
                ("last accepted by an upstream at \($0)", "accepted by an upstream")
            }
            let (text, gathered) = accepted ?? ("not accepted by an upstream yet", "not accepted by an upstream yet")
            let asked = "(asked the running gateway)"
            return ok(name, "static; \(text) \(asked)", gathered: "static; \(gathered) \(asked)")
        }
        switch status.state {
        case .empty: return ok(name, "no request has needed it yet (asked the running gateway)")
        default:
            let asked = " (asked the running gateway)"
            return ok(name, status.state.rawValue + end + asked, gathered: status.state.rawValue + asked)
        }
    }

    // MARK: Words

    private static func ok(_ name: String, _ text: String, gathered: String? = nil) -> DoctorFinding {
        DoctorFinding(.credentials, .ok, name, text, gathered: gathered)
    }

    private static func skipped(_ name: String, _ reason: String) -> DoctorFinding {
        DoctorFinding(.credentials, .skipped, name, "not tried: \(reason)")
    }

    private static func needsPerson(
        _ name: String,
        _ text: String,
        _ remedy: String?,
        _ command: String?
    ) -> DoctorFinding {
        DoctorFinding(
            .credentials,
            .error,
            name,
            text,
            gathered: ofAny(text, name),
            remedy: remedy,
            command: command
        )
    }

    /// A message about the token of a credential without its name, so that those of many credentials are one.
    private static func ofAny(_ text: String, _ name: String) -> String {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        let general = words.indices.map { index -> Substring in
            let word = words[index]
            let isAfterPreposition = index > 0 && (words[index - 1] == "of" || words[index - 1] == "for")
            guard isAfterPreposition, word.hasPrefix(name) else { return word }
            let rest = word.dropFirst(name.count)
            return rest.isEmpty || rest == "." || rest == ":" || rest == "," ? "each credential" + rest : word
        }
        return general.joined(separator: " ")
    }

    private static func countdown(_ duration: Duration) -> String {
        ConfigUnits.countdown(duration.secondsLeft)
    }
}

/// Findings about the gateway's own secrets and certificates that expire at a known time.
package enum ExpirationRule {
    package static func findings(of expirations: [Expiration]) -> [DoctorFinding] { expirations.map(finding) }

    private static func finding(of expiration: Expiration) -> DoctorFinding {
        let group: DoctorFinding.Group = expiration.kind == .certificate ? .tls : .credentials
        let left = ConfigUnits.countdown(expiration.remainingSeconds)
        let day = expiration.endsAt.prefix(10)
        guard expiration.remainingSeconds > 0 else {
            let text = "its \(expiration.kind.rawValue) expired on \(day)"
            let gathered = "its \(expiration.kind.rawValue) has expired"
            return DoctorFinding(group, .error, expiration.of, text, gathered: gathered, remedy: expiration.action)
        }
        let text = "its \(expiration.kind.rawValue) expires on \(day), in \(left)"
        return DoctorFinding(
            group,
            expiration.isSoon ? .warning : .ok,
            expiration.of,
            text,
            gathered: "its \(expiration.kind.rawValue) \(expiration.isSoon ? "expires" : "does not expire") soon",
            remedy: expiration.isSoon ? expiration.action : nil
        )
    }
}

/// Findings about the answer to the `whoami` request of a route.
package enum WhoAmIRule {
    /// - Parameter credential: The name of the route's credential.
    package static func finding(
        of answer: WhoAmIAnswer,
        to request: WhoAmI,
        route: String,
        credential: String
    ) -> DoctorFinding {
        let subject = "route \(route)"
        let text = answer.text(to: request)
        switch answer {
        case .known: return DoctorFinding(.credentials, .ok, subject, text)
        case .refused:
            let remedy = "Replace the secret of \(credential), or give its account access."
            return DoctorFinding(.credentials, .error, subject, text, remedy: remedy)
        case .unclear, .failed:
            let remedy = "Send the request through the gateway, and read the answer."
            return DoctorFinding(.credentials, .warning, subject, text, remedy: remedy)
        }
    }

    /// - Parameters:
    ///   - reason: Why it is not known whose the credentials are.
    ///   - file: The configuration.
    package static func unknown(_ reason: String, file: String) -> DoctorFinding {
        DoctorFinding(
            .credentials,
            .warning,
            "services",
            reason,
            remedy: "Ask them again, without the other checks.",
            command: GatewayCommand.line("check", "--acquire", file)
        )
    }
}
