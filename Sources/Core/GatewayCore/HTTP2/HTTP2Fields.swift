/// Reads the lines of HTTP/1 as fields of HTTP/2: names in lower case, without the fields of a connection (RFC 9113 section
/// 8.2.2).
package enum HTTP2Fields {
    /// - Parameters:
    ///   - bytes: Has lines from `start` on, and the empty line behind them. They are valid.
    package static func read(
        _ bytes: borrowing Span<UInt8>,
        from start: Int,
        _ body: (_ name: String, _ value: String) -> Void
    ) {
        var line = start
        while line < bytes.count, bytes[line] != 0x0D {
            var colon = line
            while colon < bytes.count, bytes[colon] != 0x3A { colon += 1 }
            let end = endOfLine(bytes, from: colon)
            guard colon < end else { return }
            if !FieldKind.classify(bytes, line..<colon).isForbiddenInHTTP2 {
                body(lowercased(bytes, line..<colon), text(bytes, bytes.trimmed(colon + 1..<end)))
            }
            line = end + 2
        }
    }

    /// The first line's end, behind its CRLF: where the fields begin.
    package static func start(_ bytes: borrowing Span<UInt8>) -> Int { endOfLine(bytes, from: 0) + 2 }

    private static func endOfLine(_ bytes: borrowing Span<UInt8>, from start: Int) -> Int {
        var end = start
        while end < bytes.count, bytes[end] != 0x0D { end += 1 }
        return end
    }

    private static func lowercased(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> String {
        String(decoding: bytes.array(range).map(\.asciiLowercased), as: UTF8.self)
    }

    /// The library takes text alone, so a value that is not UTF-8 is read as ISO 8859-1 (RFC 9110 section 5.5).
    private static func text(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> String {
        let value = bytes.array(range)
        return String(validating: value, as: UTF8.self)
            ?? String(String.UnicodeScalarView(value.map { Unicode.Scalar($0) }))
    }
}
