import FoundationEssentials

/// Finds the client's token in the places where clients can put one.
package enum ClientTokenParser {
    /// Of `Authorization`, with their space: what the clients of services write before a token. GitHub's say `token`, for example.
    private static let schemes: [StaticString] = [
        "bearer ", "token ", "apikey ", "bot ", "deepl-auth-key ", "geniekey ", "oauth ", "ssws ",
    ]

    /// Reads `Bearer x`, other ``schemes``, and `Basic base64(user:x)`; any other value counts as the token itself.
    ///
    /// Of Basic the password is the token, or the user name when the password is empty: both are what people write into a
    /// proxy URL.
    package static func read(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> [UInt8] {
        for scheme in schemes {
            let end = value.lowerBound + scheme.utf8CodeUnitCount
            guard end < value.upperBound, bytes.equalsLowercased(value.lowerBound..<end, scheme) else { continue }
            return bytes.array(bytes.trimmed(end..<value.upperBound))
        }
        if value.count > 6, bytes.equalsLowercased(value.lowerBound..<value.lowerBound + 6, "basic ") {
            let encoded = bytes.array(bytes.trimmed(value.lowerBound + 6..<value.upperBound))
            guard let decoded = Data(base64Encoded: Data(encoded)), let colon = decoded.firstIndex(of: 0x3A) else {
                return []
            }
            let password = decoded[decoded.index(after: colon)...]
            return Array(password.isEmpty ? decoded[..<colon] : password)
        }
        return bytes.array(value)
    }

    /// The value of a query parameter; nil when it is not there. Not decoded: tokens need no encoding.
    static func read(
        _ bytes: borrowing Span<UInt8>,
        query: Range<Int>,
        parameter name: [UInt8]
    ) -> [UInt8]? {
        var start = query.lowerBound + 1
        while start < query.upperBound {
            var end = start
            while end < query.upperBound, bytes[end] != 0x26 { end += 1 }
            let valueStart = start + name.count + 1
            if valueStart <= end, bytes[valueStart - 1] == 0x3D, bytes.array(start..<valueStart - 1) == name {
                return bytes.array(valueStart..<end)
            }
            start = end + 1
        }
        return nil
    }
}
