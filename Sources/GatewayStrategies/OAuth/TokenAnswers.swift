import GatewayCore

/// What the answers of one token endpoint mean to a grant that began with a login.
struct TokenAnswers: Sendable {
    let errors: OAuthErrors
    /// How long a refresh token lives when the authority does not say.
    var refreshLifetime: Duration?

    /// The answer to the code.
    ///
    /// The code is spent. If the answer brings a refresh token and no access token that can be used, the result is the refresh
    /// token alone: it is the login.
    func exchange(_ reply: TokenReply, at now: Moment) -> Result<TokenSet, TokenFailure> {
        let result = read(errors.read(reply, at: now, rotatesRefreshToken: true), at: now, holding: nil)
        if case .failure = result, let refreshToken = nextRefreshToken(reply) {
            var token = TokenSet(
                access: Secret(""),
                refreshToken: refreshToken,
                obtainedAt: now.wall,
                expiresAt: now.wall
            )
            token.refreshTokenExpiresAt = refreshLifetime.map { now.wall + $0 }
            return .success(token)
        }
        return result.mapError { failure in
            guard let code = failure.problem.cause?.code, Self.refusalsOfCodes.contains(code) else { return failure }
            return TokenFailure(
                .loginRequired,
                problem: GatewayProblem(
                    .loginFailed,
                    "\(errors.authority) did not accept the code (\(code)): it was used before, is too old, or"
                        + " belongs to another client or redirect_uri. Nothing was changed; begin a new login.",
                    cause: failure.problem.cause
                )
            )
        }
    }

    /// `bad_verification_code` is GitHub's.
    private static let refusalsOfCodes: Set<String> = ["invalid_grant", "bad_verification_code"]

    /// The answer to a refresh token. One that brings no new refresh token leaves the old one valid (RFC 6749 §6).
    func refresh(
        _ reply: TokenReply,
        in attempt: inout GrantAttempt,
        holding token: TokenSet?
    ) -> Result<TokenSet, TokenFailure> {
        attempt.nextRefreshToken = nextRefreshToken(reply)
        let answer = errors.read(reply, in: &attempt, rotatesRefreshToken: true, isRefresh: true)
        if case .success(let token) = answer { attempt.isRefreshTokenSpent = token.hasUnusableRefreshToken }
        let mayEndLogin = RefreshError(reply)?.mayEndLogin(in: attempt) == true
        return read(answer, at: attempt.now, holding: token)
            .mapError { mayEndLogin ? errors.orLogin($0, reply) : $0 }
    }

    /// What the refresh token was spent for, also when the access token beside it cannot be used. An error may name the
    /// member too, for example `{"error":"invalid_grant","refresh_token":"is invalid"}`.
    private func nextRefreshToken(_ reply: TokenReply) -> Secret? {
        guard (200..<300).contains(reply.status), RefreshError(reply) == nil else { return nil }
        return reply.document.flatMap(OAuthTokenResponse.refreshToken)
    }

    private func read(
        _ answer: Result<OAuthTokenResponse, TokenFailure>,
        at now: Moment,
        holding token: TokenSet?
    ) -> Result<TokenSet, TokenFailure> {
        answer.map { answer in
            var fresh = answer.tokenSet(at: now)
            guard let refreshToken = answer.refreshToken else {
                fresh.refreshToken = token?.refreshToken
                fresh.refreshTokenExpiresAt = token?.refreshTokenExpiresAt
                fresh.refreshTokenObtainedAt = token?.refreshTokenObtainedAt ?? token?.obtainedAt
                if answer.hasUnusableRefreshToken { fresh.endLoginWithAccess() }
                return fresh
            }
            fresh.refreshToken = refreshToken
            fresh.refreshTokenExpiresAt = (answer.refreshLifetime ?? refreshLifetime).map { now.wall + $0 }
            if let token, let earlier = token.refreshTokenExpiresAt, let end = fresh.refreshTokenExpiresAt,
                end < earlier + Self.tolerance
            {
                fresh.refreshTokenObtainedAt = token.refreshTokenObtainedAt ?? token.obtainedAt
            }
            return fresh
        }
    }

    /// An end that moves by less has not moved: authorities round, and answers take their time.
    private static let tolerance: Duration = .seconds(5)
}
