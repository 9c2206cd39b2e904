/// What the driver of an exchange reports to it.
package enum ExchangeEvent: Hashable, Sendable {
    // MARK: Credential

    /// A credential is at hand, or the route injects none.
    case authorized
    /// No credential is at hand; the source has been asked for one.
    case credentialAwaited
    /// No credential will come, or not in time.
    case credentialUnavailable(ProblemKind)
    /// The right to use the credential was taken away. Another one may come.
    case withdrawn
    /// Likewise, from a source that a reload has replaced: no other one comes from it.
    case sourceWithdrawn
    /// A reload has come.
    ///
    /// - Parameters:
    ///   - takesRight: It takes away the client, the route or the credential, or its rules refuse the request.
    ///   - isAdmitted: The same request would go the same way now.
    case reloaded(takesRight: Bool, isAdmitted: Bool)

    // MARK: Connection

    /// - Parameters:
    ///   - isReused: The connection has carried a request before, so the upstream may have closed it meanwhile.
    ///   - mayRefuse: The upstream can say of a request that it has not looked at it.
    case connected(isReused: Bool, mayRefuse: Bool = false)
    case connectionFailed
    /// The connection cannot carry the head, and nothing was sent on it. Another version of HTTP can.
    case headUnsendable

    // MARK: Request

    /// Content came from the client.
    ///
    /// - Parameters:
    ///   - isHeld: A copy of all content so far is within the limit for a replay.
    ///   - isLast: The request ends with it.
    case requestContent(isHeld: Bool, isLast: Bool)
    /// The rest of the request breaks a rule; the driver knows which.
    case requestInvalid
    /// The client reads no answer.
    case clientLeft

    // MARK: Response

    case informational(status: Int)
    case responseHead(ResponseFacts)
    /// - Parameter isReusable: The upstream connection can carry another request.
    case responseEnded(isReusable: Bool)
    case upstreamLost(ConnectionLoss)
    /// The response breaks a rule; the driver knows which.
    case responseInvalid
    /// The client's version of HTTP cannot carry the head of the response, and nothing of that was sent; the driver knows why.
    case responseUnsendable
    case tunnelEnded

    // MARK: Time

    /// The deadline has passed without progress.
    case stalled(Stall)
}

/// What the rules need to know of the head of a request.
package struct RequestFacts: Hashable, Sendable {
    /// May be repeated although an earlier attempt may have been acted upon (RFC 9110 section 9.2.2).
    package var isIdempotent: Bool
    package var hasContent: Bool
    package var expectsContinue: Bool
    package var isHTTP10: Bool

    package init(isIdempotent: Bool, hasContent: Bool, expectsContinue: Bool = false, isHTTP10: Bool = false) {
        self.isIdempotent = isIdempotent
        self.hasContent = hasContent
        self.expectsContinue = expectsContinue
        self.isHTTP10 = isHTTP10
    }
}

/// What the rules need to know of the head of a final response.
package struct ResponseFacts: Hashable, Sendable {
    package var status: Int
    package var rejection: Rejection
    /// A 101 names only protocols that the request offered.
    package var switchesAsOffered: Bool

    /// What the response says of the credential that the request went with.
    package enum Rejection: Hashable, Sendable {
        case none
        /// The token is not valid.
        case token(isRenewable: Bool)
        /// A redirect or a page says that the token is not valid, and the upstream may have acted upon the request. So the token is
        /// renewed, and the request is not sent again.
        case tokenNotSentAgain
        /// The token is not valid, but the path may reject every token, so it is not renewed (``RejectionLedger``).
        case tokenWithoutRenewal
        /// The token is not valid, but the client's renewal budget is empty. The next renewal is available after this time.
        case tokenOverBudget(fillsAfter: Duration)
        /// The upstream asks for a credential that the request went without.
        case challenge(isAnswered: Bool)
    }

    package init(status: Int, rejection: Rejection = .none, switchesAsOffered: Bool = false) {
        self.status = status
        self.rejection = rejection
        self.switchesAsOffered = switchesAsOffered
    }
}

/// How an upstream connection was lost before the response was complete.
package struct ConnectionLoss: Hashable, Sendable {
    /// A byte of the response has come.
    package var hasAnswered: Bool
    /// Nothing of the request has left.
    package var isUnprocessed: Bool
    /// The upstream said that it has not looked at the request (RFC 9113 section 8.7).
    package var isRefused: Bool
    /// Why the upstream ended the connection, if TLS said so.
    package var alert: TLSAlert?

    package init(hasAnswered: Bool, isUnprocessed: Bool, isRefused: Bool = false, alert: TLSAlert? = nil) {
        self.hasAnswered = hasAnswered
        self.isUnprocessed = isUnprocessed
        self.isRefused = isRefused
        self.alert = alert
    }
}
