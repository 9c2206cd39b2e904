import GatewayHTTP

/// Judges whether a path means the same to every server that may read it.
///
/// Rules are matched on the bytes as they were sent, and those bytes are forwarded. That is safe only while no upstream decodes
/// them into a path that would have been judged differently.
package enum CanonicalPath {
    /// What two servers could read in two ways, in words for the client.
    package enum Ambiguity: String, Error, Sendable {
        case dotSegment = "a dot segment (. or ..)"
        case backslash = "a backslash"
        case encodedSeparator = "an encoded slash or dot"
        case encodedBackslash = "an encoded backslash"
        case encodedControlCharacter = "an encoded control character"
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

    /// What one pass over a path finds.
    package enum Verdict: Hashable, Sendable {
        /// Every server reads it as it was sent.
        case unambiguous
        /// Servers may read it differently; ``PathReadings`` has how.
        case severalReadings
        case refused(Ambiguity)
    }

    /// For paths whose readings are not compared, those of links and of `Destination`: encoded dots are refused, and encoded slashes
    /// unless `strictness` is `open`.
    package static func check(
        _ bytes: borrowing Span<UInt8>,
        _ path: Range<Int>,
        strictness: Strictness
    ) -> Ambiguity? {
        let verdict = judge(bytes, path, strictness: strictness, refusesReadings: true)
        return if case .refused(let ambiguity) = verdict { ambiguity } else { nil }
    }

    /// A plain path (no `%`, `.`-segments, `;`, `\` or `//`) costs one pass and is unambiguous.
    ///
    /// - Parameter refusesReadings: Encoded dots are refused wherever they stand, and encoded slashes unless `strictness` is `open`.
    package static func judge(
        _ bytes: borrowing Span<UInt8>,
        _ path: Range<Int>,
        strictness: Strictness,
        refusesReadings: Bool
    ) -> Verdict {
        var hasReadings = false
        var index = path.lowerBound
        var segmentStart = index + 1
        var needsUTF8Check = false
        while index < path.upperBound {
            switch bytes[index] {
            case 0x2F:
                if index >= segmentStart, isDotSegment(bytes, segmentStart..<index) { return .refused(.dotSegment) }
                if index >= segmentStart, index == segmentStart {
                    if strictness == .ruled { return .refused(.emptySegment) }
                    hasReadings = true
                }
                segmentStart = index + 1
            case 0x5C:
                return .refused(.backslash)
            case 0x3B:
                if strictness == .ruled { return .refused(.pathParameter) }
                hasReadings = true
            case 0x25:
                guard index + 2 < path.upperBound, let high = bytes[index + 1].hexValue,
                    let low = bytes[index + 2].hexValue
                else { return .refused(.invalidEncoding) }
                let byte = high << 4 | low
                if let ambiguity = ambiguity(ofEncoded: byte, strictness, refusesReadings) {
                    return .refused(ambiguity)
                }
                // All other bytes mean the same encoded or not, since no target has them unencoded.
                if byte.isPathCharacter || byte == 0x25 || endsSegment(byte) { hasReadings = true }
                // Behind a dot it may be the end of a dot segment.
                if byte == 0x20, bytes[index - 1] == 0x2E { hasReadings = true }
                if high >= 8 { needsUTF8Check = true }
                index += 2
            default:
                break
            }
            index += 1
        }
        if segmentStart <= path.upperBound, isDotSegment(bytes, segmentStart..<path.upperBound) {
            return .refused(.dotSegment)
        }
        if needsUTF8Check, strictness != .open, !decodesToUTF8(bytes, path) { return .refused(.invalidUTF8) }
        return hasReadings ? .severalReadings : .unambiguous
    }

    private static func ambiguity(
        ofEncoded byte: UInt8,
        _ strictness: Strictness,
        _ refusesReadings: Bool
    ) -> Ambiguity? {
        switch byte {
        case 0x00..<0x20, 0x7F: .encodedControlCharacter
        case 0x5C: .encodedBackslash
        case 0x2E: refusesReadings ? .encodedSeparator : nil
        case 0x2F: refusesReadings && strictness != .open ? .encodedSeparator : nil
        case 0x25, 0x3B: strictness == .ruled ? .doubleEncoding : nil
        default: nil
        }
    }

    /// `;`, `?` or `#`
    private static func endsSegment(_ byte: UInt8) -> Bool { byte == 0x3B || byte == 0x3F || byte == 0x23 }

    fileprivate static func isDotSegment(_ bytes: borrowing Span<UInt8>, _ segment: Range<Int>) -> Bool {
        // `..;x` is `..` to servers that cut path parameters off before they resolve, `..?x` to those that decode first, and `..` with
        // spaces behind it to those of Windows.
        var end = segment.lowerBound
        while end < segment.upperBound, end - segment.lowerBound < 3, bytes[end] == 0x2E { end += 1 }
        guard end > segment.lowerBound, end - segment.lowerBound < 3 else { return false }
        while end < segment.upperBound, bytes[end] == 0x20 { end += 1 }
        return end == segment.upperBound || endsSegment(bytes[end])
    }

    private static func decodesToUTF8(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>) -> Bool {
        String(validating: PercentEncoding.decodeLeniently(bytes, path), as: UTF8.self) != nil
    }
}

/// The paths that servers may read from the path of a request.
///
/// Some servers decode a path before they split it into segments, some decode it twice, some ignore path parameters, and most drop
/// empty segments. `%2F` within a segment is data (RFC 3986 section 2.2), but a server that decodes first sees a separator.
struct PathReadings {
    struct Reading: Hashable {
        let path: [UInt8]
        /// How often it was decoded.
        let decodings: Int
    }

    /// The readings, without those that equal the path as it was sent. One or two for most paths, and at most 28.
    let all: [Reading]

    /// - Throws: If one of them has a dot segment: it could leave whatever the path is meant to stay below.
    init(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>) throws(CanonicalPath.Ambiguity) {
        var sent: [UInt8] = []
        sent.reserveCapacity(path.count)
        for index in path { sent.append(bytes[index]) }
        var all: [Reading] = []
        var forms = [sent]
        for decodings in 0...2 {
            if decodings > 0 {
                var decoded: [[UInt8]] = []
                for form in forms { decoded.append(PercentEncoding.decodeLeniently(form.span, form.indices)) }
                guard decoded != forms else { break }
                forms = decoded
            }
            // Some servers cut parameters off before they decode: to Tomcat, `/a;x%2Fy/b` is `/a/b`.
            for form in forms where form.contains(UInt8(ascii: ";")) {
                forms.append(try Self.resolve(form.span, cuttingParameters: true))
            }
            for form in forms {
                var readings = [try Self.resolve(form.span, cuttingParameters: false)]
                // A server that decodes first sees a query or a fragment behind these.
                if let end = form.firstIndex(where: { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }) {
                    let beginning = Array(form[..<end])
                    readings.append(try Self.resolve(beginning.span, cuttingParameters: false))
                }
                for reading in readings where reading != sent && !all.contains(where: { $0.path == reading }) {
                    all.append(Reading(path: reading, decodings: decodings))
                }
            }
        }
        self.all = all
    }

    /// Drops empty segments, except the last, which stands for a slash at the end.
    private static func resolve(
        _ path: borrowing Span<UInt8>,
        cuttingParameters: Bool
    ) throws(CanonicalPath.Ambiguity) -> [UInt8] {
        var resolved: [UInt8] = []
        resolved.reserveCapacity(path.count)
        var start = 1
        while start <= path.count {
            var end = start
            while end < path.count, !isSeparator(path[end]) { end += 1 }
            if CanonicalPath.isDotSegment(path, start..<end) { throw .dotSegment }
            var kept = start
            while kept < end, !cuttingParameters || path[kept] != UInt8(ascii: ";") { kept += 1 }
            if kept > start || end == path.count {
                resolved.append(UInt8(ascii: "/"))
                for index in start..<kept { resolved.append(path[index]) }
            }
            start = end + 1
        }
        return resolved
    }

    /// A backslash appears only where a path was decoded twice.
    private static func isSeparator(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "/") || byte == UInt8(ascii: "\\") }
}
