/// What the driver of an exchange does next.
package enum ExchangeStep: Hashable, Sendable {
    case nothing
    /// Get a connection to the upstream. A response that was held back is dropped first.
    ///
    /// - Parameter isFresh: One that has carried no request yet.
    case connect(isFresh: Bool)
    /// Give the connection back unused, and ask the source for a credential again.
    case reauthorize
    /// Send the head with the content that is held.
    case sendRequest
    /// Send the content that has come, and keep a copy of it if `isHeld`.
    case sendContent(isHeld: Bool)
    case passInformational
    /// Send the head of the response to the client.
    case passResponse(RejectionOutcome)
    /// Keep the response back, tell the source that the token was rejected, and ask it for another one.
    case holdResponse
    /// Send the response that was held back to the client after all.
    case passHeldResponse(RejectionOutcome)
    case tunnel
    /// The response is complete.
    case finish(reusesConnection: Bool)
    /// Close the upstream connection and answer the client with a problem.
    case respond(ExchangeProblem)
    /// Close both connections so that neither end takes it for a complete message.
    case cut(ExchangeProblem)
    /// Nothing has left. Authorize the same request again, under the configuration that has come.
    case beginAgain
    /// Close the upstream connection; there is no client to answer.
    case abandon
}

/// Why the exchange answers with a problem of its own, or is cut.
package enum ExchangeProblem: Hashable, Sendable {
    /// The driver knows it from the event.
    case reported
    /// An operator has taken the credential away.
    case withdrawn
    /// A reload has taken away the client, the route or the credential, or its rules refuse the request.
    case excluded
    case upstreamClosedEarly
    /// It ended the TLS connection with an alert in place of the response.
    case upstreamAlerted(TLSAlert)
    /// It has not looked at the request, however often that was sent.
    case upstreamRefused
    case protocolNotOffered
    case stalled(Stall)
}

/// What a response says of the token that the request went with, in `Gateway-Token`.
package enum RejectionOutcome: Hashable, Sendable {
    case none
    /// The token was rejected; it cannot be replaced without a person.
    case rejected
    /// The token was rejected; the content was too long to be held for a second try.
    case rejectedNotHeld
    /// A redirect or a page rejected the token; only GET and HEAD are sent again then.
    case rejectedNotSafe
    /// The upstream asked for a credential; the content was too long to be held for a second try.
    case challengedNotHeld
    /// The token was rejected on a path that has not accepted it, and that may reject every token.
    case notRenewed
    /// The token was rejected, and the client has caused as many renewals as it may. It may cause the next one after this time.
    case overBudget(fillsAfter: Duration)
    /// A token that had just been obtained was rejected, too.
    case rejectedAgain
    /// The token was rejected; no other one could be obtained.
    case notReplaced(ProblemKind)

    /// The source has to be told that its token was rejected.
    package var tellsSource: Bool {
        switch self {
        case .rejected, .rejectedNotHeld, .rejectedNotSafe: true
        case .none, .challengedNotHeld, .rejectedAgain, .notRenewed, .overBudget, .notReplaced: false
        }
    }

    /// Not rounded down: a client that waits so long may cause the next one.
    static func seconds(_ wait: Duration) -> Int64 { max((wait + .milliseconds(999)).components.seconds, 1) }

    /// The value of the field; nil where it is not sent.
    package func fieldValue(generation: Int) -> String? {
        switch self {
        case .none, .rejected: nil
        case .rejectedNotHeld: "generation=\(generation); retried=0; reason=\"request body not held\""
        case .rejectedNotSafe: "generation=\(generation); retried=0; reason=\"only GET and HEAD are sent again\""
        case .challengedNotHeld: "retried=0; reason=\"request body not held\""
        case .notRenewed: "generation=\(generation); retried=0; reason=\"rejection does not count\""
        case .overBudget(let wait):
            "generation=\(generation); retried=0; reason=\"renewal budget is empty for \(Self.seconds(wait)) s\""
        case .rejectedAgain: "generation=\(generation); fresh; retried=1"
        case .notReplaced(let kind): "rejected; not retried: \(kind.rawValue)"
        }
    }
}
