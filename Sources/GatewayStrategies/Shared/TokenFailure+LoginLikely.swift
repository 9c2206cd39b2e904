import GatewayCore

extension TokenFailure {
    /// A refusal of a request that has worked before. Only a person can tell whether the login has ended or the configuration is
    /// wrong, so the text names both, the login first.
    ///
    /// - Parameters:
    ///   - what: What was refused, as a sentence begins.
    ///   - login: How to log in, with its full stop.
    ///   - otherwise: What to check in the configuration, with its full stop.
    static func loginLikely(
        _ kind: ProblemKind = .loginRequired,
        what: String,
        login: String,
        otherwise: String,
        cause: GatewayProblem.Cause?
    ) -> TokenFailure {
        let detail = "\(what): \(login) If that does not help, \(otherwise)"
        return TokenFailure(.loginLikely, problem: GatewayProblem(kind, detail, cause: cause))
    }
}
