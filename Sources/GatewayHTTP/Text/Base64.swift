import FoundationEssentials

/// RFC 4648.
package enum Base64 {
    /// The standard alphabet with padding (§4).
    package static func encode(_ bytes: some Sequence<UInt8>) -> String { Data(bytes).base64EncodedString() }

    /// The URL-safe alphabet without padding (§5), as JSON web tokens have it.
    package static func encodeURL(_ bytes: some Sequence<UInt8>) -> String {
        encode(bytes).filter { $0 != "=" }.replacing("+", with: "-").replacing("/", with: "_")
    }

    /// Reads the standard alphabet with padding (§4); nil when `text` is anything else.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        Data(base64Encoded: Data(text.utf8)).map { Array($0) }
    }

    /// Reads the URL-safe alphabet (§5), with or without padding; nil when `text` is anything else.
    package static func decodeURL(_ text: some StringProtocol) -> [UInt8]? {
        var standard: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "-"): standard.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): standard.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"): return nil
            case UInt8(ascii: "="): continue
            default: standard.append(byte)
            }
        }
        standard.append(contentsOf: repeatElement(UInt8(ascii: "="), count: (4 - standard.count % 4) % 4))
        return Data(base64Encoded: Data(standard)).map { Array($0) }
    }
}

/// Bytes and numbers as hexadecimal digits.
package enum Hexadecimal {
    /// Two lower-case digits for each byte.
    package static func text(of bytes: some Sequence<UInt8>) -> String {
        var digits: [UInt8] = []
        for byte in bytes {
            digits.append(digit(byte >> 4))
            digits.append(digit(byte & 0x0F))
        }
        return String(decoding: digits, as: UTF8.self)
    }

    /// The two lower-case digits of a byte, as ASCII.
    package static func digits(of byte: UInt8) -> (UInt8, UInt8) { (digit(byte >> 4), digit(byte & 0x0F)) }
    /// Sixteen lower-case digits.
    package static func text(of value: UInt64) -> String {
        text(of: (0..<8).map { UInt8(truncatingIfNeeded: value >> (56 - 8 * UInt64($0))) })
    }

    /// Takes digits of either case; nil when there is anything else, or a digit is missing.
    package static func bytes(of text: String) -> [UInt8]? {
        let digits = text.utf8.map(\.hexValue)
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    /// At least four lower-case digits, as in `\u000a`.
    package static func number(_ value: UInt32) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }

    /// Two digits for each of `count` random bytes.
    package static func random(bytes count: Int, from generator: inout some RandomNumberGenerator) -> String {
        text(of: (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// Two digits for each of `count` bytes of the system's.
    package static func random(bytes count: Int) -> String {
        text(of: (0..<count).map { _ in UInt8.random(in: .min ... .max) })
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}

/// Keys and certificates as text (RFC 7468).
package enum PEM {
    private static let begin = "-----BEGIN CERTIFICATE-----"
    private static let end = "-----END CERTIFICATE-----"

    /// The content of each certificate, in base64 without line breaks.
    package static func certificates(in text: String) -> [String] {
        var found: [String] = []
        var current: String?
        for line in text.split(whereSeparator: \.isNewline) {
            let line = line.drop { $0 == " " }
            if line.hasPrefix(begin) {
                current = ""
            } else if line.hasPrefix(end) {
                if let current, !current.isEmpty { found.append(current) }
                current = nil
            } else if current != nil {
                current?.append(contentsOf: line.filter { !$0.isWhitespace })
            }
        }
        return found
    }

    /// - Parameter base64: The content of a certificate, without line breaks.
    package static func text(ofCertificate base64: String) -> String {
        var lines = "\(begin)\n"
        var rest = base64[...]
        while !rest.isEmpty {
            lines += rest.prefix(64) + "\n"
            rest = rest.dropFirst(64)
        }
        return lines + "\(end)\n"
    }

    /// What stands behind the first `BEGIN`, made of capitals, digits and spaces only, so that it can be shown.
    package static func label(of text: String) -> String? {
        guard let begin = text.firstRange(of: "-----BEGIN ") else { return nil }
        let rest = text[begin.upperBound...].prefix(40)
        guard let end = rest.firstRange(of: "-----") else { return nil }
        let label = rest[..<end.lowerBound]
        guard label.utf8.allSatisfy({ (0x41...0x5A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x20 }) else {
            return nil
        }
        return String(label)
    }
}
