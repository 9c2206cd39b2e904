/// Whether an answer of the upstream means "this token is not valid" (RFC 6750 §3.1).
///
/// `error="invalid_token"` does, and so does an answer without any error code, which is what Box and most others send. Any
/// other code (`insufficient_scope`, `invalid_request`) is about the request: a new token would change nothing.
///
/// Of gRPC, the status UNAUTHENTICATED is what 401 is elsewhere, where the response has no messages.
package enum TokenRejection {
    package static func isRejection(_ head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        var namesOtherError = false
        for field in head.fields where field.kind == .wwwAuthenticate {
            switch AuthChallenge.errorCode(in: bytes.array(field.value)) {
            case nil: break
            case "invalid_token": return true
            default: namesOtherError = true
            }
        }
        return !namesOtherError
    }

    /// The status with which a response refuses a credential that is always the same; nil where it does not.
    package static func refusal(_ head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Int? {
        let status = effectiveStatus(of: head)
        guard status == 401 || status == 403, isRejection(head, bytes) else { return nil }
        return status
    }

    private static func effectiveStatus(of head: borrowing ResponseHead) -> Int {
        head.grpcStatus == GRPCStatus.unauthenticated.rawValue ? 401 : head.status
    }

    /// What a response says of the credential that its request went with.
    ///
    /// - Parameters:
    ///   - retryOn: The statuses that can mean a rejection on this route.
    ///   - sign: What ``RejectionRule`` found in it.
    ///   - method: Of the request. GET and HEAD can be repeated whatever an application did with them.
    ///   - credential: nil where nothing was injected.
    package static func judge(
        _ head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        retryOn: [Int],
        sign: RejectionRule.Sign? = nil,
        method: String,
        credential: Credential?,
        of source: (any CredentialSource)?
    ) -> ResponseFacts.Rejection {
        let status = effectiveStatus(of: head)
        guard let credential, let source else { return .none }
        if let sign {
            let isSafe = method == "GET" || method == "HEAD"
            return sign == .status || isSafe || !source.isRenewable
                ? .token(isRenewable: source.isRenewable) : .tokenNotSentAgain
        }
        guard status >= 400, retryOn.contains(status) else { return .none }
        if let answering = source as? any ChallengeAnswering {
            let challenges = AuthChallenge.all(in: head, bytes)
            switch answering.answer(challenges, to: credential.generation) {
            case .unanswered: return .challenge(isAnswered: false)
            case .answered: return .challenge(isAnswered: true)
            case .rejected: return .token(isRenewable: source.isRenewable)
            }
        }
        return isRejection(head, bytes) ? .token(isRenewable: source.isRenewable) : .none
    }
}
