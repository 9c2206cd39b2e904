extension GrantAttempt {
    /// Gives up the refresh, and goes on with what the configuration holds.
    package mutating func beginAnew(after error: RefreshError) {
        restartedAfterStep = answers
        isRefreshTokenRefused = error.endsRefreshToken
        outputs = [:]
    }
}

extension RefreshError {
    /// Whether an error that blames the request may as well be the end of the refresh token: the same request has worked before.
    /// Xee answers `invalid_request` to a refresh token that has ended (github.com/xee-lab/xee-api-docs/issues/82).
    package func mayEndLogin(in attempt: GrantAttempt) -> Bool { self == .request && attempt.hasWorked }

    /// Whether the grant asks for a token anew within the same attempt, with what the configuration holds.
    ///
    /// A refused refresh token asks for it at once. Where the answer says nothing about the refresh token, it is asked for
    /// when the refresh has been tried often enough.
    package func acquiresAnew(in attempt: GrantAttempt) -> Bool {
        switch self {
        case .refused: true
        case .suspect, .configuration, .request: attempt.mayAcquireAnew
        case .personNeeded, .transient: false
        }
    }
}
