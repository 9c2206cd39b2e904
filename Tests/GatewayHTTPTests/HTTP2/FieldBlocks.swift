@testable import GatewayHTTP

/// Bytes from their hexadecimal digits; spaces are for the reader.
func hexBytes(_ hex: some StringProtocol) -> [UInt8] {
    let digits = hex.utf8.compactMap(\.hexValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

extension HTTP2FieldTable {
    /// Everything that was kept, a line a field; the empty line at the end is left out.
    var lines: [String] {
        String(decoding: bytes[..<end], as: UTF8.self).split(separator: "\r\n").map(String.init)
    }

    func text(_ range: Range<Int>?) -> String? { range.map { String(decoding: bytes[$0], as: UTF8.self) } }
}

extension FieldBlockDecoder {
    /// Decodes a block into a table of its own.
    mutating func decode(
        _ block: [UInt8],
        _ message: HTTP2FieldTable.Message = .request,
        maxBytes: Int = 32_768,
        maxFields: Int = 100
    ) throws(HTTP2Fault) -> HTTP2FieldTable {
        var fields = HTTP2FieldTable()
        fields.begin(message, maxBytes: maxBytes, maxFields: maxFields)
        try decode(block.span, into: &fields, maxBytes: maxBytes)
        return fields
    }
}

/// Spells fields out for a decoder, with and without an index.
enum FieldLiteral {
    static func field(_ name: String, _ value: String, first: UInt8 = 0x00) -> [UInt8] {
        [first] + string(Array(name.utf8)) + string(Array(value.utf8))
    }

    static func indexed(_ name: String, _ value: String) -> [UInt8] { field(name, value, first: 0x40) }

    static func string(_ bytes: [UInt8], isHuffman: Bool = false) -> [UInt8] {
        integer(bytes.count, prefix: 7, pattern: isHuffman ? 0x80 : 0x00) + bytes
    }

    static func integer(_ value: Int, prefix: Int, pattern: UInt8) -> [UInt8] {
        let mask = 1 << prefix - 1
        guard value >= mask else { return [pattern | UInt8(value)] }
        var (result, rest) = ([pattern | UInt8(mask)], value - mask)
        while rest >= 128 {
            result.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        return result + [UInt8(rest)]
    }
}

/// Writes frames as a peer does, well or badly.
enum TestFrame {
    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    /// `:method: GET`, `:scheme: https`, `:path: /` and an authority.
    static let request = hexBytes("82 87 84 01 01 61")

    static func frame(_ type: HTTP2FrameType, _ flags: UInt8 = 0, _ stream: UInt32 = 0, _ payload: [UInt8] = [])
        -> [UInt8]
    {
        frame(type.rawValue, flags, stream, payload)
    }

    static func frame(_ type: UInt8, _ flags: UInt8, _ stream: UInt32, _ payload: [UInt8]) -> [UInt8] {
        [UInt8(payload.count >> 16), UInt8(payload.count >> 8 & 0xFF), UInt8(payload.count & 0xFF), type, flags]
            + word(stream) + payload
    }

    static func word(_ value: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> UInt32($0)) }
    }

    static func settings(_ settings: (UInt16, UInt32)...) -> [UInt8] {
        frame(.settings, 0, 0, settings.flatMap { [UInt8($0.0 >> 8), UInt8($0.0 & 0xFF)] + word($0.1) })
    }

    static func headers(_ stream: UInt32, isLast: Bool = true, _ block: [UInt8] = request) -> [UInt8] {
        frame(.headers, isLast ? 5 : 4, stream, block)
    }

    static func data(_ stream: UInt32, _ count: Int, isLast: Bool = false) -> [UInt8] {
        frame(.data, isLast ? 1 : 0, stream, [UInt8](repeating: 0x61, count: count))
    }

    static func windowUpdate(_ stream: UInt32, _ increment: UInt32) -> [UInt8] {
        frame(.windowUpdate, 0, stream, word(increment))
    }

    static func reset(_ stream: UInt32, _ code: UInt32 = 8) -> [UInt8] { frame(.reset, 0, stream, word(code)) }
}
