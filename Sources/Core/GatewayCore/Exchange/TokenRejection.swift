/// Whether an answer of the upstream means "this token is not valid" (RFC 6750 §3.1).
///
/// `error="invalid_token"` does, and so does an answer without any error code, which is what Box and most others send. Any
/// other code (`insufficient_scope`, `invalid_request`) is about the request: a new token would change nothing.
package enum TokenRejection {
    package static func isRejection(_ head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        var namesOtherError = false
        for field in head.fields where field.kind == .wwwAuthenticate {
            switch errorCode(bytes, field.value) {
            case nil: break
            case "invalid_token": return true
            default: namesOtherError = true
            }
        }
        return !namesOtherError
    }

    /// The `error` parameter of a challenge, quoted or not.
    private static func errorCode(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> String? {
        var index = value.lowerBound
        var isQuoted = false
        while index + 6 <= value.upperBound {
            if bytes[index] == 0x22 { isQuoted.toggle() }
            let isStart = index == value.lowerBound || bytes[index - 1].isOptionalWhitespace || bytes[index - 1] == 0x2C
            if !isQuoted, isStart, bytes.equalsLowercased(index..<index + 6, "error=") {
                var end = index + 6
                let start = end < value.upperBound && bytes[end] == 0x22 ? end + 1 : end
                end = start
                while end < value.upperBound, bytes[end].isTokenByte { end += 1 }
                return bytes.string(start..<end).lowercased()
            }
            index += 1
        }
        return nil
    }
}
