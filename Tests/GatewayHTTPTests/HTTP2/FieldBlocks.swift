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
    ) throws(Fault) -> HTTP2FieldTable {
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
