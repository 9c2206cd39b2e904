import GatewayCore

extension TokenFailure {
    /// An answer to a refresh that no authority is known to give.
    ///
    /// - Parameter authority: As a sentence begins: `Box`, `The authority`.
    init(suspect reply: TokenReply, from authority: String) {
        let code = OAuthErrorCode.allowListed(RefreshError.code(in: reply))
        self.init(
            .suspect,
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                "\(authority) answered the refresh with status \(reply.status) and no known error code: does a firewall, a"
                    + " proxy or a portal answer in its place? The refresh token is kept, and the gateway tries again.",
                cause: GatewayProblem.Cause(code: code, httpStatus: reply.status)
            )
        )
    }
}
