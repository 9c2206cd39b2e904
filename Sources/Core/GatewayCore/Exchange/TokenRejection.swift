/// Whether an answer of the upstream means "this token is not valid" (RFC 6750 §3.1).
///
/// `error="invalid_token"` does, and so does an answer without any error code, which is what Box and most others send. Any
/// other code (`insufficient_scope`, `invalid_request`) is about the request: a new token would change nothing.
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
}
