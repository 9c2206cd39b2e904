/// Judges whether a path means one thing to everybody who will read it.
///
/// Rules are matched on the bytes as they were sent, and those bytes are forwarded. That is safe only while no upstream can
/// decode them into another path, so whatever decoders disagree about is refused.
package enum CanonicalPath {
    package enum Ambiguity: String, Error, Sendable {
        case dotSegment = "a dot segment"
        case backslash = "a backslash"
        case encodedSeparator = "an encoded slash, backslash, dot or NUL"
        case invalidEncoding = "an invalid percent-encoding"
        case invalidUTF8 = "an encoding that is not UTF-8"
        case emptySegment = "an empty segment"
        case pathParameter = "a path parameter"
        case doubleEncoding = "a doubly encoded character"
    }

    package enum Strictness: Sendable {
        /// Routes without a credential: only what would leave the route's own path is refused.
        case open
        /// Routes with a credential.
        case credentialed
        /// Routes with `allow` rules: nothing that any known server normalises.
        case ruled
    }

    /// A plain path (no `%`, `.`-segments, `;`, `\` or `//`) costs one pass.
    package static func check(
        _ bytes: borrowing Span<UInt8>,
        _ path: Range<Int>,
        strictness: Strictness
    ) -> Ambiguity? {
        var index = path.lowerBound
        var segmentStart = index + 1
        var needsUTF8Check = false
        while index < path.upperBound {
            switch bytes[index] {
            case 0x2F:
                if index >= segmentStart, isDotSegment(bytes, segmentStart..<index) { return .dotSegment }
                if strictness == .ruled, index >= segmentStart, index == segmentStart { return .emptySegment }
                segmentStart = index + 1
            case 0x5C:
                return .backslash
            case 0x3B where strictness == .ruled:
                return .pathParameter
            case 0x25:
                guard index + 2 < path.upperBound, let high = bytes[index + 1].hexValue,
                    let low = bytes[index + 2].hexValue
                else { return .invalidEncoding }
                if let ambiguity = judge(high << 4 | low, strictness) { return ambiguity }
                if high >= 8 { needsUTF8Check = true }
                index += 2
            default:
                break
            }
            index += 1
        }
        if segmentStart <= path.upperBound, isDotSegment(bytes, segmentStart..<path.upperBound) { return .dotSegment }
        if needsUTF8Check, strictness != .open, !decodesToUTF8(bytes, path) { return .invalidUTF8 }
        return nil
    }

    private static func judge(_ decoded: UInt8, _ strictness: Strictness) -> Ambiguity? {
        switch decoded {
        case 0x00, 0x5C, 0x2E: .encodedSeparator
        case 0x2F: strictness == .open ? nil : .encodedSeparator
        case 0x01..<0x20, 0x7F: .invalidEncoding
        case 0x25, 0x3B: strictness == .ruled ? .doubleEncoding : nil
        default: nil
        }
    }

    private static func isDotSegment(_ bytes: borrowing Span<UInt8>, _ segment: Range<Int>) -> Bool {
        // `..;x` is `..` to servers that cut path parameters off before they resolve.
        var end = segment.lowerBound
        while end < segment.upperBound, end - segment.lowerBound < 3, bytes[end] != 0x3B { end += 1 }
        return switch end - segment.lowerBound {
        case 1: bytes[segment.lowerBound] == 0x2E
        case 2: bytes[segment.lowerBound] == 0x2E && bytes[segment.lowerBound + 1] == 0x2E
        default: false
        }
    }

    private static func decodesToUTF8(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>) -> Bool {
        String(validating: PercentEncoding.decodeLeniently(bytes, path), as: UTF8.self) != nil
    }
}
