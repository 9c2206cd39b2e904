/// Reads the lines of HTTP/1 as fields of HTTP/2: names in lower case, without the fields of a connection (RFC 9113 section
/// 8.2.2).
package enum HTTP2Fields {
    /// - Parameters:
    ///   - bytes: Has lines from `start` on, and the empty line behind them. They are valid.
    ///   - body: `isUnique` says that the value is most likely another one in the next message: in the table that both ends share,
    ///     it would take the place of one that repeats.
    package static func read(
        _ bytes: borrowing Span<UInt8>,
        from start: Int,
        _ body: (_ name: String, _ value: String, _ isUnique: Bool) -> Void
    ) {
        var line = start
        while line < bytes.count, bytes[line] != 0x0D {
            var colon = line
            while colon < bytes.count, bytes[colon] != 0x3A { colon += 1 }
            let end = endOfLine(bytes, from: colon)
            guard colon < end else { return }
            if !FieldKind.classify(bytes, line..<colon).isForbiddenInHTTP2 {
                let value = text(bytes, bytes.trimmed(colon + 1..<end))
                body(bytes.lowercasedString(line..<colon), value, isUnique(bytes, line..<colon))
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

    /// Of the names that other encoders leave out of the table, too.
    private static func isUnique(_ bytes: borrowing Span<UInt8>, _ name: Range<Int>) -> Bool {
        switch name.count {
        case 3: bytes.isToken(name, "age")
        case 4: bytes.isToken(name, "etag")
        case 8: bytes.isToken(name, "location")
        case 11: bytes.isToken(name, "traceparent")
        case 12: bytes.isToken(name, "x-request-id")
        case 13:
            bytes.isToken(name, "last-modified") || bytes.isToken(name, "if-none-match")
                || bytes.isToken(name, "content-range")
        case 14: bytes.isToken(name, "content-length")
        case 17: bytes.isToken(name, "if-modified-since")
        case 18: bytes.isToken(name, "gateway-request-id")
        default: false
        }
    }

    /// The library takes text alone, so a value that is not UTF-8 is read as ISO 8859-1 (RFC 9110 section 5.5).
    private static func text(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> String {
        for index in range where bytes[index] >= 0x80 { return foreignText(bytes.array(range)) }
        return bytes.string(range)
    }

    private static func foreignText(_ value: [UInt8]) -> String {
        String(validating: value, as: UTF8.self)
            ?? String(String.UnicodeScalarView(value.map { Unicode.Scalar($0) }))
    }
}
