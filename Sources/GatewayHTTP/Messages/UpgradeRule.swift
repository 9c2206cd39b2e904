/// Whether a 101 switches to a protocol that the request offered (RFC 9110 section 7.8).
package enum UpgradeRule {
    package static func isOffered(
        by request: borrowing RequestHead,
        _ requestBytes: borrowing Span<UInt8>,
        _ response: borrowing ResponseHead,
        _ responseBytes: borrowing Span<UInt8>
    ) -> Bool {
        guard request.wantsUpgrade else { return false }
        let offered = protocols(request.fields, requestBytes)
        let chosen = protocols(response.fields, responseBytes)
        return !chosen.isEmpty && chosen.allSatisfy { offered.contains($0) }
    }

    /// Compared as bytes, without regard to the case of ASCII: to text, other bytes can be the same.
    static func protocols(_ fields: [HeadField], _ bytes: borrowing Span<UInt8>) -> [[UInt8]] {
        var protocols: [[UInt8]] = []
        for field in fields where field.kind == .upgrade {
            let value = bytes.array(field.value).map(\.asciiLowercased)
            protocols += value.split(whereSeparator: isSeparator).map(Array.init)
        }
        return protocols
    }

    private static func isSeparator(_ byte: UInt8) -> Bool { byte.isOptionalWhitespace || byte == UInt8(ascii: ",") }
}
