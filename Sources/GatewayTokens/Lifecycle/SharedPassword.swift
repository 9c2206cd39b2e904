import GatewayHTTP

/// Whether a password that all subjects of a credential share may be sent. Directories lock accounts.
package struct SharedPassword: Sendable {
    /// The number of refusals in turn after which a password that has worked counts as refused. One subject may have been removed.
    package static let tolerated = 3

    /// Why it is not sent, until an operator's call for one of the subjects has brought a token.
    package private(set) var refusal: TokenFailure?
    private var hasWorked = false
    private var refusedInTurn = 0

    package init() {}

    /// Takes that the authority has given a subject a token.
    package mutating func worked() {
        hasWorked = true
        refusedInTurn = 0
        refusal = nil
    }

    /// Takes why a subject has got no token.
    ///
    /// Another status than 401 is about that subject alone. So is a 401 to one that never had a token, once the password has worked:
    /// a client could invent subjects to stop the calls of all others.
    ///
    /// - Parameter hadToken: Whether the subject has had one.
    package mutating func failed(_ failure: TokenFailure, hadToken: Bool) {
        guard failure.isRefusedPassword, failure.problem.cause?.httpStatus == 401 else { return }
        guard hadToken || !hasWorked else { return }
        refusedInTurn += 1
        if !hasWorked || refusedInTurn >= Self.tolerated { refusal = failure }
    }
}
