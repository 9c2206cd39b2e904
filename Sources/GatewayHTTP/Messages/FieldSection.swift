/// Reads header fields line by line, keeping its place: bytes that were looked at are not looked at again.
///
/// Shared by request heads, response heads and trailers. Strict: CRLF only, no folding, token names, no control bytes but
/// tabs in values (RFC 9112 §5, RFC 9110 §5.5).
@usableFromInline
package struct FieldSection: Sendable {
    @usableFromInline package private(set) var fields: [HeadField] = []
    /// Some name has an underscore, which some upstreams read as a hyphen.
    package private(set) var hasUnderscore = false
    private var lineStart = 0
    private var scanned = 0

    enum Line {
        case needMore
        /// The empty line at the end; the next byte after the section.
        case end(Int)
        case refused(HeadRefusal)
    }

    /// - Parameter hasMemory: false for one that is exchanged for another before it is used.
    init(hasMemory: Bool = true) {
        if hasMemory { fields.reserveCapacity(32) }
    }

    var hasMemory: Bool { fields.capacity > 0 }

    /// Where the lines of fields stand that follow each other.
    ///
    /// - Parameter run: Of ``fields``; not empty.
    package func lines(_ run: Range<Int>) -> Range<Int> {
        Int(fields[run.lowerBound].start)..<Int(fields[run.upperBound &- 1].end)
    }

    mutating func begin(at offset: Int) {
        fields.removeAll(keepingCapacity: true)
        hasUnderscore = false
        lineStart = offset
        scanned = offset
    }

    /// Takes a field of HTTP/2, which was judged where it was decoded.
    @inline(__always)
    mutating func add(_ field: HeadField, hasUnderscore: Bool) {
        fields.append(field)
        if hasUnderscore { self.hasUnderscore = true }
    }

    mutating func read(_ bytes: borrowing Span<UInt8>, maxBytes: Int, maxFields: Int) -> Line {
        while true {
            switch Self.endOfLine(bytes, from: scanned) {
            case .needMore(let position):
                scanned = position
                return position >= maxBytes ? .refused(.headTooLarge) : .needMore
            case .refused(let reason):
                return .refused(reason)
            case .found(let lineEnd):
                guard lineEnd + 2 <= maxBytes else { return .refused(.headTooLarge) }
                if lineEnd == lineStart { return .end(lineEnd + 2) }
                guard fields.count < maxFields else { return .refused(.tooManyFields) }
                if let reason = add(bytes, lineStart..<lineEnd) { return .refused(reason) }
                lineStart = lineEnd + 2
                scanned = lineStart
            }
        }
    }

    enum LineEnd {
        case needMore(Int)
        /// The position of the CR.
        case found(Int)
        case refused(HeadRefusal)
    }

    /// Looks for CRLF; tabs are passed over, any other control byte is refused.
    @inline(__always)
    static func endOfLine(_ bytes: borrowing Span<UInt8>, from start: Int) -> LineEnd {
        var position = start
        while true {
            position = bytes.firstControlByte(from: position)
            if position &+ 2 <= bytes.count {
                // Bounds: the condition above, and no position is below 0.
                let pair = unsafe bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: position, as: UInt16.self)
                if UInt16(littleEndian: pair) == 0x0A0D { return .found(position) }
            }
            guard position < bytes.count else { return .needMore(position) }
            switch bytes[position] {
            case 0x09:
                position &+= 1
            case 0x0D:
                guard position &+ 1 < bytes.count else { return .needMore(position) }
                return bytes[position &+ 1] == 0x0A ? .found(position) : .refused(.bareLineFeed)
            case 0x0A:
                return .refused(.bareLineFeed)
            default:
                return .refused(.invalidFieldValue)
            }
        }
    }

    @inline(__always)
    private mutating func add(_ bytes: borrowing Span<UInt8>, _ line: Range<Int>) -> HeadRefusal? {
        let index = bytes.endOfToken(in: line, hasUnderscore: &hasUnderscore)
        guard index > line.lowerBound else {
            return bytes[index].isOptionalWhitespace ? .foldedLine : .invalidFieldName
        }
        guard index < line.upperBound, bytes[index] == 0x3A else { return .invalidFieldName }
        let name = line.lowerBound..<index
        let value = bytes.trimmed(index &+ 1..<line.upperBound)
        fields.append(
            HeadField(
                kind: FieldKind.classify(bytes, name),
                start: UInt32(truncatingIfNeeded: line.lowerBound),
                nameEnd: UInt32(truncatingIfNeeded: index),
                valueStart: UInt32(truncatingIfNeeded: value.lowerBound),
                valueEnd: UInt32(truncatingIfNeeded: value.upperBound),
                end: UInt32(truncatingIfNeeded: line.upperBound &+ 2)
            )
        )
        assert(fields.last?.name == name && fields.last?.value == value, "A field is not where the head has it.")
        return nil
    }
}

/// What single fields say, and what other readers could take them for.
extension FieldSection {
    /// Whether a tab stands around the value: legal (RFC 9110 §5.5), but some readers take only spaces away.
    static func hasTabAround(_ bytes: borrowing Span<UInt8>, _ field: HeadField) -> Bool {
        for index in Int(field.nameEnd) &+ 1..<Int(field.valueStart) where bytes[index] == 0x09 { return true }
        for index in Int(field.valueEnd)..<Int(field.end) &- 2 where bytes[index] == 0x09 { return true }
        return false
    }

    /// An upstream that reads `_` as `-`, as CGI does, would find another end of the message than we do.
    func hasFramingLookAlike(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard hasUnderscore else { return false }
        for field in fields where Self.isFramingLookAlike(bytes, field) { return true }
        return false
    }

    static func isFramingLookAlike(_ bytes: borrowing Span<UInt8>, _ field: HeadField) -> Bool {
        guard field.kind == .other else { return false }
        return bytes.equalsDashed(field.name, "content-length") || bytes.equalsDashed(field.name, "transfer-encoding")
    }

    /// Reads a `Content-Length`: digits only, at most 18 of them, no list (RFC 9110 §8.6).
    static func contentLength(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> Int? {
        guard !value.isEmpty, value.count <= 18 else { return nil }
        var length = 0
        for index in value {
            guard bytes[index].isDigit else { return nil }
            length = length &* 10 &+ Int(bytes[index] &- 0x30)
        }
        return length
    }
}
