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

    /// Without those that are the path as it was sent. One or two for most paths, and at most 28.
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
