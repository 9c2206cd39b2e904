/// A failure that a client may be told about: what it is, whose fault, and what to do.
///
/// Everything in it is safe to send: fixed text, names from the configuration, allow-listed error codes.
package struct GatewayProblem: Error, Hashable, Sendable {
    package let kind: ProblemKind
    /// One sentence that says what happened and, where it helps, what to do.
    package var detail: String
    /// What the authority or the upstream answered, when it did.
    package var cause: Cause?
    package var retryAfter: Duration?
    /// A command for the person who runs the gateway, for example `authgateway login campus`.
    package var command: String?

    /// An operation of an operator has failed, and taken the token away all the same: other gateways have that to follow.
    package var hasTakenAway = false

    /// What happened on the way, where the kind leaves several possibilities.
    package var hopError: HopError?
    /// Who failed, as `Proxy-Status` names it, where that is not the route's upstream: the token endpoint.
    package var nextHop: String?

    /// The `error` parameter of `Proxy-Status`.
    package var proxyStatusError: String { hopError?.proxyStatusError ?? kind.proxyStatusError }

    package struct Cause: Hashable, Sendable {
        /// An OAuth error code from the allow-list (``OAuthErrorCode``); never free text of the authority.
        package let code: String?
        package let httpStatus: Int?

        package init(code: String? = nil, httpStatus: Int? = nil) {
            self.code = code
            self.httpStatus = httpStatus
        }
    }

    package init(
        _ kind: ProblemKind,
        _ detail: String,
        cause: Cause? = nil,
        retryAfter: Duration? = nil,
        command: String? = nil,
        hopError: HopError? = nil,
        nextHop: String? = nil
    ) {
        self.kind = kind
        self.detail = detail
        self.cause = cause
        self.retryAfter = retryAfter
        self.command = command
        self.hopError = hopError
        self.nextHop = nextHop
    }
}
