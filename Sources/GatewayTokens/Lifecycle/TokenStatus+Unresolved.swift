package import GatewayHTTP

extension TokenStatus.Failing {
    /// What a person can type for one credential.
    package struct Commands: Sendable {
        /// nil where there is no login.
        package var login: String?
        package var refresh: String
        package var importing: String
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
            failedRequests: failedRequests
        )
    }
}

extension UnresolvedFailure {
    /// What a person can do, and what there is to type.
    fileprivate func remedy(_ commands: TokenStatus.Failing.Commands) -> (String, String?) {
        let problem = failure.problem
        switch failure.class {
        case .suspect:
            return (
                "Check whether a firewall, a proxy or a portal answers for the authority; \(sequel).", commands.refresh
            )
        case .transient(let wait?) where failure.authorityError?.status != nil:
            // A call before that is refused, too, and may prolong the wait: no command is given.
            let asked = "the authority asks for \(ConfigUnits.text(wait)) (Retry-After)"
            return ("Wait: \(asked); \(sequel).", nil)
        case .transient:
            return ("\(check ?? "Wait"); \(sequel).", commands.refresh)
        case .loginLikely, .loginRequired:
            let more = failure.class == .loginLikely ? " If that does not help, correct the configuration." : ""
            if let command = problem.command ?? commands.login { return ("Log in again.\(more)", command) }
            return ("Give the credential a new token.", commands.importing)
        case .terminal where problem.kind == .credentialMisconfigured:
            let more = nextTryAt == nil ? "; the gateway does not try again by itself" : ""
            return (
                "Correct the configuration or the secret, then try again\(more).", problem.command ?? commands.refresh
            )
        case .terminal:
            return ("Give the credential a new token.", problem.command ?? commands.importing)
        }
    }

    private var check: String? {
        switch failure.problem.kind {
        // The network works: something answers.
        case .tokenEndpointUnreachable where failure.problem.hopError == .protocolError:
            "Check what answers at the token endpoint's address"
        case .tokenEndpointUnreachable, .tokenEndpointTimeout: "Check the network and the authority's address"
        case .auditUnavailable: "Make the audit log writable"
        default: nil
        }
    }

    private var sequel: String {
        if nextTryAt != nil { return "the gateway tries again by itself" }
        return isTriedOnDemand ? "the next request tries again" : "the gateway does not try again by itself"
    }
}
