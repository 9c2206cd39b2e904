import GatewayCore

extension TokenFailure {
    /// An answer that says nothing about the credential: a later one may bring the token.
    ///
    /// - Parameters:
    ///   - authority: As a sentence begins: `Box`, `The authority`.
    ///   - code: An OAuth error code from the allow-list.
    ///   - wait: How long the authority wants to be left alone.
    static func transient(authority: String, status: Int, code: String? = nil, wait: Duration?) -> TokenFailure {
        TokenFailure(
            .transient(retryAfter: wait),
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                "\(authority) gives no token at the moment (status \(status)).",
                cause: GatewayProblem.Cause(code: code, httpStatus: status),
                retryAfter: wait
            )
        )
    }
}
