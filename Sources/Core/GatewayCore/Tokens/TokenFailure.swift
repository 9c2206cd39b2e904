/// Why a grant did not yield a token, in the classes that decide what happens next.
package struct TokenFailure: Error, Hashable, Sendable {
    package enum Class: Hashable, Sendable {
        /// Try again with back-off; a live token is still served.
        case transient(retryAfter: Duration?)
        /// No further calls until the configuration, the secret or the login changes.
        case terminal
        /// Only a person can go on.
        case loginRequired
    }

    package let `class`: Class
    /// What waiting requests are answered with.
    package private(set) var problem: GatewayProblem
    /// Drop the stored token: the authority no longer knows it.
    package var clearsToken: Bool

    package init(_ class: Class, problem: GatewayProblem, clearsToken: Bool = false) {
        self.class = `class`
        self.problem = problem
        self.clearsToken = clearsToken
    }

    /// - Parameter nextHop: Whose answer it comes from, unless it says so already.
    package func naming(_ nextHop: String?) -> TokenFailure {
        var named = self
        named.problem.nextHop = problem.nextHop ?? nextHop
        return named
    }
}

extension TokenFailure {
    package init(tooManyCalls detail: String) {
        self.init(
            .transient(retryAfter: BackOff.longest),
            problem: GatewayProblem(.tokenTemporarilyUnavailable, detail, retryAfter: BackOff.longest)
        )
    }
}
