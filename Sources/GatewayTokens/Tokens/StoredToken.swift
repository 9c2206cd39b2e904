package import GatewayHTTP

/// A token as a store keeps it: with its generation, and with what a crash in the middle of a rotation must not lose.
package struct StoredToken: Hashable, Sendable {
    package var generation: Int
    package var token: TokenSet
    /// The refresh token that was spent to get `token`; kept until `token` has worked once.
    package var previousRefreshToken: Secret?
    /// Written before a refresh token is spent, removed when the new pair is stored. Found at start: the gateway
    /// died, or lost the answer, in between.
    package var attempt: RotationAttempt?
    /// The refresh token came with an answer that brought no token that can be used, so it may be none. Until it has worked,
    /// ``previousRefreshToken`` is the last one that has.
    package var isUnproven = false
    /// The upstream rejected this generation, so it must not be injected again after a restart.
    package var isRejected: Bool
    /// Revoked, or no longer known to the authorization server: it holds no secret any more, and keeps the token of the
    /// configuration from being taken up again.
    package var isRevoked: Bool
    /// It was restored from a backup, so its refresh token may have been spent since. The next token does not have the mark.
    package var isRestored = false
    /// What the authorization server has said of a refresh token; see ``knownRefusal``.
    package var refusal: RefreshTokenRefusal?

    package init(
        generation: Int,
        token: TokenSet,
        previousRefreshToken: Secret? = nil,
        attempt: RotationAttempt? = nil,
        isRejected: Bool = false,
        isRevoked: Bool = false
    ) {
        self.generation = generation
        self.token = token
        self.previousRefreshToken = previousRefreshToken
        self.attempt = attempt
        self.isRejected = isRejected
        self.isRevoked = isRevoked
    }

    /// Whether the refresh token may be spent already.
    ///
    /// - Parameter rotates: Whether the grant's refresh tokens are valid once.
    package func isRefreshTokenUncertain(rotates: Bool) -> Bool {
        attempt != nil || knownRefusal?.isRotationUncertain == true
            || rotates && isRestored && token.refreshToken != nil
    }

    /// The authorization server's refusal of the refresh token; nil while it has not refused it.
    package var knownRefusal: RefreshTokenRefusal? {
        refusal.flatMap { $0.refreshToken == token.refreshToken ? $0 : nil }
    }

    /// Takes over what another gateway has written about the same token since this record was read: the journal of an
    /// attempt, and a refusal.
    mutating func keepFindings(of other: StoredToken) {
        guard other.token == token else { return }
        attempt = attempt ?? other.attempt
        refusal = refusal ?? other.refusal
    }

    /// What is left of a token that is dead for good.
    package static func revoked(generation: Int, at now: UnixTime) -> StoredToken {
        let nothing = TokenSet(access: Secret(""), obtainedAt: now)
        return StoredToken(generation: generation, token: nothing, isRejected: true, isRevoked: true)
    }
}

package struct RotationAttempt: Hashable, Sendable {
    package let id: String
    /// The generation whose refresh token is being spent.
    package let generation: Int
    package let startedAt: UnixTime

    package init(id: String, generation: Int, startedAt: UnixTime) {
        self.id = id
        self.generation = generation
        self.startedAt = startedAt
    }
}

/// The server does not accept the stored refresh token any more. Gateways that find this with it do not send it by themselves.
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
