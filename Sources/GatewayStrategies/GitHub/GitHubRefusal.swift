import GatewayCore

/// An answer of GitHub's API without success.
struct GitHubRefusal {
    private let status: Int
    private let isTransient: Bool
    private let wait: Duration?

    init(_ reply: TokenReply, at now: Moment) {
        status = reply.status
        wait = reply.retryAfter(at: now)
        // A limit on requests is a 403 or a 429 ("Rate limits for the REST API", docs.github.com).
        let isLimit = reply.status == 403 && (wait != nil || reply.field("X-RateLimit-Remaining") == "0")
        isTransient = isLimit || StatusMap.standard.outcome(of: reply.status) == .transient
    }

    func failure(after advice: String) -> TokenFailure {
        guard !isTransient else { return .transient(authority: "GitHub", status: status, wait: wait) }
        let cause = GatewayProblem.Cause(httpStatus: status)
        let detail = "GitHub refused the request for a token (status \(status)): \(advice)"
        return TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail, cause: cause))
    }
}
