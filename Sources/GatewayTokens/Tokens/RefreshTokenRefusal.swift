package import GatewayHTTP

/// The authority does not accept the stored refresh token any more. Gateways that find this with it do not send it by themselves.
package struct RefreshTokenRefusal: Hashable, Sendable {
    /// The one that was refused. With any other one in the record, the refusal means nothing.
    package let refreshToken: Secret
    /// The answer to an earlier renewal had been lost, so the refresh token may have been spent by a gateway.
    package let isRotationUncertain: Bool
    /// What waiting requests are answered with, without a command.
    package let problem: GatewayProblem

    package init(of refreshToken: Secret, isRotationUncertain: Bool, problem: GatewayProblem) {
        self.refreshToken = refreshToken
        self.isRotationUncertain = isRotationUncertain
        self.problem = problem
    }

    /// - Returns: nil when the failure leaves something else to do than to log in.
    package init?(of refreshToken: Secret?, by failure: TokenFailure, isRotationUncertain: Bool) {
        guard let refreshToken, case .loginRequired = failure.class, !failure.clearsToken else { return nil }
        self.init(of: refreshToken, isRotationUncertain: isRotationUncertain, problem: failure.problem)
    }

    /// What the gateway that was refused has told its own clients and operators.
    package var failure: TokenFailure {
        var failure = TokenFailure(.loginRequired, problem: problem)
        failure.authorityError = problem.cause.map { AuthorityError(status: $0.httpStatus, code: $0.code) }
        return failure
    }
}
