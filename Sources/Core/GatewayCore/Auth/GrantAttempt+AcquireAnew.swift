extension GrantAttempt {
    /// Gives up the refresh, and goes on with what the configuration holds.
    package mutating func beginAnew(after error: RefreshError) {
        restartedAfterStep = answers
        isRefreshTokenRefused = error.endsRefreshToken
        outputs = [:]
    }
}

extension RefreshError {
    /// Whether the grant asks for a token anew within the same attempt, with what the configuration holds.
    ///
    /// A refused refresh token asks for it at once. Where the answer says nothing about the refresh token, it is asked for
    /// when the refresh has been tried often enough.
    package func acquiresAnew(in attempt: GrantAttempt) -> Bool {
        switch self {
        case .refused: true
        case .suspect, .configuration: attempt.mayAcquireAnew
        case .personNeeded, .transient: false
        }
    }
}
