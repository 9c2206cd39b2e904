/// Follows a chunked body (RFC 9112 §7.1) without changing it: says which bytes can be passed on as they are.
///
/// Sizes have at most 15 hexadecimal digits and line ends are CRLF. Extensions begin with a name and are bounded, of one chunk and of
/// all. The trailer section is not passed on verbatim: it is handed out for ``TrailerSection`` to judge.
package struct ChunkDecoder: Sendable {
    private enum State: Sendable {
        case size
        /// After a `;`: a name has to follow.
        case extensionName
        case fieldExtension
        case sizeLineFeed
        case data
        case dataCarriageReturn
        case dataLineFeed
        case trailers
        case broken
    }

    package enum DecodeResult: Sendable {
        /// Pass on this many bytes; more are to come.
        case pass(Int)
        /// Pass on this many bytes, which end with the last chunk's `0` line; the trailer section follows.
        case trailers(Int)
        case broken
    }

    static let maxExtensionBytes = 1024
    /// How much framing all chunks together may have beyond 16 bytes and twice the content of each. Otherwise a body could be nothing
    /// but extensions.
    static let maxExcessBytes = 16_384

    private var state = State.size
    private var digits = 0
    private var remaining = 0
    private var extensionBytes = 0
    private var excessBytes = 0

    package init() {}

    package mutating func reset() { self = ChunkDecoder() }

    /// Follows the body from `start` on.
    ///
    /// - Parameter onData: Given each run of content, without sizes and line ends; for readers that know no chunks.
    @inline(__always)
    package mutating func feed(
        _ bytes: borrowing Span<UInt8>,
        from start: Int,
        onData: (Range<Int>) -> Void = { _ in }
    ) -> DecodeResult {
        defer { checkInvariants() }
        var index = start
        while index < bytes.count {
            let byte = bytes[index]
            switch state {
            case .size:
                guard sizeByte(byte) else { return fail() }
                index &+= 1
            case .extensionName:
                extensionBytes &+= 1
                guard extensionBytes <= Self.maxExtensionBytes, byte.isTokenByte || byte.isOptionalWhitespace else {
                    return fail()
                }
                if byte.isTokenByte { state = .fieldExtension }
                index &+= 1
            case .fieldExtension:
                extensionBytes &+= 1
                guard extensionBytes <= Self.maxExtensionBytes else { return fail() }
                if byte == 0x0D {
                    state = .sizeLineFeed
                } else if (byte < 0x20 && byte != 0x09) || byte == 0x7F {
                    return fail()
                }
                index &+= 1
            case .sizeLineFeed:
                guard byte == 0x0A else { return fail() }
                index &+= 1
                digits = 0
                guard extensionBytes == 0 || takeExtension() else { return fail() }
                if remaining == 0 {
                    state = .trailers
                    return .trailers(index &- start)
                }
                state = .data
            case .data:
                let taken = min(remaining, bytes.count &- index)
                onData(index..<index &+ taken)
                index &+= taken
                remaining &-= taken
                if remaining == 0 { state = .dataCarriageReturn }
            case .dataCarriageReturn:
                guard byte == 0x0D else { return fail() }
                state = .dataLineFeed
                index &+= 1
            case .dataLineFeed:
                guard byte == 0x0A else { return fail() }
                state = .size
                index &+= 1
            case .trailers, .broken:
                return fail()
            }
        }
        return .pass(index &- start)
    }

    private mutating func takeExtension() -> Bool {
        excessBytes &+= max(0, extensionBytes - 16 - 2 * remaining)
        extensionBytes = 0
        return excessBytes <= Self.maxExcessBytes
    }

    private mutating func sizeByte(_ byte: UInt8) -> Bool {
        if let value = byte.hexValue {
            guard digits < 15 else { return false }
            remaining = remaining << 4 | Int(value)
            digits &+= 1
            return true
        }
        guard digits > 0 else { return false }
        switch byte {
        case 0x0D: state = .sizeLineFeed
        case 0x3B: state = .extensionName
        default: return false
        }
        return true
    }

    private mutating func fail() -> DecodeResult {
        state = .broken
        return .broken
    }

    private func checkInvariants() {
        assert((0...15).contains(digits), "The size of a chunk has more digits than there may be.")
        assert(remaining >= 0 && remaining < 1 << 60, "The size of a chunk is out of its range.")
        assert(state != .data || remaining > 0, "More of a chunk is awaited that is complete.")
        assert(
            remaining == 0 || state != .dataCarriageReturn && state != .dataLineFeed && state != .trailers,
            "A chunk ends before all of it has come."
        )
        assert(state == .broken || extensionBytes <= Self.maxExtensionBytes, "An extension is longer than it may be.")
        assert(state == .broken || excessBytes <= Self.maxExcessBytes, "Extensions are longer than they may be.")
    }
}

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
            return .complete(output: Self.output(section, bytes, forbidden: forbidden), consumed: end)
        }
    }

    /// Those of HTTP/2 that may pass, as a section of HTTP/1 with its empty line.
    ///
    /// - Parameter fields: They are valid.
    package static func output(of fields: borrowing HTTP2FieldTable, forbidden: [[UInt8]]) -> [UInt8] {
        output(fields.section, fields.bytes.span, forbidden: forbidden)
    }

    private static func output(
        _ section: FieldSection,
        _ bytes: borrowing Span<UInt8>,
        forbidden: [[UInt8]]
    ) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(section.fields.last.map { Int($0.end) } ?? 0)
        for field in section.fields {
            let passes =
                section.hasUnderscore
                ? mayPass(dashed: bytes.array(field.name).map(\.asciiDashed), forbidden)
                : mayPass(bytes, field, forbidden)
            guard passes else { continue }
            unsafe bytes.extracting(field.line).withUnsafeBufferPointer { unsafe output.append(contentsOf: $0) }
        }
        output.append(contentsOf: [0x0D, 0x0A])
        return output
    }

    /// - Parameter name: In lower case, with `_` read as `-`, as some upstreams do.
    private static func mayPass(dashed name: [UInt8], _ forbidden: [[UInt8]]) -> Bool {
        mayPass(FieldKind.classify(name.span, 0..<name.count), name.span, 0..<name.count, forbidden)
    }

    /// - Parameter field: No name of its section has an underscore.
    private static func mayPass(_ bytes: borrowing Span<UInt8>, _ field: HeadField, _ forbidden: [[UInt8]]) -> Bool {
        mayPass(field.kind, bytes, field.name, forbidden)
    }

    private static func mayPass(
        _ kind: FieldKind,
        _ bytes: borrowing Span<UInt8>,
        _ name: Range<Int>,
        _ forbidden: [[UInt8]]
    ) -> Bool {
        switch kind {
        case .other, .forwarded, .grpcStatus, .uriReference: break
        default: return false
        }
        for word in never where bytes.equalsLowercased(name, word) { return false }
        if name.count >= 3, bytes.equalsLowercased(name.lowerBound..<name.lowerBound + 3, "if-") { return false }
        for word in forbidden where bytes.equalsLowercased(name, word) { return false }
        return true
    }

    private static let never: [StaticString] = [
        "trailer", "content-encoding", "content-type", "content-range", "cache-control",
        "max-forwards", "pragma", "range", "age", "date", "expires", "location", "retry-after", "vary", "warning",
    ]
}
