import GatewayHTTP

/// What the answers of an attempt say about the refresh token: whether there is a next one, and whether it may be spent.
struct RefreshTokenState: Hashable, Sendable {
    /// The next one, once an answer has brought it.
    private(set) var next: Secret?
    /// Whether the next one, or the one at hand while there is none, may be spent.
    private(set) var isLost = false
    /// The next one came with an answer that brought no token that can be used. It may be none, so the one that was sent
    /// must not be forgotten yet.
    private(set) var isUnproven = false
    /// The authorization server has refused the one at hand, and the attempt went on without it.
    private(set) var isRefused = false

    /// Takes that no answer came.
    ///
    /// - Parameter wasSent: Whether the refresh token was part of what was asked.
    mutating func takeNoAnswer(mayHaveBeenProcessed: Bool, wasSent: Bool) {
        isLost = isLost || mayHaveBeenProcessed && wasSent
    }

    /// Takes an answer.
    ///
    /// - Parameter wasSent: Whether the refresh token was part of what was asked.
    mutating func take(_ reply: TokenReply, _ meaning: GrantAnswer, in attempt: GrantAttempt, wasSent: Bool) {
        isRefused = attempt.isRefreshTokenRefused
        if let refreshToken = attempt.nextRefreshToken, refreshToken != next {
            next = refreshToken
            isLost = false
            if case .failure = meaning { isUnproven = true } else { isUnproven = false }
        } else if attempt.restartedAfterStep == attempt.answers {
            // The answer was a refusal, not a new pair.
            isLost = false
        } else if wasSent, Self.mayHaveSpent(reply, meaning) {
            isLost = true
        }
    }

    /// Whether a refresh token that was sent may be spent when this is the answer.
    private static func mayHaveSpent(_ reply: TokenReply, _ meaning: GrantAnswer) -> Bool {
        // What is only put right after a refusal was not acted upon.
        if case .next = meaning { return reply.status < 400 }
        // Some authorization servers send an error with status 200.
        if case .failure = meaning, reply.status < 300, RefreshError(reply) != nil { return false }
        return (200..<300).contains(reply.status) || (reply.status >= 500 && reply.status != 503)
    }
}
