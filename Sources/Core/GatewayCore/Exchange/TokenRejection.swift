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

    /// The `error` parameter of a challenge, quoted or not; also of one that is otherwise not well formed.
    private static func errorCode(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> String? {
        var index = value.lowerBound
        var isQuoted = false
        while index < value.upperBound {
            switch bytes[index] {
            case 0x22: isQuoted.toggle()
            case 0x5C where isQuoted: index += 1
            default:
                let isStart = index == value.lowerBound || isSeparator(bytes[index - 1])
                guard !isQuoted, isStart else { break }
                if let code = errorCode(bytes, startingAt: index, value.upperBound) { return code }
            }
            index += 1
        }
        return nil
    }

    private static func isSeparator(_ byte: UInt8) -> Bool { byte.isOptionalWhitespace || byte == 0x2C }

    private static func errorCode(_ bytes: borrowing Span<UInt8>, startingAt start: Int, _ end: Int) -> String? {
        var index = start + 5
        guard index < end, bytes.equalsLowercased(start..<index, "error") else { return nil }
        while index < end, bytes[index].isOptionalWhitespace { index += 1 }
        guard index < end, bytes[index] == 0x3D else { return nil }
        index += 1
        while index < end, bytes[index].isOptionalWhitespace || bytes[index] == 0x22 { index += 1 }
        let code = index
        while index < end, bytes[index].isTokenByte { index += 1 }
        return bytes.string(code..<index).lowercased()
    }
}
