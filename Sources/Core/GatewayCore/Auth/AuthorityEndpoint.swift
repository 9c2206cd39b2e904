/// A path at an authority to which a grant sends requests of its own.
///
/// Clients are kept from it however they spell it: what some server could read as the same path counts as the same.
package struct AuthorityEndpoint: Hashable, Sendable {
    private struct Segment: Hashable {
        let text: String
        /// In lower case; nil fits any segment.
        let bytes: [UInt8]?
    }

    package let origin: Origin
    private var segments: [Segment] = []

    /// - Parameter url: A segment with `*` in it fits any: something is filled in there later.
    package init(_ url: AuthorityURL) {
        origin = url.origin
        let start = url.text.firstRange(of: "://")?.upperBound ?? url.text.startIndex
        let path = Array(url.text[start...].prefix { $0 != "?" }.drop { $0 != "/" }.utf8)
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
            let isFilledIn = text.contains("*")
            segments.append(
                Segment(text: isFilledIn ? "*" : text, bytes: isFilledIn ? nil : segment.map(\.asciiLowercased))
            )
        }
    }

    /// As a rule of `allow` names it.
    package var path: String { "/" + segments.map(\.text).joined(separator: "/") }

    /// The endpoint as seen from behind a base path; nil when it is not there.
    package func behind(_ basePath: String) -> AuthorityEndpoint? {
        let base = basePath.split(separator: "/").map { $0.utf8.map(\.asciiLowercased) }
        guard base.count <= segments.count else { return nil }
        for (segment, name) in zip(segments, base) where segment.bytes != nil && segment.bytes != name { return nil }
        var rest = self
        rest.segments.removeFirst(base.count)
        return rest
    }

    /// Whether an upstream could take `path` for this endpoint.
    ///
    /// Dot segments that are not encoded twice have been refused before (``CanonicalPath``).
    package func isMeant(by path: Range<Int>, in bytes: borrowing Span<UInt8>) -> Bool {
        var reader = PathReader(path)
        var (depth, matched) = (0, 0)
        var (length, isEqual, isDots) = (0, true, true)
        var lastEncoding: Int?
        while let symbol = reader.next(bytes) {
            if case .byte(let byte) = symbol {
                if depth < segments.count, let expected = segments[depth].bytes {
                    isEqual = isEqual && length < expected.count && expected[length] == byte.asciiLowercased
                }
                isDots = isDots && byte == 0x2E
                length += 1
                continue
            }
            if isDots, length == 2 {
                depth = max(0, depth - 1)
                matched = min(matched, depth)
            } else if length > (isDots ? 1 : 0) {
                let fits = depth < segments.count && isEqual && length == segments[depth].bytes?.count ?? length
                if depth == matched, fits { matched += 1 }
                depth += 1
                // Only what is encoded could still lead back.
                if depth > matched {
                    let last = lastEncoding ?? Self.lastEncoding(in: path, bytes)
                    lastEncoding = last
                    if reader.index > last { return false }
                }
            }
            (length, isEqual, isDots) = (0, true, true)
        }
        return depth == matched && matched == segments.count
    }

    /// Where the last percent sign stands, or -1. Looked for once: a path of many segments would make it a long search.
    private static func lastEncoding(in path: Range<Int>, _ bytes: borrowing Span<UInt8>) -> Int {
        var index = path.upperBound - 1
        while index >= path.lowerBound, bytes[index] != 0x25 { index -= 1 }
        return index < path.lowerBound ? -1 : index
    }
}

/// Reads a path as the most lenient server would: percent-encoding removed twice, path parameters left out.
private struct PathReader {
    enum Symbol {
        case byte(UInt8)
        /// The segment is over.
        case end
    }

    /// By the upstream, and by another proxy before it.
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

extension AuthBehavior {
    /// Where its grant, and those that it is made from, send requests.
    package var authorityEndpoints: [AuthorityEndpoint] {
        switch self {
        case .none, .fixed, .onChallenge: []
        case .token(let grant): grant.authorityEndpoints
        case .tokenPerSubject(let grants): grants.authorityEndpoints
        case .tokenPerChallenge(let grants): grants.authorityEndpoints
        }
    }
}

extension [AuthorityEndpoint] {
    /// Those that are known.
    package init(_ urls: AuthorityURL?...) { self = urls.compactMap { $0.map { AuthorityEndpoint($0) } } }
}
