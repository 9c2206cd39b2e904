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

    /// Whether a canonical path (no dot segments, no ambiguous encodings, query removed) fits.
    package func matches(_ path: some BidirectionalCollection<UInt8>) -> Bool {
        var rest = path[...]
        guard rest.first == UInt8(ascii: "/") else { return false }
        rest = rest.dropFirst()
        var atEnd = rest.isEmpty
        for segment in segments {
            if segment == .rest { return true }
            guard !atEnd else { return false }
            let part = rest.prefix { $0 != UInt8(ascii: "/") }
            switch segment {
            case .literal(let bytes): guard part.elementsEqual(bytes) else { return false }
            case .any: guard !part.isEmpty else { return false }
            case .rest: return true
            }
            rest = rest[part.endIndex...]
            atEnd = rest.isEmpty
            if !atEnd { rest = rest.dropFirst() }
        }
        return atEnd
    }
}
