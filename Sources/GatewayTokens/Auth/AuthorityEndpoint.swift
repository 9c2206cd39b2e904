package import GatewayHTTP

/// A path at an authorization server to which a grant sends requests of its own.
///
/// Clients are kept from it however they spell it: what some server could read as the same path counts as the same.
package struct AuthorityEndpoint: Hashable, Sendable {
    private struct Segment: Hashable {
        let text: String
        /// In lower case and without what some servers cut from the end; nil fits any segment.
        let bytes: [UInt8]?
    }

    package let origin: Origin
    private var segments: [Segment] = []

    /// - Parameter url: A segment with `*` in it fits any: something is filled in there later.
    package init(_ url: AuthorityURL) {
        origin = url.origin
        let path = Array(url.target.prefix { $0 != "?" }.utf8)
        var reader = PathReader(0..<path.count)
        var segment: [UInt8] = []
        while let symbol = reader.next(path.span) {
            guard case .end = symbol else {
                if case .byte(let byte) = symbol { segment.append(byte) }
                continue
            }
            add(segment)
            segment = []
        }
    }

    private mutating func add(_ segment: [UInt8]) {
        let text = String(decoding: segment, as: UTF8.self)
        switch text {
        case "", ".": break
        case "..": if !segments.isEmpty { segments.removeLast() }
        default:
            if text.contains("*") { return segments.append(Segment(text: "*", bytes: nil)) }
            let bytes = Self.read(segment)
            if !bytes.isEmpty { segments.append(Segment(text: text, bytes: bytes)) }
        }
    }

    private static func read(_ segment: some BidirectionalCollection<UInt8>) -> [UInt8] {
        let end = segment.lastIndex { !isCut($0) }
        return end.map { segment[...$0].map(\.asciiLowercased) } ?? []
    }

    /// Whether some servers cut this from the end of a segment: Windows does so with dots and spaces, others with control characters.
    private static func isCut(_ byte: UInt8) -> Bool { byte == 0x2E || byte <= 0x20 }

    /// As a rule of `allow` names it.
    package var path: String { "/" + segments.map(\.text).joined(separator: "/") }

    /// The endpoint as seen from behind a base path; nil when it is not there.
    package func behind(_ basePath: String) -> AuthorityEndpoint? {
        let base = basePath.split(separator: "/").map { Self.read($0.utf8) }
        guard base.count <= segments.count else { return nil }
        for (segment, name) in zip(segments, base) where segment.bytes != nil && segment.bytes != name { return nil }
        var rest = self
        rest.segments.removeFirst(base.count)
        return rest
    }

    /// Whether an upstream could take `path` for this endpoint.
    ///
    /// A segment of dots and spaces, such as `...` or `..%20`, is nothing to some servers and a way back to others.
    package func isMeant(by path: Range<Int>, in bytes: borrowing Span<UInt8>) -> Bool {
        var hasOddSegment = false
        return isMeant(by: path, in: bytes, takingOddForParent: false, hasOddSegment: &hasOddSegment)
            || hasOddSegment && isMeant(by: path, in: bytes, takingOddForParent: true, hasOddSegment: &hasOddSegment)
    }

    private func isMeant(
        by path: Range<Int>,
        in bytes: borrowing Span<UInt8>,
        takingOddForParent oddIsParent: Bool,
        hasOddSegment: inout Bool
    ) -> Bool {
        var reader = PathReader(path)
        var (depth, matched) = (0, 0)
        /// `end`: Behind the last byte that no server cuts.
        var (length, end, isEqual, isDots) = (0, 0, true, true)
        var lastWayBack: Int?
        while let symbol = reader.next(bytes) {
            if case .byte(let byte) = symbol {
                if depth < segments.count, let expected = segments[depth].bytes, length < expected.count {
                    isEqual = isEqual && expected[length] == byte.asciiLowercased
                }
                isDots = isDots && byte == 0x2E
                length += 1
                if !Self.isCut(byte) { end = length }
                continue
            }
            let isOdd = end == 0 && length > 0 && !(isDots && length <= 2)
            hasOddSegment = hasOddSegment || isOdd
            if isDots && length == 2 || isOdd && oddIsParent {
                depth = max(0, depth - 1)
                matched = min(matched, depth)
            } else if end > 0 {
                let fits = depth < segments.count && isEqual && end == segments[depth].bytes?.count ?? end
                if depth == matched, fits { matched += 1 }
                depth += 1
                if depth > matched {
                    let last = lastWayBack ?? Self.lastWayBack(in: path, bytes)
                    lastWayBack = last
                    if reader.index > last { return false }
                }
            }
            (length, end, isEqual, isDots) = (0, 0, true, true)
        }
        return depth == matched && matched == segments.count
    }

    /// Where the last byte stands behind which a path can lead back, or -1: of an encoding, or of two dots. Looked for once: a path of many
    /// segments would make it a long search.
    private static func lastWayBack(in path: Range<Int>, _ bytes: borrowing Span<UInt8>) -> Int {
        var index = path.upperBound - 1
        while index >= path.lowerBound {
            let isSecondDot = bytes[index] == 0x2E && index > path.lowerBound && bytes[index - 1] == 0x2E
            if bytes[index] == 0x25 || isSecondDot { return index }
            index -= 1
        }
        return -1
    }
}

/// Reads a path as the most lenient server would: percent-encoding removed twice, path parameters left out.
private struct PathReader {
    enum Symbol {
        case byte(UInt8)
        /// The segment is over.
        case end
    }

    /// How often a path may be decoded: by a proxy before the upstream, and by the upstream.
    private static let decodings = 2

    private(set) var index: Int
    private let end: Int
    private var isOver = false
    private var isInParameter = false

    init(_ path: Range<Int>) {
        index = path.lowerBound
        end = path.upperBound
    }

    /// nil behind the last segment.
    mutating func next(_ bytes: borrowing Span<UInt8>) -> Symbol? {
        while index < end {
            let byte = decoded(bytes, Self.decodings)
            switch byte {
            case 0x2F, 0x5C:
                isInParameter = false
                return .end
            case 0x3B: isInParameter = true
            // Behind it a server that decodes first sees a query or a fragment.
            case 0x3F, 0x23: index = end
            default: if !isInParameter { return .byte(byte) }
            }
        }
        guard !isOver else { return nil }
        isOver = true
        return .end
    }

    private mutating func decoded(_ bytes: borrowing Span<UInt8>, _ decodings: Int) -> UInt8 {
        guard decodings > 0, bytes[index] == 0x25 else {
            index += 1
            return bytes[index - 1]
        }
        let byte = decoded(bytes, decodings - 1)
        guard byte == 0x25, index < end else { return byte }
        let before = index
        if let high = decoded(bytes, decodings - 1).hexValue, index < end,
            let low = decoded(bytes, decodings - 1).hexValue
        {
            return high << 4 | low
        }
        index = before
        return byte
    }
}

extension [AuthorityEndpoint] {
    /// The endpoints at these URLs, without those that are nil.
    package init(_ urls: AuthorityURL?...) { self = urls.compactMap { $0.map { AuthorityEndpoint($0) } } }
}
