/// A path rule: literal segments, `*` for one segment, `**` (last only) for any number of them, none included.
package struct PathPattern: Hashable, Sendable, CustomStringConvertible {
    package enum Segment: Hashable, Sendable {
        case literal([UInt8])
        case any
        case rest
    }

    package let segments: [Segment]
    package let description: String

    /// Whether it stands for one path only.
    package var isExact: Bool { !segments.contains(.any) && !segments.contains(.rest) }

    /// `/**`
    package static let all = PathPattern(segments: [.rest], description: "/**")

    private init(segments: [Segment], description: String) {
        self.segments = segments
        self.description = description
    }

    /// nil when it does not begin with `/`, or has `**` before the end or `*` inside a segment.
    package init?(_ text: String) {
        guard text.hasPrefix("/") else { return nil }
        let parts = text == "/" ? [] : text.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        var segments: [Segment] = []
        for (index, part) in parts.enumerated() {
            switch part {
            case "**":
                guard index == parts.count - 1 else { return nil }
                segments.append(.rest)
            case "*":
                segments.append(.any)
            default:
                guard !part.contains("*") else { return nil }
                segments.append(.literal(Array(part.utf8)))
            }
        }
        self.segments = segments
        description = text
    }

    /// The same pattern for a path that was decoded. An encoded slash then separates segments.
    package func decoded(_ times: Int) -> PathPattern {
        guard times > 0, description.utf8.contains(UInt8(ascii: "%")) else { return self }
        let segments = segments.flatMap { segment -> [Segment] in
            guard case .literal(let bytes) = segment else { return [segment] }
            let decoded = PercentEncoding.decodeLeniently(bytes.span, bytes.indices)
            return decoded.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
                .literal(Array($0))
            }
        }
        return PathPattern(segments: segments, description: description).decoded(times - 1)
    }

    /// Whether `/` fits.
    package var matchesRoot: Bool {
        guard let first = segments.first else { return true }
        return if case .rest = first { true } else { false }
    }

    /// Whether a canonical path (no dot segments, no ambiguous encodings, query removed) fits.
    package func matches(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>) -> Bool {
        guard !path.isEmpty, bytes[path.lowerBound] == 0x2F else { return false }
        var start = path.lowerBound + 1
        var isAtEnd = start == path.upperBound
        for segment in segments {
            if case .rest = segment { return true }
            guard !isAtEnd else { return false }
            var end = start
            if case .literal(let literal) = segment {
                // A segment is not read to its end for each of many rules: it may be as long as a head.
                end += literal.count
                guard end <= path.upperBound, bytes.equals(start..<end, literal),
                    end == path.upperBound || bytes[end] == 0x2F
                else { return false }
            } else {
                while end < path.upperBound, bytes[end] != 0x2F { end += 1 }
                guard start < end else { return false }
            }
            isAtEnd = end == path.upperBound
            start = min(end + 1, path.upperBound)
        }
        return isAtEnd
    }
}
