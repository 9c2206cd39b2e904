import GatewayHTTP

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
