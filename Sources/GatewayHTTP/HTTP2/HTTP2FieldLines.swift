/// Writes fields of HTTP/2 as lines of HTTP/1, each checked first (RFC 9113 section 8.2).
///
/// What HTTP/1 forbids beyond that is left to the decoder that reads the lines.
package struct HTTP2FieldLines: Sendable {
    package private(set) var bytes: [UInt8]
    /// Crumbs of the cookie, joined (RFC 9113 section 8.2.3).
    private var cookie: [UInt8] = []

    /// - Parameter start: What stands before the fields.
    package init(behind start: [UInt8] = []) {
        bytes = start
        bytes.reserveCapacity(start.count + 512)
    }

    /// - Returns: Why the message is malformed. The lines are of no use then.
    package mutating func add(_ name: String, _ value: String) -> HTTP2Malformation? {
        let start = bytes.count
        bytes.append(contentsOf: name.utf8)
        let nameEnd = bytes.count
        bytes.append(contentsOf: [0x3A, 0x20])
        bytes.append(contentsOf: value.utf8)
        let (name, value) = (start..<nameEnd, nameEnd + 2..<bytes.count)
        if let reason = Self.check(bytes.span, name, value) { return reason }
        if FieldKind.classify(bytes.span, name) == .cookie, name.count == "cookie".utf8.count {
            if !cookie.isEmpty { cookie.append(contentsOf: [0x3B, 0x20]) }
            cookie.append(contentsOf: bytes[value])
            bytes.removeSubrange(start...)
        } else {
            bytes.append(contentsOf: [0x0D, 0x0A])
        }
        return nil
    }

    /// - Parameter lines: Valid, each with its line end, or parts of such a line.
    package mutating func append(_ lines: some Sequence<UInt8>) { bytes.append(contentsOf: lines) }

    /// Ends the section: the joined cookie, and the empty line.
    package mutating func end() {
        if !cookie.isEmpty {
            bytes.append(contentsOf: "cookie: ".utf8)
            bytes.append(contentsOf: cookie)
            bytes.append(contentsOf: [0x0D, 0x0A])
        }
        bytes.append(contentsOf: [0x0D, 0x0A])
    }

    // MARK: Rules

    private static func check(
        _ bytes: borrowing Span<UInt8>,
        _ name: Range<Int>,
        _ value: Range<Int>
    ) -> HTTP2Malformation? {
        guard isLowercaseToken(bytes, name) else { return .invalidName }
        if let reason = check(bytes, value: value) { return reason }
        return switch FieldKind.classify(bytes, name) {
        case let kind where kind.isForbiddenInHTTP2: .connectionField
        case .te where !bytes.equalsLowercased(value, "trailers"): .invalidTE
        default: nil
        }
    }

    private static func isLowercaseToken(_ bytes: borrowing Span<UInt8>, _ name: Range<Int>) -> Bool {
        for index in name {
            guard bytes[index].isTokenByte, bytes[index].asciiLowercased == bytes[index] else { return false }
        }
        return !name.isEmpty
    }

    static func check(_ value: String) -> HTTP2Malformation? {
        var last: UInt8 = 0
        for byte in value.utf8 {
            switch byte {
            case 0x00, 0x0A, 0x0D: return .invalidValue
            default: last = byte
            }
        }
        let isPadded = value.utf8.first?.isOptionalWhitespace == true || last.isOptionalWhitespace
        return isPadded ? .paddedValue : nil
    }

    private static func check(_ bytes: borrowing Span<UInt8>, value: Range<Int>) -> HTTP2Malformation? {
        guard let first = value.first, let last = value.last else { return nil }
        if bytes[first].isOptionalWhitespace || bytes[last].isOptionalWhitespace { return .paddedValue }
        for index in value {
            switch bytes[index] {
            case 0x00, 0x0A, 0x0D: return .invalidValue
            default: break
            }
        }
        return nil
    }
}
