/// Decides when a request is sent to the upstream again.
///
/// A request is sent again once because its token was rejected, and once per token because a pooled connection was lost. It is sent
/// again up to three times because the upstream refused to look at it.
enum RetryPolicy {
    /// What has become of the request so far.
    struct Attempt: Hashable, Sendable {
        /// May be repeated although an earlier attempt may have been acted upon (RFC 9110 section 9.2.2).
        var isIdempotent: Bool
        /// All content that has come can be sent again.
        var isHeld: Bool
        var responseHasBegun = false
        /// The token was rejected, and the request was sent with another one.
        var wasReplayed = false
        /// The connection was lost, and the request was sent on another one.
        var wasReconnected = false
        var isOnReusedConnection = false
        /// The upstream said that it has not looked at the request.
        var timesRefused = 0
        /// A reload has come under which the same request would be refused.
        var isLast = false

        var canBeSentAgain: Bool { isHeld && !responseHasBegun && !isLast }
    }

    /// Whether a request whose connection was lost is sent on a fresh one.
    ///
    /// A fresh connection that is lost is not replaced: the upstream is not well. A request that may have been acted upon is
    /// repeated only where its method allows that.
    static func sendsAgain(_ attempt: Attempt, after loss: ConnectionLoss) -> Bool {
        guard !loss.hasAnswered, !attempt.responseHasBegun, !attempt.isLast else { return false }
        if loss.isRefused { return attempt.isHeld && attempt.timesRefused < maximumRefusals }
        guard attempt.isOnReusedConnection, !attempt.wasReconnected else { return false }
        return loss.isUnprocessed || attempt.isIdempotent && attempt.isHeld
    }

    private static let maximumRefusals = 3

    /// What happens to a response that rejects the credential.
    enum RetryDecision: Hashable, Sendable {
        case sendAgain
        case pass(RejectionOutcome)
    }

    /// Whether a request whose token was rejected is sent with another one.
    ///
    /// Not a second time: an upstream that refuses every token would have the gateway obtain tokens without end.
    static func decision(for attempt: Attempt, after rejection: ResponseFacts.Rejection) -> RetryDecision {
        switch rejection {
        case .none, .challenge(isAnswered: false): .pass(.none)
        case .challenge(isAnswered: true):
            if attempt.wasReplayed || attempt.isLast {
                .pass(.none)
            } else {
                attempt.canBeSentAgain ? .sendAgain : .pass(.challengedNotHeld)
            }
        case .token where attempt.wasReplayed, .tokenWithoutRenewal where attempt.wasReplayed,
            .tokenOverBudget where attempt.wasReplayed:
            .pass(.rejectedAgain)
        case .tokenNotSentAgain: .pass(attempt.wasReplayed ? .rejectedAgain : .rejectedNotSafe)
        case .tokenWithoutRenewal: .pass(.notRenewed)
        case .tokenOverBudget(let wait): .pass(.overBudget(fillsAfter: wait))
        case .token(isRenewable: false): .pass(.rejected)
        case .token where attempt.isLast: .pass(.rejected)
        case .token(isRenewable: true): attempt.canBeSentAgain ? .sendAgain : .pass(.rejectedNotHeld)
        }
    }
}

/// Decides whether the content of a request is kept for a second try.
enum HoldPolicy {
    /// Whether a second try may come at all.
    ///
    /// - Parameter isRenewable: The credential can be replaced without a person.
    static func holds(isIdempotent: Bool, isRenewable: Bool) -> Bool { isIdempotent || isRenewable }

    /// Whether what has come fits into what is kept of one request. Too much ends the holding, not the upload.
    static func fits(_ count: Int, behind held: Int, limit: Int) -> Bool { held + count <= limit }
}
