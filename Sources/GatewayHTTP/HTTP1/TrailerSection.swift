/// The fields behind a chunked body (RFC 9110 §6.5): forwarded, but for those that could change what was already judged.
package struct TrailerSection: Sendable {
    package enum ReadResult: Sendable {
        case needMore
        /// The section with its empty line, without the forbidden fields, and how many bytes it took.
        case complete(output: [UInt8], consumed: Int)
        case refused(HeadRefusal)
    }

    private var section = FieldSection()
    private let maxBytes: Int
    private let maxFields: Int

    package init(maxBytes: Int, maxFields: Int) {
        self.maxBytes = maxBytes
        self.maxFields = maxFields
        section.begin(at: 0)
    }

    package mutating func reset() { section.begin(at: 0) }

    package mutating func read(_ bytes: borrowing Span<UInt8>, forbidden: [[UInt8]] = []) -> ReadResult {
        switch section.read(bytes, maxBytes: maxBytes, maxFields: maxFields) {
        case .needMore: return .needMore
        case .refused(let reason): return .refused(reason)
        case .end(let end):
            var output: [UInt8] = []
            for field in section.fields where mayPass(bytes, field, forbidden: forbidden) {
                output.append(contentsOf: bytes.array(field.line))
            }
            output.append(contentsOf: [0x0D, 0x0A])
            return .complete(output: output, consumed: end)
        }
    }

    private func mayPass(_ bytes: borrowing Span<UInt8>, _ field: HeadField, forbidden: [[UInt8]]) -> Bool {
        // `_` is read as `-`, as some upstreams do.
        let name = bytes.array(field.name).map(\.asciiDashed)
        switch FieldKind.classify(name.span, 0..<name.count) {
        case .other, .forwarded, .grpcStatus, .uriReference: break
        default: return false
        }
        guard !Self.never.contains(where: { name.elementsEqual($0.utf8) }), !name.starts(with: "if-".utf8) else {
            return false
        }
        return !forbidden.contains(name)
    }

    private static let never = [
        "trailer", "content-encoding", "content-type", "content-range", "cache-control",
        "max-forwards", "pragma", "range", "age", "date", "expires", "location", "retry-after", "vary", "warning",
    ]
}
