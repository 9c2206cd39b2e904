package import GatewayEvents
package import GatewayHTTP
import GatewayTokens

extension RequestFailure {
    /// Whether a request whose response is passed on has failed: with a status of 500 or more, or because the upstream rejected the
    /// injected credential for good. Any other 4xx is between the client and the upstream.
    ///
    /// - Parameters:
    ///   - rejectionOutcome: What the response says of the rejected token.
    ///   - credential: What was injected; nil where nothing was.
    package convenience init?(
        status: Int,
        rejectionOutcome: RejectionOutcome,
        wasReplayed: Bool,
        credential: String?,
        place: @autoclosure () -> RequestPlace
    ) {
        if status >= 500 {
            self.init(reason: .upstreamStatus, credential: credential, place: place())
        } else if credential != nil, rejectionOutcome != .none || wasReplayed && (status == 401 || status == 403) {
            self.init(
                reason: .credentialRejected,
                explanation: rejectionOutcome.explanation,
                credential: credential,
                place: place()
            )
        } else {
            return nil
        }
    }
}

/// What is said about a response that rejects the token.
extension RejectionOutcome {
    /// For the operator. The client has ``fieldValue(generation:)``.
    fileprivate var explanation: String {
        switch self {
        case .none: "The upstream rejected the credential."
        case .rejected: "The upstream rejected the credential, and it cannot be replaced without a person."
        case .challengedNotHeld:
            "The upstream asked for a token or for another signature. The request was not sent again, because its body was not in"
                + " memory (limits.replay_body_bytes). The next request has what the upstream asked for."
        case .rejectedNotHeld:
            "The upstream rejected the credential. The request was not sent again, because its body was not in memory "
                + "(limits.replay_body_bytes)."
        case .rejectedNotSafe:
            "The upstream rejected the credential by a redirect or a page (rejected_when). The request was not sent again, because its "
                + "method is neither GET nor HEAD."
        case .notRenewed:
            "The upstream rejected the credential on a path where this token has not worked. The gateway did not renew it, because"
                + " the path may reject every token."
        case .overBudget(let wait):
            "The upstream rejected the credential. This client's renewal budget is empty; the next renewal is available in"
                + " \(RejectionOutcome.seconds(wait)) s. Anonymous clients share one budget."
        case .rejectedAgain:
            "The upstream rejected a new token, too: does the credential have the rights that this path needs?"
        case .notReplaced(let kind):
            "The upstream rejected the credential, and no other one could be obtained: \(kind.rawValue)."
        case .wrongDate(let seconds):
            "The upstream refused the date of the signature. \(SignatureDate.advice(seconds))"
        }
    }
}

/// Where a request came from and what it asked for, as its head says.
extension RequestPlace {
    static let maximumHost = 128

    package init(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>, peer: String) {
        let host = head.form == .absolute ? head.targetAuthority : head.host
        self.init(
            peer: peer,
            host: bytes.string(host.lowerBound..<min(host.upperBound, host.lowerBound + Self.maximumHost)),
            path: PathTemplate.text(bytes, path: head.path)
        )
    }
}
