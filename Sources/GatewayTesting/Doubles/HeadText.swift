package import GatewayHTTP

/// Heads that are written as text.
package enum HeadText {
    /// - Parameter fields: Lines without their CRLF.
    /// - Returns: nil where the head cannot be read.
    package static func request<Result>(
        _ fields: [String] = [],
        line: String = "GET / HTTP/1.1",
        _ body: (borrowing RequestHead, borrowing Span<UInt8>) -> Result
    ) -> Result? {
        request(Array(text(line, ["Host: localhost"] + fields).utf8), body)
    }

    package static func request<Result>(
        _ bytes: [UInt8],
        _ body: (borrowing RequestHead, borrowing Span<UInt8>) -> Result
    ) -> Result? {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        guard case .head = decoder.decode(bytes.span) else { return nil }
        return body(decoder.head, bytes.span)
    }

    /// - Returns: nil where the head cannot be read.
    package static func response<Result>(
        _ status: Int,
        _ fields: [String] = [],
        _ body: (borrowing ResponseHead, borrowing Span<UInt8>) -> Result
    ) -> Result? {
        let bytes = Array(text("HTTP/1.1 \(status) x", fields).utf8)
        var decoder = ResponseHeadDecoder(maxBytes: 10_000, maxFields: 100)
        guard case .head = decoder.decode(bytes.span, answersHead: false) else { return nil }
        return body(decoder.head, bytes.span)
    }

    private static func text(_ line: String, _ fields: [String]) -> String {
        ([line] + fields).map { $0 + "\r\n" }.joined() + "\r\n"
    }
}
