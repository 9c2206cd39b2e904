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
