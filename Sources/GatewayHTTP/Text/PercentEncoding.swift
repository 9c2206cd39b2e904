/// Percent-encoding (RFC 3986 section 2.1), and what ``FormEncoding`` does differently.
package enum PercentEncoding {
    /// Leaves only unreserved characters as they are (RFC 3986 section 2.3).
    package static func encode(_ text: String) -> String { String(decoding: bytes(of: text), as: UTF8.self) }

    /// Like ``encode(_:)``, as bytes.
    package static func bytes(of text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        append(text, to: &bytes)
        return bytes
    }

    /// For one segment of a path: leaves what stands for itself there (RFC 3986 section 3.3), but for what some servers read as
    /// something else.
    package static func encode(segment text: String) -> String {
        var bytes: [UInt8] = []
        append(text, to: &bytes, keeping: Set("!$&*=:@".utf8))
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns nil when an escape is broken or the bytes are not UTF-8.
    package static func decode(_ text: String) -> String? { decodeStrictly(Array(text.utf8)) }

    /// Undoes the escapes of `range`. A broken one stays as it is.
    ///
    /// - Parameter isForm: Whether `+` is a space.
    package static func decodeLeniently(
        _ bytes: borrowing Span<UInt8>,
        _ range: Range<Int>,
        isForm: Bool = false
    ) -> [UInt8] {
        var decoded: [UInt8] = []
        var index = range.lowerBound
        while index < range.upperBound {
            if let byte = escape(bytes, at: index, before: range.upperBound) {
                decoded.append(byte)
                index += 3
            } else {
                decoded.append(isForm && bytes[index] == UInt8(ascii: "+") ? 0x20 : bytes[index])
                index += 1
            }
        }
        return decoded
    }

    /// Undoes only the escapes of unreserved characters, which mean the same as the characters (RFC 3986 section 6.2.2.2).
    package static func decodeUnreserved(_ bytes: [UInt8]) -> [UInt8] {
        guard bytes.contains(UInt8(ascii: "%")) else { return bytes }
        let span = bytes.span
        var decoded: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if let byte = escape(span, at: index, before: bytes.count), isUnreserved(byte) {
                decoded.append(byte)
                index += 3
            } else {
                decoded.append(bytes[index])
                index += 1
            }
        }
        return decoded
    }

    static func decodeStrictly(_ bytes: [UInt8], isForm: Bool = false) -> String? {
        let span = bytes.span
        // Hexadecimal digits are no percent signs, so each of those begins an escape of its own.
        for index in bytes.indices where bytes[index] == UInt8(ascii: "%") {
            guard escape(span, at: index, before: bytes.count) != nil else { return nil }
        }
        return String(validating: decodeLeniently(span, 0..<bytes.count, isForm: isForm), as: UTF8.self)
    }

    /// - Parameter kept: What stays as it is besides unreserved characters.
    package static func append(
        _ text: String,
        to bytes: inout [UInt8],
        isForm: Bool = false,
        keeping kept: Set<UInt8> = []
    ) {
        for byte in text.utf8 {
            switch byte {
            case _ where isUnreserved(byte):
                bytes.append(byte)
            case 0x20 where isForm:
                bytes.append(UInt8(ascii: "+"))
            default:
                if kept.contains(byte) { bytes.append(byte) } else { append(escapeOf: byte, to: &bytes) }
            }
        }
    }

    /// Appends one byte, encoded unless it is an unreserved character.
    package static func append(_ byte: UInt8, to bytes: inout [UInt8]) {
        if isUnreserved(byte) { bytes.append(byte) } else { append(escapeOf: byte, to: &bytes) }
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
        default: false
        }
    }

    static func append(escapeOf byte: UInt8, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "%"))
        bytes.append(upperHexDigit(byte >> 4))
        bytes.append(upperHexDigit(byte & 0x0F))
    }

    /// What the escape at `index` stands for; nil when there is none, or it is broken.
    package static func escape(_ bytes: borrowing Span<UInt8>, at index: Int, before end: Int) -> UInt8? {
        guard bytes[index] == UInt8(ascii: "%"), index + 2 < end, let high = bytes[index + 1].hexValue,
            let low = bytes[index + 2].hexValue
        else { return nil }
        return high << 4 | low
    }

    private static func upperHexDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x37 + value }
}

/// `application/x-www-form-urlencoded`, strictly: everything but letters, digits and `-._~` is escaped, a space is `+`.
package enum FormEncoding {
    package static func encode(_ text: String) -> String {
        var bytes: [UInt8] = []
        PercentEncoding.append(text, to: &bytes, isForm: true)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Undoes the encoding; nil when an escape is broken or the bytes are not UTF-8.
    package static func decode(_ bytes: some Sequence<UInt8>) -> String? {
        PercentEncoding.decodeStrictly(Array(bytes), isForm: true)
    }
}
